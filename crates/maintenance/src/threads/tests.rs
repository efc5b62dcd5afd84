//! Threads that drive work which keeps nothing but a list of what there is to do.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::time::Duration;

use firn_engine::{Error, ErrorKind, Result};
use firn_storage::{Priority, Spawn, ThreadSpawn};

use super::{Work, start_threads, step, wait_until};
use crate::backoff::Room;
use crate::claims::{InProgress, Schedule};

/// What comes of a piece of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Piece {
    Done,
    /// Fails so often with an error of that kind, then is done.
    Fails(ErrorKind, u64),
    Panics,
    /// Is done once the gate is open.
    Waits,
}

/// Pieces of work, which are done in their order, each by one thread.
#[derive(Debug)]
struct Fake {
    schedule: Schedule<BTreeSet<usize>, usize>,
    pieces: Mutex<Vec<(usize, Piece)>>,
    done: Mutex<Vec<usize>>,
    set_aside: Mutex<Vec<usize>>,
    failure: OnceLock<Error>,
    room: Room,
    /// All pieces are of one kind; otherwise each is of its own.
    is_one_kind: AtomicBool,
    /// Pieces have inputs that can be set aside.
    has_inputs: AtomicBool,
    rooms_made: AtomicU64,
    now_ms: AtomicU64,
    gate: (Mutex<bool>, Condvar),
}

impl Fake {
    fn new(is_manual: bool, pieces: &[Piece]) -> Arc<Self> {
        Self::with_room(is_manual, pieces, Room::None)
    }

    fn with_room(is_manual: bool, pieces: &[Piece], room: Room) -> Arc<Self> {
        Arc::new(Self {
            schedule: Schedule::new(is_manual),
            pieces: Mutex::new(pieces.iter().copied().enumerate().collect()),
            done: Mutex::default(),
            set_aside: Mutex::default(),
            failure: OnceLock::new(),
            room,
            is_one_kind: AtomicBool::new(false),
            has_inputs: AtomicBool::new(true),
            rooms_made: AtomicU64::new(0),
            now_ms: AtomicU64::new(0),
            gate: (Mutex::new(false), Condvar::new()),
        })
    }

    fn open_gate(&self) {
        *self.gate.0.lock().unwrap() = true;
        self.gate.1.notify_all();
    }

    fn done(&self) -> Vec<usize> {
        let mut done = self.done.lock().unwrap().clone();
        done.sort_unstable();
        done
    }

    fn pass_ms(&self, ms: u64) {
        self.now_ms.fetch_add(ms, Ordering::Relaxed);
    }
}

impl Work for Fake {
    type Task = (usize, Piece);
    type Claims = BTreeSet<usize>;
    type Kind = usize;

    fn schedule(&self) -> &Schedule<BTreeSet<usize>, usize> {
        &self.schedule
    }

    fn now(&self) -> Duration {
        Duration::from_millis(self.now_ms.load(Ordering::Relaxed))
    }

    fn choose(&self, state: &InProgress<BTreeSet<usize>, usize>) -> Option<(usize, Piece)> {
        let may_write = self.room == Room::None || state.backoff.may_write(self.now());
        if state.is_held() || self.failure.get().is_some() || !may_write {
            return None;
        }
        let is_free = |task: &(usize, Piece)| {
            !state.claims.contains(&task.0) && state.backoff.may_try(self.kind(task), self.now())
        };
        self.pieces.lock().unwrap().iter().copied().find(is_free)
    }

    fn claim(&self, claims: &mut BTreeSet<usize>, task: &(usize, Piece)) {
        assert!(claims.insert(task.0), "piece {} is claimed twice", task.0);
    }

    fn release(&self, claims: &mut BTreeSet<usize>, task: &(usize, Piece)) {
        assert!(claims.remove(&task.0), "piece {} is not claimed", task.0);
    }

    fn perform(&self, (id, piece): &(usize, Piece)) -> Result<()> {
        match piece {
            Piece::Done => {}
            Piece::Panics => panic!("piece {id} panics"),
            Piece::Waits => {
                let open = self.gate.0.lock().unwrap();
                drop(self.gate.1.wait_while(open, |open| !*open).unwrap());
            }
            Piece::Fails(kind, times) => {
                let mut pieces = self.pieces.lock().unwrap();
                let piece = pieces.iter_mut().find(|(known, _)| known == id).expect("is there");
                if *times > 0 {
                    piece.1 = Piece::Fails(*kind, *times - 1);
                    return Err(Error::new(*kind, "cannot"));
                }
            }
        }
        self.pieces.lock().unwrap().retain(|(known, _)| known != id);
        self.done.lock().unwrap().push(*id);
        Ok(())
    }

    fn kind(&self, task: &(usize, Piece)) -> usize {
        if self.is_one_kind.load(Ordering::Relaxed) { 0 } else { task.0 }
    }

