//! What reads share: versions and blobs, cached blocks, threads that wait for devices, locks on
//! keys.

use std::sync::Arc;

use firn_engine::{Durability, LockTable};
use firn_storage::backend::{ReadPool, Rejected};
use firn_storage::file::cache::BlockCache;

use crate::blobs::BlobStore;
use crate::counters::ReadCounters;
use crate::memory::Balance;
use crate::version::catalog::Catalog;

/// What the sessions of a database read and wait with.
#[derive(Debug)]
pub(crate) struct Reads {
    /// Which versions there are, and what time it is for records that expire.
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) blobs: Arc<BlobStore>,
    pub(crate) cache: Arc<BlockCache>,
    /// How the memory is shared between the cache and the rest.
    pub(crate) balance: Balance,
    /// Threads for reads that miss memory; `None` where the owner does all work.
    pub(crate) pool: Option<ReadPool>,
    /// For writes that wait for shared storage: one at a time, and each finds the ones before it
    /// done.
    pub(crate) share_pool: Option<ReadPool>,
    /// Locks on keys, for sessions that ask for them.
    pub(crate) locks: Arc<LockTable>,
    pub(crate) counters: ReadCounters,
}

impl Reads {
    /// Reads of what `catalog` and `blobs` have, through a cache that shares its memory as said; on
    /// the threads of a pool, and another one for waits for shared storage.
    pub(crate) fn new(
        catalog: &Arc<Catalog>,
        blobs: &Arc<BlobStore>,
        (cache, balance): (Arc<BlockCache>, Balance),
        (pool, share_pool): (Option<ReadPool>, Option<ReadPool>),
    ) -> Self {
        let (catalog, blobs) = (Arc::clone(catalog), Arc::clone(blobs));
        let (locks, counters) = (LockTable::new(), ReadCounters::default());
        Self { catalog, blobs, cache, balance, pool, share_pool, locks, counters }
    }

    /// Runs `work` on the read pool, or here and now where there is none (deterministic tests).
    pub(crate) fn on_pool(&self, work: impl FnOnce() + Send + 'static) {
        on(self.pool.as_ref(), work);
    }

    /// As [`on_pool`](Self::on_pool), on a thread where a wait for that `durability` keeps no read
    /// waiting.
    pub(crate) fn on_pool_for(&self, durability: Durability, work: impl FnOnce() + Send + 'static) {
        match durability {
            Durability::Shared => on(self.share_pool.as_ref().or(self.pool.as_ref()), work),
            _ => on(self.pool.as_ref(), work),
        }
    }
}

fn on(pool: Option<&ReadPool>, work: impl FnOnce() + Send + 'static) {
    let Some(pool) = pool else { return work() };
    match pool.submit(Box::new(work)) {
        Ok(()) => {}
        // A full queue slows the thread that fills it; so does a closed one.
        Err(Rejected::Full(work) | Rejected::Closed(work)) => work(),
    }
}
