//! Sessions for operations under way.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError};

use firn_engine::Ordered;
use firn_engine::future::{Futures, OrderedFutures};

/// Sessions that are kept for later operations, at most.
const IDLE_MAX: usize = 256;

/// Sessions of one database: as many as operations were ever under way at once, up to
/// [`IDLE_MAX`].
pub(super) struct Sessions {
    engine: Arc<dyn Ordered>,
    idle: Mutex<Vec<OrderedFutures>>,
}

impl Sessions {
    pub(super) fn new(engine: Arc<dyn Ordered>) -> Self {
        Self { engine, idle: Mutex::default() }
    }

    /// A session for one operation.
    pub(super) fn take(&self) -> InUse<'_> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        InUse { futures: Some(idle.unwrap_or_else(|| self.fresh())), sessions: self }
    }

    /// A session to keep.
    pub(super) fn fresh(&self) -> OrderedFutures {
        Futures::new(self.engine.ordered_session())
    }
}

/// A session that goes back, unless its operation was abandoned: what is left of it goes with the
/// session.
pub(super) struct InUse<'s> {
    /// `None` once it has gone back.
    futures: Option<OrderedFutures>,
    sessions: &'s Sessions,
}

impl Deref for InUse<'_> {
    type Target = OrderedFutures;

    fn deref(&self) -> &OrderedFutures {
        self.futures.as_ref().expect("a session that has not gone back")
    }
}

impl DerefMut for InUse<'_> {
    fn deref_mut(&mut self) -> &mut OrderedFutures {
        self.futures.as_mut().expect("a session that has not gone back")
    }
}

impl Drop for InUse<'_> {
    fn drop(&mut self) {
        if let Some(futures) = self.futures.take()
            && futures.is_idle()
            && !std::thread::panicking()
        {
            let mut idle = self.sessions.idle.lock().unwrap_or_else(PoisonError::into_inner);
            if idle.len() < IDLE_MAX {
                idle.push(futures);
            }
        }
    }
}
