//! What is promised within a second, on machines that may stand still for longer. The tests of
//! `cli` include this file.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use firn_storage::Clock;

const PROMISED: Duration = Duration::from_secs(1);

/// A slot that is not free after so long is lost: what hangs does so until it is let go. A machine
/// that stands still for a while loses none.
const LOST: Duration = Duration::from_secs(10);

/// All of them keep the promise: what is late only now and then is late.
const TRIES: usize = 3;

/// How often it is looked whether the machine stands still.
const LOOK: Duration = Duration::from_millis(5);

/// A machine that lets a thread sleep for so much longer is busy, as any may be, and does not stand
/// still.
const BUSY: Duration = Duration::from_millis(20);

/// How long something took, and for how long of that the machine stood still.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Took {
    time: Duration,
    still: Duration,
}

impl Took {
    /// The same of what was late, however soon it ended: only a machine that stood still for a
    /// second excuses that.
    pub(crate) fn late(self) -> Self {
        Self { time: self.time.max(2 * PROMISED), ..self }
    }

    fn is_kept(self) -> bool {
        self.time < PROMISED + self.still
    }

    /// Fails unless it took less than a second and what the machine stood still of it, and less
    /// than what is lost does.
    #[track_caller]
    pub(crate) fn expect_kept(self) {
        println!("{self:?}");
        assert!(self.time < LOST, "lost: {self:?}");
        assert!(self.is_kept(), "more than a second: {self:?}");
    }
}

/// Measures how long something takes, and beside it how much longer than asked the sleeps of a
/// thread last. That thread waits for nothing but the machine.
pub(crate) struct Watch {
    clock: Arc<dyn Clock>,
    begun: Duration,
    is_over: Arc<AtomicBool>,
    sleeper: JoinHandle<Duration>,
}

impl Watch {
    pub(crate) fn begin(clock: &Arc<dyn Clock>) -> Self {
        let (begun, is_over) = (clock.now(), Arc::new(AtomicBool::new(false)));
        let (theirs, ends) = (Arc::clone(clock), Arc::clone(&is_over));
        let sleeper = std::thread::spawn(move || {
            let (mut before, mut still) = (begun, Duration::ZERO);
            while !ends.load(Ordering::SeqCst) {
                theirs.sleep(LOOK);
                let now = theirs.now();
                let longer = (now - before).saturating_sub(LOOK);
                if longer > BUSY {
                    still += longer;
                }
                before = now;
            }
            still
        });
        Self { clock: Arc::clone(clock), begun, is_over, sleeper }
    }

    pub(crate) fn end(self) -> Took {
        let time = self.clock.now() - self.begun;
        self.is_over.store(true, Ordering::SeqCst);
        Took { time, still: self.sleeper.join().unwrap() }
    }
}

/// Fails unless each of some tries takes less than a second and what the machine stood still of it.
/// None may take as long as what is lost does.
#[track_caller]
pub(crate) fn within_a_second(mut try_once: impl FnMut() -> Took) {
    for _ in 0..TRIES {
        try_once().expect_kept();
    }
}

fn took(time_ms: u64, still_ms: u64) -> Took {
    Took { time: Duration::from_millis(time_ms), still: Duration::from_millis(still_ms) }
}

/// Canary.
#[test]
#[should_panic(expected = "more than a second")]
fn what_is_late_one_time_of_three_is_noticed() {
    let mut tries = [took(400, 0), took(400, 50), took(1200, 50)].into_iter();
    within_a_second(|| tries.next().unwrap());
}

#[test]
fn a_machine_that_stands_still_excuses_as_much_and_no_more() {
    let tries = [took(999, 0), took(1000, 0), took(2400, 1500), took(2600, 1500), took(100, 200).late()];
    assert_eq!(tries.map(Took::is_kept), [true, false, true, false, false]);
}
