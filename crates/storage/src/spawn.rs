//! Where threads come from.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use crate::{Error, ErrorKind, Result};

/// Starts threads, so that a test or a simulator can own them all.
///
/// Implementers MUST run `body` exactly once, on a thread of its own, or return an error and never run it.
pub trait Spawn: Send + Sync + fmt::Debug {
    /// Runs `body` on a new thread called `name` (shown in the system's thread lists, cut there to 15 bytes).
    ///
    /// Does not wait for it. `Io` if the system gives no more threads.
    fn spawn(&self, name: String, body: Box<dyn FnOnce() + Send>) -> Result<()>;
}

/// Threads of the operating system, remembered until they are joined.
#[derive(Debug, Default)]
pub struct ThreadSpawn {
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl ThreadSpawn {
    /// A spawner with no threads yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Waits until every thread started so far has ended, and names those that panicked.
    ///
    /// Threads started meanwhile are waited for too. Called from one of its own threads, it does not wait for
    /// that one. Whoever owns the bodies MUST have told them to end, or this waits for ever.
    pub fn join_all(&self) -> Vec<String> {
        let mut panicked = Vec::new();
        loop {
            let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
            if threads.is_empty() {
                return panicked;
            }
            for thread in threads {
                let name = thread.thread().name().unwrap_or("unnamed").to_owned();
                if thread.thread().id() != thread::current().id() && thread.join().is_err() {
                    panicked.push(name);
                }
            }
        }
    }
}

impl Spawn for ThreadSpawn {
    fn spawn(&self, name: String, body: Box<dyn FnOnce() + Send>) -> Result<()> {
        let started = thread::Builder::new().name(name.clone()).spawn(body);
        let thread = started.map_err(|error| {
            let error = Error::io("", "start a thread", error);
            Error { kind: ErrorKind::Io, message: format!("{} `{name}`", error.message), ..error }
        })?;
        self.threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn join_all_waits_and_names_the_panicked() {
        let spawn = Arc::new(ThreadSpawn::new());
        let count = Arc::new(AtomicU32::new(0));
        let (inner, counted) = (spawn.clone(), count.clone());
        spawn
            .spawn(
                "outer".into(),
                Box::new(move || {
                    let nested = counted.clone();
                    counted.fetch_add(1, Ordering::SeqCst);
                    let body = Box::new(move || {
                        nested.fetch_add(1, Ordering::SeqCst);
                    });
                    inner.spawn("inner".into(), body).unwrap();
                }),
            )
            .unwrap();
        spawn.spawn("loser".into(), Box::new(|| panic!("on purpose"))).unwrap();
        assert_eq!(spawn.join_all(), ["loser"]);
        assert_eq!(count.load(Ordering::SeqCst), 2);
        assert!(spawn.join_all().is_empty());
    }
}
