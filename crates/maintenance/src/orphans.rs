//! Removing outputs of attempts at jobs that nothing waits for any more, while the engine is open.
//!
//! A worker elsewhere may stand still for long. It then goes on without knowing that its attempt
//! was given up and that another executor has done the job. No edit will ever name the files that
//! it creates then, and only a list finds them. The next opening would list; an engine that stays
//! open lists by itself.
//!
//! The storage may carry out a request of a killed process after the next opening has listed what
//! there was. A process that is killed as it sends a file in parts leaves an upload. A list of
//! uploads finds it, and it goes by the same rule.
//!
//! ```text
//!   list ─► stems that nothing waits for ─► files that have holders
//!        ─► still the last writer? ─► what the manifest names ─► remove
//! ```
//! In this order. If the stem of a listed file is let go of by then, an edit names the file by
//! then, or none ever will. If one does, the manifest still names the file, or a reader has held it
//! since before, or it is obsolete. A process that takes the database over writes an edit first:
//! what was listed before that is not its own.
//!
//! An upload of a file that the manifest names, or that has a holder, stays as the file does. It
//! may have begun twice, or have ended and not been forgotten: stores are known that remove the
//! file's parts then ([decision 0020](../../../docs/decisions/0020-object-stores.md)).
//!
//! # Invariants
//! 1. Nothing is removed that an edit names, or will name: [`orphans_of`] asks in the order above.
//! 2. A search that could not remove all is repeated, ever later: [`OrphanGc::run`].

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use firn_engine::Result;
use firn_format::file_name::{FileName, parse};
use firn_jobs::submit::{AbandonedNames, Aborted, Reach, Uploads};
use firn_storage::{Clock, ErrorKind, Storage};

/// What an engine knows of its files. It is asked in the order of these methods, after the storage
/// has listed its files.
pub trait KnownFiles {
    /// Outputs that nothing waits for any more, by their stems.
    fn abandoned(&self) -> AbandonedNames;

    /// Files that have holders, wait for their removal, or are kept to be used again; `None` where
    /// that is not known.
    fn held(&self) -> Option<BTreeSet<String>>;

    /// Has `judge` judge names, with a rule that tells of a name among `listed` whether no edit has
    /// it and none ever will; `false` without that if it cannot be told now. Outputs are judged by
    /// [`is_abandoned`]. Holds the manifest's lock meanwhile.
    ///
    /// # Errors
    /// `Closed`: another machine has taken the database over.
    fn judge(
        &self,
        listed: &[(String, u64)],
        abandoned: &AbandonedNames,
        judge: impl FnOnce(&dyn Fn(&str) -> bool),
    ) -> Result<bool>;
}

/// Where orphans are removed.
#[derive(Clone, Copy, Debug)]
pub struct Removal<'e> {
    /// Where they lie.
    pub storage: &'e dyn Storage,
    /// For when they are looked for again.
    pub clock: &'e dyn Clock,
}

/// How many were removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// Files.
    pub files: u64,
    /// Uploads that were aborted.
    pub uploads: u64,
}

/// Whether `name` is an output's, nothing waits for that output, and no edit has it, which
/// `is_named` tells.
pub fn is_abandoned(name: &str, abandoned: &AbandonedNames, is_named: impl Fn(&str) -> bool) -> bool {
    let stem = match parse(name) {
        Some(
            FileName::Table { stem, .. }
            | FileName::Tables { stem, .. }
            | FileName::CollectedBlobs { stem, .. },
        ) => stem,
        _ => return false,
    };
    abandoned.contains(&stem) && !is_named(name)
}

/// Files on `storage` that no edit names and none ever will, and uploads of such; `None` if that
/// cannot be told now. Blocks for two lists, and for what `known` does.
fn orphans_of(storage: &dyn Storage, known: &impl KnownFiles) -> Result<Option<(Vec<String>, Uploads)>> {
    let Ok(listed) = storage.list() else { return Ok(None) };
    let mut uploads = Uploads::list(storage);
    let abandoned = known.abandoned();
    let Some(held) = known.held() else { return Ok(None) };
    let mut files = Vec::new();
    let is_judged = known.judge(&listed, &abandoned, |is_orphan| {
        let goes = |name: &str| is_orphan(name) && !held.contains(name);
        uploads.retain(goes);
        files.extend(listed.iter().map(|(name, _)| name).filter(|name| goes(name)).cloned());
    })?;
    Ok(is_judged.then_some((files, uploads)))
}

/// When there may be something to remove.
///
/// 1. `GRACE` after an attempt came to nothing, or something could not be removed: the worker of
///    that attempt may write for a while still. Longer, the more searches in a row could not remove
///    it.
/// 2. On shared storage, `GRACE` after the opening, and again after log objects of the process
///    before are needed no more. What that process asked for last may be done later still. Where
///    searches do not come to their end, when the next one does.
/// 3. Once in `REST` while jobs end, and once more after: an attempt of which no count tells, or
///    that stood still for longer.
/// 4. Never else, so that an engine at which nothing happens asks nothing of its storage.
#[derive(Debug)]
pub struct OrphanGc {
    due: Mutex<Due>,
    /// Why uploads that nothing waits for may be there still, in words.
    upload_refusal: Mutex<Option<String>>,
}

