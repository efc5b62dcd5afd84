//! Schedules of the epochs: `RUSTFLAGS="--cfg loom" cargo test -p firn-hashlog --test loom_epoch`.
//!
//! The epochs are private to their crate, so this test takes them in by their path.
#![cfg(loom)]
#![expect(dead_code, unused_imports, reason = "each test of a private module uses a part of it")]

#[path = "../src/sync.rs"]
mod sync;
#[path = "../src/waits.rs"]
mod waits;
#[path = "../src/epoch.rs"]
mod epoch;

use epoch::Epochs;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

/// Two things, of which one is in use and the other may be freed.
#[derive(Default)]
struct Things {
    in_use: AtomicUsize,
    freed: [AtomicUsize; 2],
}

/// What an operation found by reading where it is stays until the operation ends.
#[test]
fn nothing_is_freed_below_an_operation() {
    loom::model(|| {
        let epochs = Epochs::new(None);
        let things = Arc::new(Things::default());
        let reader = {
            let (mut participant, things) = (epochs.join().unwrap(), Arc::clone(&things));
            thread::spawn(move || {
                let _inside = participant.enter();
                let found = things.in_use.load(Ordering::Relaxed);
                assert_eq!(things.freed[found].load(Ordering::Relaxed), 0, "freed below an operation");
            })
        };
        things.in_use.store(1, Ordering::Relaxed);
        let freed = Arc::clone(&things);
        epochs.bump(move || freed.freed[0].store(1, Ordering::Relaxed));
        reader.join().unwrap();
        epochs.run_due();
        assert_eq!(things.freed[0].load(Ordering::Relaxed), 1, "an action waits for nobody and does not run");
    });
}

/// While operations are stopped none is under way, and all that ended before are seen whole.
#[test]
fn nothing_is_under_way_while_operations_are_stopped() {
    loom::model(|| {
        let epochs = Epochs::new(None);
        let parts = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
        let writer = {
            let (mut participant, parts) = (epochs.join().unwrap(), Arc::clone(&parts));
            thread::spawn(move || {
                let _inside = participant.enter();
                parts[0].store(1, Ordering::Relaxed);
                parts[1].store(1, Ordering::Relaxed);
            })
        };
        {
            let _stopped = epochs.stop();
            let seen = [0, 1].map(|part: usize| parts[part].load(Ordering::Relaxed));
            assert_eq!(seen[0], seen[1], "a half of an operation");
        }
        writer.join().unwrap();
    });
}

/// When an epoch has passed, what the caller stored before is seen by every operation under way.
#[test]
fn operations_from_before_are_over_once_an_epoch_has_passed() {
    loom::model(|| {
        let epochs = Epochs::new(None);
        let (is_closed, touches) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let writer = {
            let mut participant = epochs.join().unwrap();
            let (is_closed, touches) = (Arc::clone(&is_closed), Arc::clone(&touches));
            thread::spawn(move || {
                let _inside = participant.enter();
                if is_closed.load(Ordering::Relaxed) == 0 {
                    touches.fetch_add(1, Ordering::Relaxed);
                }
            })
        };
        is_closed.store(1, Ordering::Relaxed);
        epochs.pass();
        let seen = touches.load(Ordering::Relaxed);
        writer.join().unwrap();
        assert_eq!(touches.load(Ordering::Relaxed), seen, "an operation that came before the pass");
    });
}
