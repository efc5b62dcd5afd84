//! Work of an opening, shared out among threads.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};

use firn_engine::{Error, Result};
use firn_storage::{Priority, Spawn};

use crate::settings::{Background, HashOptions};

/// Threads that work together: the caller's, and others of a spawner.
#[derive(Clone, Debug)]
pub(crate) struct Threads {
    spawn: Option<Arc<dyn Spawn>>,
    count: usize,
}

impl Threads {
    /// As many as do background work; one where the owner does all.
    pub(crate) fn of(options: &HashOptions) -> Self {
        match &options.background {
            Background::Threads(spawn) => {
                Self { spawn: Some(Arc::clone(spawn)), count: options.settings.background_threads.max(2) }
            }
            Background::Manual => Self { spawn: None, count: 1 },
        }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Does `work` with each of the numbers `0..items`, one thread with one of them at a time, and
    /// gives `shared` back. Blocks until all is done. Where the system gives fewer threads those
    /// that there are do all.
    ///
    /// # Errors
    /// What `work` failed with, for the lowest number of several; numbers above may be left out.
    pub(crate) fn share_out<S: Send + Sync + 'static>(
        &self,
        shared: S,
        items: usize,
        work: fn(&S, usize) -> Result<()>,
    ) -> Result<S> {
        let share = Share { shared, next: AtomicUsize::new(0), items, work, failures: Mutex::default() };
        let share = Arc::new(share);
        let (done, ended) = mpsc::channel();
        let mut others = 0;
        if let Some(spawn) = &self.spawn {
            for number in 1..self.count.min(items) {
                let (share, done) = (Arc::clone(&share), done.clone());
                let body = Box::new(move || {
                    share.work_on();
                    drop(share);
                    let _nobody_waits = done.send(());
                });
                let started = spawn.spawn(format!("firn-open-{number}"), Priority::Normal, body);
                others += usize::from(started.is_ok());
            }
        }
        drop(done);
        share.work_on();
        if ended.iter().count() < others {
            return Err(Error::bug("a thread of an opening that ends"));
        }
        let share = Arc::try_unwrap(share).map_err(|_| Error::bug("threads that have let go"))?;
        let mut failures = share.failures.into_inner().unwrap_or_else(PoisonError::into_inner);
        failures.pop_first().map_or(Ok(share.shared), |(_, error)| Err(error))
    }
}

/// What the threads have together.
struct Share<S> {
    shared: S,
    /// The first number that no thread has taken.
    next: AtomicUsize,
    items: usize,
    work: fn(&S, usize) -> Result<()>,
    /// By number.
    failures: Mutex<BTreeMap<usize, Error>>,
}

impl<S> Share<S> {
    fn work_on(&self) {
        loop {
            let item = self.next.fetch_add(1, Ordering::Relaxed);
            if item >= self.items {
                return;
            }
            if let Err(error) = (self.work)(&self.shared, item) {
                self.next.fetch_max(self.items, Ordering::Relaxed);
                self.failures.lock().unwrap_or_else(PoisonError::into_inner).insert(item, error);
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use firn_storage::ThreadSpawn;

    use super::*;

    /// A system that gives no threads.
    #[derive(Debug)]
    struct NoThreads;

    impl Spawn for NoThreads {
        fn spawn(&self, name: String, _: Priority, _: Box<dyn FnOnce() + Send>) -> firn_storage::Result<()> {
            let error = std::io::Error::other(name);
            Err(firn_storage::Error::io("", "start a thread", error))
        }
    }

    fn all() -> [Threads; 3] {
        let spawn: Arc<dyn Spawn> = Arc::new(ThreadSpawn::new());
        [
            Threads { spawn: None, count: 1 },
            Threads { spawn: Some(spawn), count: 3 },
            Threads { spawn: Some(Arc::new(NoThreads)), count: 3 },
        ]
    }

    #[test]
    fn each_number_is_worked_with_once() {
        for threads in all() {
            let counts: Vec<AtomicU64> = (0..100).map(|_| AtomicU64::new(0)).collect();
            let counts = threads.share_out(counts, 100, |counts, item| {
                counts[item].fetch_add(1, Ordering::Relaxed);
                Ok(())
            });
            assert!(counts.expect("done").iter().all(|count| count.load(Ordering::Relaxed) == 1));
        }
    }

    #[test]
    fn the_first_failure_is_the_answer_and_the_rest_is_left() {
        for threads in all() {
            let done = Arc::new(AtomicU64::new(0));
            let failed = threads.share_out(Arc::clone(&done), 1_000_000, |done, item| {
                done.fetch_add(1, Ordering::Relaxed);
                if item < 7 { Ok(()) } else { Err(Error::invalid(format!("number {item}"))) }
            });
            assert!(failed.expect_err("it fails").to_string().contains("number 7"));
            assert!(done.load(Ordering::Relaxed) < 1000);
        }
    }
}
