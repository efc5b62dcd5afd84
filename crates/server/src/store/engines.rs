//! The engines that hold what a server serves: the one place that names them.
//!
//! One engine serves every slot of every database today. Where slots get engines of their own, the
//! map from [`Slot`](firn_format::datatype::Slot) to engine belongs here. Keys of the engine have
//! their slot in them. Three kinds of callers come through here, and each then asks for the engine
//! of a slot:
//! 1. `EngineSession`, for each read and each lock of a key: a session for each engine.
//! 2. A transaction, for the snapshot of a moment: one for each engine that it reads.
//! 3. A write: its batch is of one engine, or is divided.
//!
//! An engine keeps its keys in order, or finds them by their hashes. What needs order is offered
//! where there is one; all else asks [`ServerSession::points`], and walks over keys as the engine
//! does.

use std::sync::Arc;

use firn_engine::blocking::Blocking;
use firn_engine::{
    BatchLimit, Engine, Error, HashBatch, HashCursor, HashScan, Hashed, HashedSession, KeyspaceId, Ordered,
    OrderedSession, ReadAt, Result, ScanRange, Session, Snapshot,
};

/// The engine of all slots.
#[derive(Clone)]
pub(crate) enum Engines {
    /// Keys are in order.
    Ordered(Arc<dyn Ordered>),
    /// Keys are found by their hashes.
    Hashed(Arc<dyn Hashed>),
}

/// A session of the engine, with what it can do beside the calls of every engine.
pub(crate) enum ServerSession {
    Ordered(Box<dyn OrderedSession>),
    Hashed(Box<dyn HashedSession>),
}

impl ServerSession {
    /// The calls that every engine has.
    #[inline]
    pub(crate) fn points(&mut self) -> &mut dyn Session {
        match self {
            Self::Ordered(session) => &mut **session,
            Self::Hashed(session) => &mut **session,
        }
    }
}

impl Engines {
    /// One engine for all slots.
    ///
    /// # Errors
    /// `Invalid` for one whose keys cannot be walked over.
    pub(crate) fn one(engine: Arc<dyn Engine>) -> Result<Self> {
        if let Some(ordered) = Arc::clone(&engine).ordered() {
            return Ok(Self::Ordered(ordered));
        }
        let hashed = engine.hashed().map(Self::Hashed);
        hashed.ok_or_else(|| Error::invalid("an engine whose keys cannot be listed cannot be served"))
    }

    /// The name of the engine, as `--engine` takes it.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Ordered(_) => "tree",
            Self::Hashed(_) => "hashlog",
        }
    }

    /// Whether it keeps keys in order.
    pub(crate) fn is_ordered(&self) -> bool {
        matches!(self, Self::Ordered(_))
    }

    fn all(&self) -> &dyn Engine {
        match self {
            Self::Ordered(engine) => &**engine,
            Self::Hashed(engine) => &**engine,
        }
    }

    /// What a server thread reads, locks and writes with. A call that has to wait is answered
    /// later, and what was written survives the process once it is settled.
    pub(crate) fn session(&self) -> ServerSession {
        let mut session = match self {
            Self::Ordered(engine) => ServerSession::Ordered(engine.ordered_session()),
            Self::Hashed(engine) => ServerSession::Hashed(engine.hashed_session()),
        };
        session.points().set_deferred(true);
        session
    }

    /// What another thread writes with: a call is over when it returns.
    pub(crate) fn inline_session(&self) -> Box<dyn Session> {
        let mut session = self.all().session();
        session.set_inline(true);
        session
    }

    /// What is there at this moment.
    ///
    /// # Errors
    /// What the engine says.
    pub(crate) fn snapshot(&self) -> Result<Snapshot> {
        self.all().snapshot()
    }

    /// Gives `take` all records of a keyspace, while nothing else is done: it has few.
    ///
    /// # Errors
    /// What the engine says, and what `take` does.
    pub(crate) fn each_record(
        &self,
        keyspace: KeyspaceId,
        mut take: impl FnMut(&[u8], &[u8]) -> Result<()>,
    ) -> Result<()> {
        match self {
            Self::Ordered(engine) => {
                let mut session = Blocking::new(engine.ordered_session());
                let mut records = session.scan(ReadAt::Latest, keyspace, ScanRange::all())?;
                while let Some((key, value)) = records.next_record()? {
                    take(key, value)?;
                }
            }
            Self::Hashed(engine) => {
                let mut session = Blocking::new(engine.hashed_session());
                let (mut batch, mut next) = (HashBatch::new(), Some(HashCursor::START));
                while let Some(from) = next {
                    let limit = BatchLimit::default();
                    let scan = HashScan { keyspace, from, limit, has_values: true };
                    session.scan_by_hash(ReadAt::Latest, scan, &mut batch)?;
                    batch.records().records().try_for_each(|(key, value)| take(key, value))?;
                    next = batch.next();
                }
            }
        }
        Ok(())
    }
}
