//! What reads share: cached blocks, threads that wait for devices, locks on keys.

use std::sync::Arc;

use firn_engine::{Durability, LockTable};
use firn_storage::backend::{ReadPool, Rejected};
use firn_storage::file::cache::BlockCache;

use crate::memory::Balance;

/// What the sessions of a database read and wait with.
#[derive(Debug)]
pub(crate) struct Reads {
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
}

impl Reads {
    /// Reads through `cache`, on the threads of `pool`; waits for shared storage on `share_pool`.
    pub(crate) fn new(
        cache: Arc<BlockCache>,
        balance: Balance,
        pool: Option<ReadPool>,
        share_pool: Option<ReadPool>,
    ) -> Self {
        Self { cache, balance, pool, share_pool, locks: LockTable::new() }
    }

    /// Runs `work` on the read pool, or here and now where there is none (deterministic tests).
    pub(crate) fn on_pool(&self, work: impl FnOnce() + Send + 'static) {
        on(self.pool.as_ref(), work);
    }

    /// As [`on_pool`](Self::on_pool), on a thread where a wait for that `durability` keeps no read
    /// waiting.
    pub(crate) fn on_pool_for(&self, durability: Durability, work: impl FnOnce() + Send + 'static) {
        match durability {
            Durability::Process | Durability::Disk => on(self.pool.as_ref(), work),
            Durability::Shared => on(self.share_pool.as_ref().or(self.pool.as_ref()), work),
        }
    }
}

fn on(pool: Option<&ReadPool>, work: impl FnOnce() + Send + 'static) {
    let Some(pool) = pool else { return work() };
    match pool.submit(Box::new(work)) {
        Ok(()) => {}
        // A full queue slows the thread that fills it; a closed one is flushed by its last users.
        Err(Rejected::Full(work) | Rejected::Closed(work)) => work(),
    }
}