/// Moments of the engine's clock.
#[derive(Debug, Default)]
struct Due {
    /// How often something was left, and when that was first and last noticed since the last
    /// search.
    left: u64,
    first_left_at: Option<Duration>,
    last_left_at: Option<Duration>,
    /// How many jobs have ended, and when that was noticed last.
    ended: u64,
    ended_at: Option<Duration>,
    /// The last search, or the opening.
    searched_at: Duration,
    /// How often searches did not come to their end, one after the other.
    repeats: u32,
}

/// How long what an attempt that came to nothing left stays at least: the attempt may write more,
/// and others may come to nothing soon.
const GRACE: Duration = Duration::from_secs(60);

/// How long after the search before comes a search that nothing else asks for.
const REST: Duration = Duration::from_secs(3600);

impl OrphanGc {
    /// No search was needed until `now`: the opening has removed what there was, except for uploads
    /// that it could not, which `aborted` tells. More `may_follow`.
    pub fn new(now: Duration, aborted: Aborted, may_follow: bool) -> Self {
        let due = Due { searched_at: now, ..Due::default() };
        let gc = Self { due: Mutex::new(due), upload_refusal: Mutex::new(aborted.refusal) };
        if aborted.may_pass {
            gc.repeat(now);
        }
        if may_follow {
            gc.expect(now);
        }
        gc
    }

    /// Why uploads that nothing waits for may be there still.
    pub fn upload_refusal(&self) -> Option<String> {
        self.upload_refusal.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Notes why they may be.
    fn set_upload_refusal(&self, refusal: Option<String>) {
        *self.upload_refusal.lock().unwrap_or_else(PoisonError::into_inner) = refusal;
    }

    /// Whether a search is due at the moment `now`, where `ended` jobs have ended and something was
    /// left `left` times.
    pub fn is_due(&self, now: Duration, ended: u64, left: u64) -> bool {
        let mut due = self.lock();
        if left > due.left {
            due.left = left;
            due.first_left_at.get_or_insert(now);
            due.last_left_at = Some(now);
        }
        if ended > due.ended {
            due.ended = ended;
            due.ended_at = Some(now);
        }
        let was_left = due.first_left_at.is_some_and(|at| now.saturating_sub(at) >= GRACE);
        let was_used = due.ended_at.is_some_and(|at| at.saturating_add(REST) > due.searched_at);
        was_left || was_used && now.saturating_sub(due.searched_at) >= REST
    }

    /// Looks for orphans and removes them, until `is_stopping`. Blocks for two lists, and for a
    /// request for each of them.
    ///
    /// # Errors
    /// What [`KnownFiles::judge`] says. What the storage says is none: it is asked again in a
    /// while.
    pub fn run(
        &self,
        known: &impl KnownFiles,
        Removal { storage, clock }: Removal<'_>,
        is_stopping: impl Fn() -> bool,
    ) -> Result<Removed> {
        self.begin(clock.now());
        let mut removed = Removed::default();
        let mut is_all = false;
        if let Some((files, uploads)) = orphans_of(storage, known)? {
            is_all = true;
            for name in files {
                if is_stopping() {
                    break;
                }
                match storage.remove(&name) {
                    Ok(()) => removed.files += 1,
                    Err(error) => is_all &= error.kind == ErrorKind::NotFound,
                }
            }
            let aborted = uploads.abort(storage, Reach::ORPHAN_GC, is_stopping);
            removed.uploads = aborted.count;
            // A storage that refuses, or cannot list or abort uploads, answers the same in a
            // minute.
            is_all &= !aborted.may_pass;
            self.set_upload_refusal(aborted.refusal);
        }
        match is_all {
            true => self.end(),
            false => self.repeat(clock.now()),
        }
        Ok(removed)
    }

    /// A search begins, which finds what was left [`GRACE`] ago, and not all of what was since.
    fn begin(&self, now: Duration) {
        let mut due = self.lock();
        due.searched_at = now;
        due.first_left_at = due.last_left_at.filter(|at| now.saturating_sub(*at) < GRACE);
    }

    /// There may be something to remove in a while, of which no count will tell.
    pub fn expect(&self, now: Duration) {
        let mut due = self.lock();
        due.first_left_at.get_or_insert(now);
        due.last_left_at = due.last_left_at.max(Some(now));
    }

    /// The last search did not come to its end: it is repeated in a while, and in twice as long
    /// each time, up to [`REST`].
    fn repeat(&self, now: Duration) {
        let mut due = self.lock();
        let pause = GRACE.saturating_mul(1 << due.repeats.min(10)).min(REST);
        due.repeats += 1;
        // As if what is left had been noticed then.
        let noticed = now.saturating_add(pause - GRACE);
        due.last_left_at = Some(noticed);
        due.first_left_at = Some(noticed);
    }

    /// The last search came to its end.
    fn end(&self) {
        self.lock().repeats = 0;
    }

    /// Whether something is or may be left that is to be looked for.
    pub fn is_left(&self) -> bool {
        self.lock().first_left_at.is_some()
    }

    fn lock(&self) -> MutexGuard<'_, Due> {
        self.due.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
