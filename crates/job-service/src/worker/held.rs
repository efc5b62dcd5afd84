//! What a worker has.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use firn_jobs::Control;

use crate::control::pool::{Held, JobKey, Token};
use crate::scoped::Progress;

/// Attempts by token, from their lease until their end is told.
#[derive(Debug, Default)]
pub(super) struct Holdings {
    attempts: Mutex<BTreeMap<Token, Holding>>,
}

#[derive(Debug)]
struct Holding {
    /// Which control plane gave it.
    plane: usize,
    key: JobKey,
    control: Control,
    progress: Option<Arc<Progress>>,
    /// Nobody wants it any more.
    is_stopped: bool,
}

impl Holdings {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Token, Holding>> {
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn count(&self) -> usize {
        self.lock().len()
    }

    /// A new attempt, and what stops it.
    pub(super) fn begin(&self, plane: usize, key: JobKey, token: Token) -> Control {
        let control = Control::new();
        let holding = Holding { plane, key, control: control.clone(), progress: None, is_stopped: false };
        self.lock().insert(token, holding);
        control
    }

    /// The attempt runs, and this far is it.
    pub(super) fn runs(&self, token: Token, progress: Arc<Progress>) {
        if let Some(holding) = self.lock().get_mut(&token) {
            holding.progress = Some(progress);
        }
    }

    /// What the control plane `plane` is told that it has.
    pub(super) fn named(&self, plane: usize) -> Vec<Held> {
        let attempts = self.lock();
        let mine = attempts.iter().filter(|(_, one)| one.plane == plane && !one.is_stopped);
        let bytes = |one: &Holding, of: fn(&Progress) -> u64| one.progress.as_deref().map_or(0, of);
        let held = mine.map(|(token, one)| Held {
            key: one.key,
            token: *token,
            done_bytes: bytes(one, Progress::read_bytes),
            moved_bytes: bytes(one, Progress::moved_bytes),
            is_syncing: one.progress.as_deref().is_some_and(Progress::is_syncing),
        });
        held.collect()
    }

    /// Stops what nobody wants any more.
    pub(super) fn stop(&self, tokens: impl IntoIterator<Item = Token>) {
        let mut attempts = self.lock();
        for token in tokens {
            if let Some(one) = attempts.get_mut(&token) {
                one.is_stopped = true;
                one.control.cancel();
            }
        }
    }

    /// Stops everything that `plane` gave: it counts on none of it any more.
    pub(super) fn stop_plane(&self, plane: usize) {
        let tokens: Vec<Token> =
            self.lock().iter().filter(|(_, one)| one.plane == plane).map(|(token, _)| *token).collect();
        self.stop(tokens);
    }

    /// Cancels everything; ends are told.
    pub(super) fn cancel_all(&self) {
        self.lock().values().for_each(|one| one.control.cancel());
    }

    /// Whether anybody wants to hear how the attempt ended.
    pub(super) fn is_wanted(&self, token: Token) -> bool {
        self.lock().get(&token).is_some_and(|one| !one.is_stopped)
    }

    pub(super) fn end(&self, token: Token) {
        self.lock().remove(&token);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use firn_jobs::{CompactSpec, JobSpec};
    use firn_storage::place::{Effect, Fault, Faulty, Memory, Operation, When};
    use firn_storage::{Clock, Storage, SystemClock};

    use super::*;
    use crate::scoped::Scoped;

    #[test]
    fn what_is_written_and_synced_is_progress_as_what_is_read_is() {
        let holdings = Holdings::default();
        let _control = holdings.begin(0, JobKey { client: 1, number: 2 }, Token(3));
        let spec: JobSpec = CompactSpec { output_stem: "out".to_owned(), ..Default::default() }.into();
        let place = Scoped::new(Arc::new(Memory::new()), &spec, Arc::new(SystemClock::new()));
        holdings.runs(Token(3), place.progress());
        let bytes = || holdings.named(0).iter().map(|held| (held.done_bytes, held.moved_bytes)).next();
        assert_eq!(bytes(), Some((0, 0)));
        let file = place.create("out-000000.table").unwrap();
        file.write_at(0, &[1; 10]).unwrap();
        assert_eq!(bytes(), Some((0, 10)));
        for _ in 0..2 {
            file.sync().unwrap();
            assert_eq!(bytes(), Some((0, 20)), "what was synced before is no news");
        }
        place.open_read("out-000000.table").unwrap().read_at(0, &mut [0; 4]).unwrap();
        assert_eq!(bytes(), Some((4, 24)));
    }

    /// A clock on which whoever sleeps looks instead what is told of the attempt.
    #[derive(Debug)]
    struct Look {
        holdings: Arc<Holdings>,
        told: Mutex<Vec<bool>>,
    }

    impl Clock for Look {
        fn now(&self) -> Duration {
            Duration::ZERO
        }

        fn unix_ms(&self) -> u64 {
            0
        }

        fn sleep(&self, _time: Duration) {
            let told = self.holdings.named(0).iter().map(|held| held.is_syncing).collect::<Vec<_>>();
            self.told.lock().unwrap().extend(told);
        }
    }

    #[test]
    fn it_is_told_that_an_attempt_waits_for_a_sync() {
        let holdings = Arc::new(Holdings::default());
        let _control = holdings.begin(0, JobKey { client: 1, number: 2 }, Token(3));
        let look = Arc::new(Look { holdings: Arc::clone(&holdings), told: Mutex::default() });
        let faulty = Faulty::with_clock(Arc::new(Memory::new()), Arc::clone(&look) as _);
        for on in [Operation::Write, Operation::Sync, Operation::SyncDir] {
            let (file, when) = ("*".to_owned(), When::Always { after: 0 });
            faulty.inject(Fault { on, file, when, effect: Effect::Delay(Duration::from_secs(1)) });
        }
        let spec: JobSpec = CompactSpec { output_stem: "out".to_owned(), ..Default::default() }.into();
        let place = Scoped::new(Arc::new(faulty), &spec, Arc::new(SystemClock::new()));
        holdings.runs(Token(3), place.progress());
        let file = place.create("out-000000.table").unwrap();
        file.write_at(0, &[1; 10]).unwrap();
        file.sync().unwrap();
        place.sync_dir().unwrap();
        file.write_at(10, &[1; 10]).unwrap();
        assert_eq!(*look.told.lock().unwrap(), [false, true, true, false]);
    }
}