    fn room(&self, _task: &(usize, Piece)) -> Room {
        self.room
    }

    fn set_aside(&self, task: &(usize, Piece), _error: &Error) -> bool {
        if !self.has_inputs.load(Ordering::Relaxed) {
            return false;
        }
        self.pieces.lock().unwrap().retain(|(known, _)| *known != task.0);
        self.set_aside.lock().unwrap().push(task.0);
        true
    }

    fn make_room(&self) {
        self.rooms_made.fetch_add(1, Ordering::Relaxed);
    }

    fn poison(&self, error: &Error) {
        self.failure.get_or_init(|| error.clone());
    }

    fn failure(&self) -> Option<Error> {
        self.failure.get().cloned()
    }
}

/// Starts threads, as many as it is allowed to.
#[derive(Debug)]
struct Threads {
    left: AtomicU64,
    spawn: ThreadSpawn,
}

impl Threads {
    fn new(most: u64) -> Self {
        Self { left: AtomicU64::new(most), spawn: ThreadSpawn::new() }
    }

    fn join(&self) {
        assert_eq!(self.spawn.join_all(), [""; 0], "no thread ends by a panic");
    }
}

impl Spawn for Threads {
    fn spawn(
        &self,
        name: String,
        priority: Priority,
        body: Box<dyn FnOnce() + Send>,
    ) -> firn_storage::Result<()> {
        let took = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        match took {
            Ok(_) => self.spawn.spawn(name, priority, body),
            Err(_) => {
                Err(firn_storage::Error::new(firn_storage::ErrorKind::Refused, "", "no thread is left"))
            }
        }
    }
}

#[test]
fn threads_do_all_there_is_each_piece_once() {
    let fake = Fake::new(false, &[Piece::Done; 200]);
    let threads = Threads::new(3);
    start_threads(&fake, 3, &threads).unwrap();
    wait_until(&*fake, || false).unwrap();
    assert_eq!(fake.done(), (0..200).collect::<Vec<_>>());
    assert!(fake.schedule.lock().claims.is_empty());
    fake.schedule.stop();
    threads.join();
}

#[test]
fn a_stop_waits_for_units_in_progress_and_lets_none_begin() {
    let fake = Fake::new(false, &[Piece::Waits, Piece::Waits]);
    let threads = Threads::new(1);
    start_threads(&fake, 1, &threads).unwrap();
    while fake.schedule.lock().claims.is_empty() {
        std::thread::yield_now();
    }
    std::thread::scope(|scope| {
        let stopped = scope.spawn(|| fake.schedule.stop());
        while !fake.schedule.is_stopping() {
            std::thread::yield_now();
        }
        assert!(!stopped.is_finished(), "a unit runs still");
        fake.open_gate();
        stopped.join().unwrap();
        assert!(fake.schedule.lock().claims.is_empty(), "what it claimed is given up");
    });
    threads.join();
    assert_eq!(fake.done(), [0], "none began after that");
}

#[test]
fn a_panic_poisons_the_engine_and_ends_no_thread() {
    let fake = Fake::new(false, &[Piece::Panics, Piece::Done]);
    let threads = Threads::new(1);
    start_threads(&fake, 1, &threads).unwrap();
    let failure = wait_until(&*fake, || false).unwrap_err();
    assert_eq!(failure.kind(), ErrorKind::Bug);
    assert!(failure.to_string().contains("piece 0 panics"), "{failure}");
    fake.schedule.stop();
    assert!(fake.schedule.lock().claims.is_empty());
    threads.join();
}

#[test]
fn no_thread_stays_where_one_cannot_be_started() {
    let fake = Fake::new(false, &[]);
    let threads = Threads::new(1);
    let refused = start_threads(&fake, 2, &threads).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Retry);
    assert!(fake.schedule.is_stopping());
    threads.join();
}

#[test]
fn a_hold_waits_for_what_is_claimed_and_lets_nothing_begin() {
    let fake = Fake::new(false, &[Piece::Waits, Piece::Done]);
    let threads = Threads::new(1);
    start_threads(&fake, 1, &threads).unwrap();
    while fake.schedule.lock().claims.is_empty() {
        std::thread::yield_now();
    }
    std::thread::scope(|scope| {
        let held = scope.spawn(|| fake.schedule.hold(BTreeSet::is_empty));
        while !fake.schedule.lock().is_held() {
            std::thread::yield_now();
        }
        assert!(!held.is_finished(), "a unit runs still");
        fake.open_gate();
        let hold = held.join().unwrap();
        wait_until(&*fake, || false).unwrap();
        assert_eq!(fake.done(), [0], "nothing began");
        drop(hold);
    });
    wait_until(&*fake, || false).unwrap();
    assert_eq!(fake.done(), [0, 1]);
    fake.schedule.stop();
    threads.join();
}

