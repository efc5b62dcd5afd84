//! The set of files of a database, and the version that follows from it.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use firn_engine::{Error, ErrorKind};
use firn_storage::Clock;

use super::Manifest;
use super::{Keyspace, Snapshots, Version};
use crate::error::from_storage;

/// Which files there are, on disk and in memory.
///
/// Readers load the version without a lock. Each change of the set of files is one edit of the
/// manifest, durable before the version that follows from it is stored.
///
/// 1. A version is stored under `changing`, and made from the one that is stored there: no change
///    is lost. Established by [`change_version`](Self::change_version) and by the roll.
/// 2. `manifest` is held until the version that follows from its edit is stored: versions come in
///    the order of edits. Established by `edits/commit.rs`.
///
/// Lock order: `manifest`, then `changing`.
#[derive(Debug)]
pub(crate) struct Catalog {
    pub(crate) version: ArcSwap<Version>,
    /// Held while a new version is made from the current one and stored.
    pub(crate) changing: Mutex<()>,
    /// Held while an edit is made durable; the version that follows from it is stored before it is
    /// let go.
    pub(crate) manifest: Mutex<Manifest>,
    /// The manifest's own: statistics do not wait for an edit, which may take minutes where the
    /// backend is away.
    pub(crate) manifest_write_bytes: Arc<AtomicU64>,
    pub(crate) snapshots: Arc<Snapshots>,
    /// The latest moment that an earlier run of the database has seen, for expiry.
    tick_ms: u64,
    clock: Arc<dyn Clock>,
    /// Number of the next sorted run of level 0.
    pub(crate) next_run: AtomicU64,
}

impl Catalog {
    /// The catalog of a database that opens with `version`, which is what `manifest` names. Time
    /// for expiry is that of the clock, from `tick_ms` on.
    pub(crate) fn new(
        version: Version,
        manifest: Manifest,
        (clock, tick_ms): (Arc<dyn Clock>, u64),
        next_run: u64,
    ) -> Self {
        Self {
            version: ArcSwap::new(Arc::new(version)),
            changing: Mutex::new(()),
            manifest_write_bytes: manifest.written_bytes(),
            manifest: Mutex::new(manifest),
            snapshots: Arc::new(Snapshots::default()),
            tick_ms,
            clock,
            next_run: AtomicU64::new(next_run),
        }
    }

    /// Stores the version that `change` makes of the current one.
    pub(crate) fn change_version<T>(&self, change: impl FnOnce(&mut Version) -> T) -> T {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut version = (**self.version.load()).clone();
        let answer = change(&mut version);
        self.version.store(Arc::new(version));
        answer
    }

    /// Stores a version in which `change` was made to `keyspace`, if it is still there.
    pub(crate) fn change_keyspace(&self, keyspace: u32, change: impl FnOnce(&mut Keyspace)) {
        self.change_version(|version| {
            if let Some(Some(state)) = version.keyspaces.get_mut(keyspace as usize) {
                change(Arc::make_mut(state));
            }
        });
    }

    /// Now, for expiry: never before a moment an earlier run of the database has seen.
    #[inline]
    pub(crate) fn now_ms(&self) -> u64 {
        self.clock.unix_ms().max(self.tick_ms)
    }

    /// Why work failed with `error`, on files that other machines share if `is_shared`: where one
    /// of those has taken the database over, it has removed files too.
    pub(crate) fn explained(&self, error: Error, is_shared: bool) -> Error {
        if error.kind() == ErrorKind::Retry || !is_shared {
            return error;
        }
        let mut manifest = self.manifest.lock().unwrap_or_else(PoisonError::into_inner);
        if manifest.is_overtaken() { manifest.failure().map_or(error, from_storage) } else { error }
    }
}
