//! What a client that waits is handed: leave to look at a key whose lock another client's command
//! holds.
//!
//! ```text
//!   pusher's task: locks ─► writes ─► Handed ─► waits for the answer ─► next … ─► unlocks, replies
//!                                       │             ▲
//!   waiter's task:          it waits ───┴─► takes ────┘
//! ```
//! The pusher goes on holding its locks, so that no other command comes between its write and the
//! waiter. The waiter takes no locks of its own meanwhile: what it may touch is in the [`Cover`].

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use firn_engine::KeyspaceId;

use crate::lines::LineKey;
use crate::store::Databases;
use crate::wake::TaskWaker;

/// Keys whose locks a command holds, and what indexes of databases mean to it.
#[derive(Debug)]
pub(crate) struct Cover {
    /// `None` = every key.
    names: Option<HashSet<(KeyspaceId, Vec<u8>)>>,
    databases: Arc<Databases>,
}

impl Cover {
    /// Of these keys of the engine; of every key without names.
    pub(crate) fn new(names: Option<HashSet<(KeyspaceId, Vec<u8>)>>, databases: Arc<Databases>) -> Self {
        Self { names, databases }
    }

    /// Whether the lock of the engine's key `key` is held.
    pub(crate) fn has(&self, keyspace: KeyspaceId, key: &[u8]) -> bool {
        self.names.as_ref().is_none_or(|names| names.contains(&(keyspace, key.to_vec())))
    }

    pub(crate) fn databases(&self) -> Arc<Databases> {
        Arc::clone(&self.databases)
    }
}

/// What became of the look that a client was allowed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// It took something, and waits no more. Others wait for these keys, which that has changed.
    Some(Vec<LineKey>),
    /// There is nothing at the key.
    Nothing,
    /// It waits no more, or cannot use what is there: the next client in line may.
    Passed,
    /// It would touch what the cover does not have.
    Uncovered,
}

/// A look that one client was allowed by another one's task. Answered when dropped, at the latest.
#[derive(Debug)]
pub(crate) struct Handed {
    handover: Arc<Handover>,
}

/// The same look, as the command that allowed it sees it.
#[derive(Debug)]
pub(crate) struct Handover {
    /// `None`: the locks were let go of, and the client takes its own.
    cover: Option<Arc<Cover>>,
    answer: Mutex<Option<Taken>>,
    /// The task that waits for the answer.
    asker: TaskWaker,
}

impl Handover {
    /// A look, and what is sent to the client for it.
    pub(crate) fn new(asker: TaskWaker, cover: Option<Arc<Cover>>) -> (Arc<Self>, Handed) {
        let handover = Arc::new(Self { cover, answer: Mutex::default(), asker });
        let handed = Handed { handover: Arc::clone(&handover) };
        (handover, handed)
    }

    /// The answer, once, if it has come.
    pub(crate) fn take_answer(&self) -> Option<Taken> {
        self.answer.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Whether the answer has come.
    pub(crate) fn is_answered(&self) -> bool {
        self.answer.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }
}

impl Handed {
    /// What the client may touch without locks of its own; `None` = nothing.
    pub(crate) fn cover(&self) -> Option<&Arc<Cover>> {
        self.handover.cover.as_ref()
    }

    /// Says what became of it.
    pub(crate) fn answer(self, taken: Taken) {
        *self.handover.answer.lock().unwrap_or_else(PoisonError::into_inner) = Some(taken);
    }
}

impl Drop for Handed {
    fn drop(&mut self) {
        let mut answer = self.handover.answer.lock().unwrap_or_else(PoisonError::into_inner);
        answer.get_or_insert(Taken::Passed);
        drop(answer);
        self.handover.asker.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wake::Wakes;

    #[test]
    fn each_look_is_answered_once() {
        let wakes = Wakes::new().unwrap();
        let hand = || Handover::new(wakes.waker(7), None);
        let (given, handed) = hand();
        assert!(!given.is_answered());
        handed.answer(Taken::Nothing);
        assert_eq!(wakes.take(), [7]);
        assert_eq!((given.take_answer(), given.take_answer()), (Some(Taken::Nothing), None));
        // Its client is gone.
        let (given, handed) = hand();
        drop(handed);
        assert_eq!(given.take_answer(), Some(Taken::Passed));
        assert_eq!(wakes.take(), [7]);
    }
}