#[test]
fn without_threads_each_step_does_one_unit() {
    let fake = Fake::new(true, &[Piece::Done; 3]);
    assert!(fake.schedule.is_manual());
    for done in 1..=3 {
        assert!(step(&*fake).unwrap());
        assert_eq!(fake.done().len(), done);
    }
    assert!(!step(&*fake).unwrap());
}

#[test]
fn without_threads_a_wait_works_until_it_is_done() {
    let fake = Fake::new(true, &[Piece::Done; 5]);
    wait_until(&*fake, || fake.done().len() == 2).unwrap();
    assert_eq!(fake.done(), [0, 1]);
    wait_until(&*fake, || false).unwrap();
    assert_eq!(fake.done().len(), 5);
}

#[test]
fn what_may_pass_is_tried_again_after_a_rest() {
    let fake = Fake::new(true, &[Piece::Fails(ErrorKind::Retry, 2), Piece::Done]);
    assert_eq!(step(&*fake).unwrap_err().kind(), ErrorKind::Retry);
    assert!(step(&*fake).unwrap(), "the other one goes on");
    assert_eq!(fake.done(), [1]);
    assert!(!step(&*fake).unwrap(), "the first one rests");
    fake.pass_ms(1000);
    assert!(step(&*fake).is_err());
    fake.pass_ms(1999);
    assert!(!step(&*fake).unwrap(), "it rests for longer");
    fake.pass_ms(1);
    assert!(step(&*fake).unwrap());
    assert_eq!(fake.done(), [0, 1]);
    assert!(!fake.schedule.lock().backoff.has_failed(0));
}

#[test]
fn a_unit_that_finds_no_room_holds_up_all_that_write_and_has_room_made() {
    let pieces = [Piece::Fails(ErrorKind::Retry, 1), Piece::Done];
    let fake = Fake::with_room(true, &pieces, Room::Left);
    assert!(step(&*fake).is_err());
    assert_eq!(fake.rooms_made.load(Ordering::Relaxed), 1);
    assert!(!step(&*fake).unwrap(), "none of them is tried");
    fake.pass_ms(1000);
    assert!(step(&*fake).unwrap());
    assert!(!fake.schedule.lock().backoff.is_refused(), "there is room again");
    assert!(step(&*fake).unwrap());
}

#[test]
fn what_fails_each_time_is_set_aside_and_a_wait_goes_on() {
    let pieces = [Piece::Fails(ErrorKind::Corrupt, u64::MAX), Piece::Done];
    let fake = Fake::new(true, &pieces);
    wait_until(&*fake, || false).unwrap();
    assert_eq!((fake.done(), fake.set_aside.lock().unwrap().clone()), (vec![1], vec![0]));
    assert!(fake.failure().is_none());
}

/// Its inputs are not chosen again, so that nothing like it has to wait.
#[test]
fn what_is_set_aside_lets_others_of_its_kind_begin_at_once() {
    let fake = Fake::new(true, &[Piece::Fails(ErrorKind::Corrupt, u64::MAX), Piece::Done]);
    fake.is_one_kind.store(true, Ordering::Relaxed);
    assert_eq!(step(&*fake).unwrap_err().kind(), ErrorKind::Corrupt);
    assert_eq!(*fake.set_aside.lock().unwrap(), [0]);
    assert!(!fake.schedule.lock().backoff.has_failed(0));
    assert!(step(&*fake).unwrap(), "the other one of its kind goes on");
    assert_eq!(fake.done(), [1]);
}

#[test]
fn what_fails_each_time_and_has_nothing_to_set_aside_rests() {
    let fake = Fake::new(true, &[Piece::Fails(ErrorKind::Corrupt, 1), Piece::Done]);
    fake.is_one_kind.store(true, Ordering::Relaxed);
    fake.has_inputs.store(false, Ordering::Relaxed);
    assert_eq!(step(&*fake).unwrap_err().kind(), ErrorKind::Corrupt);
    assert!(!step(&*fake).unwrap(), "nor is another one of its kind tried");
    fake.pass_ms(1000);
    wait_until(&*fake, || false).unwrap();
    assert_eq!(fake.done(), [0, 1]);
    assert!(fake.set_aside.lock().unwrap().is_empty() && fake.failure().is_none());
}

#[test]
fn what_leaves_the_device_unknown_poisons_the_engine() {
    let fake = Fake::new(true, &[Piece::Fails(ErrorKind::Closed, 1), Piece::Done]);
    assert_eq!(step(&*fake).unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(fake.failure().map(|failure| failure.kind()), Some(ErrorKind::Closed));
    assert!(!step(&*fake).unwrap());
    assert!(wait_until(&*fake, || false).is_err());
}

#[test]
fn a_failure_of_a_unit_that_is_stopped_is_none() {
    let fake = Fake::new(true, &[Piece::Fails(ErrorKind::Closed, 1)]);
    fake.schedule.stop();
    assert!(step(&*fake).is_err());
    assert!(fake.failure().is_none());
}
