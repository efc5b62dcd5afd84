//! Where threads come from.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use rustix::process::{getpriority_process, setpriority_process};

use crate::{Error, ErrorKind, Result};

/// How much of a processor a thread is worth where there is less than all want.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    /// A caller waits for what it does.
    Normal,
    /// What it does may take longer where it would keep others waiting.
    Background,
    /// What it does is worth doing only where no other thread wants the processor.
    Idle,
}

/// Starts threads, so that a test or a simulator can own them all.
///
/// Implementers MUST run `body` exactly once, on a thread of its own, or return an error and never
/// run it.
pub trait Spawn: Send + Sync + fmt::Debug {
    /// Runs `body` on a new thread called `name`, which is shown in the system's thread lists, cut
    /// there to 15 bytes. The implementer MAY run it at a lower priority if it is `Background`, and
    /// SHOULD run it at its lowest if it is `Idle`.
    ///
    /// Does not wait for it. `Io` if the system gives no more threads.
    fn spawn(&self, name: String, priority: Priority, body: Box<dyn FnOnce() + Send>) -> Result<()>;
}

/// Such a thread gets a seventieth of a processor that another one wants too.
const NICE_MAX: i32 = 19;

/// Threads of the operating system, remembered until they are joined.
#[derive(Debug, Default)]
pub struct ThreadSpawn {
    background_nice: u32,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl ThreadSpawn {
    /// A spawner with no threads yet; all that it starts have the priority of the thread that
    /// starts them.
    pub fn new() -> Self {
        Self::default()
    }

    /// As [`new`](Self::new), but [`Priority::Background`] threads are so much nicer (0 to 19) than
    /// the thread that starts them.
    ///
    /// The system shares a processor by weights, which each step lowers by a fifth. Nothing makes a
    /// thread less nice again.
    pub fn with_background_nice(background_nice: u32) -> Self {
        Self { background_nice, ..Self::default() }
    }

    /// Waits until every thread started so far has ended, and names those that panicked.
    ///
    /// Threads started meanwhile are waited for too. Called from one of its own threads, it does
    /// not wait for that thread. The owner of the bodies MUST have told them to end, or this waits
    /// for ever.
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

impl ThreadSpawn {
    /// Whether the calling thread is one of those started here that are not joined yet: waiting
    /// for them all would wait for itself.
    pub fn is_own_thread(&self) -> bool {
        let own = thread::current().id();
        let threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        threads.iter().any(|thread| thread.thread().id() == own)
    }
}

impl Spawn for ThreadSpawn {
    fn spawn(&self, name: String, priority: Priority, body: Box<dyn FnOnce() + Send>) -> Result<()> {
        let nice = match priority {
            Priority::Normal => 0,
            Priority::Background => self.background_nice.cast_signed(),
            Priority::Idle => NICE_MAX,
        };
        // Held until it is remembered, so that it is one of these whenever it asks.
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        let started = thread::Builder::new().name(name.clone()).spawn(move || {
            if nice > 0 {
                be_nicer(nice);
            }
            body();
        });
        let thread = started.map_err(|error| {
            let error = Error::io("", "start a thread", error);
            Error { kind: ErrorKind::Io, message: format!("{} `{name}`", error.message), ..error }
        })?;
        threads.push(thread);
        Ok(())
    }
}

/// Lowers the priority of the calling thread, which needs no permission. A system that does not
/// share its processors so lets it be as it is.
fn be_nicer(nice: i32) {
    // A process is a thread here, and none is the one that calls.
    let own = getpriority_process(None).unwrap_or(0);
    let _lowered = setpriority_process(None, own.saturating_add(nice));
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
                Priority::Normal,
                Box::new(move || {
                    let nested = counted.clone();
                    counted.fetch_add(1, Ordering::SeqCst);
                    let body = Box::new(move || {
                        nested.fetch_add(1, Ordering::SeqCst);
                    });
                    inner.spawn("inner".into(), Priority::Background, body).unwrap();
                }),
            )
            .unwrap();
        spawn.spawn("loser".into(), Priority::Normal, Box::new(|| panic!("on purpose"))).unwrap();
        assert_eq!(spawn.join_all(), ["loser"]);
        assert_eq!(count.load(Ordering::SeqCst), 2);
        assert!(spawn.join_all().is_empty());
    }

    #[test]
    fn a_thread_of_its_own_is_known_from_its_first_step() {
        let spawn = Arc::new(ThreadSpawn::new());
        let (sender, receiver) = std::sync::mpsc::channel();
        for _ in 0..100 {
            let (asked, sender) = (Arc::clone(&spawn), sender.clone());
            let body = Box::new(move || sender.send(asked.is_own_thread()).unwrap());
            spawn.spawn("own".into(), Priority::Normal, body).unwrap();
        }
        drop(sender);
        assert_eq!(receiver.iter().filter(|is_own| *is_own).count(), 100);
        assert!(!spawn.is_own_thread() && spawn.join_all().is_empty());
    }

    #[test]
    fn background_threads_are_nicer_and_idle_ones_nicest() {
        let own = getpriority_process(None).unwrap();
        let nice_of = |spawn: ThreadSpawn, priority| {
            let (sender, receiver) = std::sync::mpsc::channel();
            let body = Box::new(move || sender.send(getpriority_process(None).unwrap()).unwrap());
            spawn.spawn("asked".into(), priority, body).unwrap();
            receiver.recv().unwrap()
        };
        assert_eq!(nice_of(ThreadSpawn::with_background_nice(3), Priority::Background), (own + 3).min(19));
        assert_eq!(nice_of(ThreadSpawn::with_background_nice(3), Priority::Normal), own);
        assert_eq!(nice_of(ThreadSpawn::new(), Priority::Background), own);
        assert_eq!(nice_of(ThreadSpawn::new(), Priority::Idle), 19);
        assert_eq!(getpriority_process(None).unwrap(), own, "whoever starts them is as it was");
    }
}
