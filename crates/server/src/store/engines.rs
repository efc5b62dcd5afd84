//! The engines that hold what a server serves: the one place that names them.
//!
//! One engine serves every slot of every database today. Where slots get engines of their own, the
//! map from [`Slot`](firn_format::datatype::Slot) to engine belongs here. Keys of the engine have
//! their slot in them. Three kinds of callers come through here, and each then asks for the engine
//! of a slot:
//! 1. `EngineSession`, for each read and each lock of a key: a session for each engine.
//! 2. A transaction, for the snapshot of a moment: one for each engine that it reads.
//! 3. A write: its batch is of one engine, or is divided.

use std::sync::Arc;

use firn_engine::{Ordered, OrderedSession, Result, Session, Snapshot};

/// The engines of a server.
#[derive(Clone)]
pub(crate) struct Engines {
    /// Of all slots.
    all: Arc<dyn Ordered>,
}

impl Engines {
    /// One engine for all slots.
    pub(super) fn one(engine: Arc<dyn Ordered>) -> Self {
        Self { all: engine }
    }

    /// What a server thread reads, locks and writes with. A call that has to wait is answered
    /// later, and what was written survives the process once it is settled.
    pub(crate) fn session(&self) -> Box<dyn OrderedSession> {
        let mut session = self.all.ordered_session();
        session.set_deferred(true);
        session
    }

    /// What another thread writes with: a call is over when it returns.
    pub(crate) fn inline_session(&self) -> Box<dyn Session> {
        let mut session = self.all.session();
        session.set_inline(true);
        session
    }

    /// What is there at this moment.
    ///
    /// # Errors
    /// What the engine says.
    pub(crate) fn snapshot(&self) -> Result<Snapshot> {
        self.all.snapshot()
    }
}
