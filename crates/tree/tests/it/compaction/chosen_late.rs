//! Compactions are chosen when an executor is about to begin them, and not long before.

use std::time::Duration;

use firn_engine::Engine;
use firn_storage::backend::Crash;
use firn_storage::{Clock, SystemClock};

use crate::compaction::range_pieces::{Slow, fill, holds, settings};
use crate::support::in_time::until;
use crate::support::world::{World, put, session, settle};

/// A database of many tables, each with two newer ones over it in level 0, where from now on one is
/// enough; `filling`: whose buffer is more than half full.
fn due(filling: bool) -> World {
    let world = World::new(settings());
    let tree = world.open().unwrap();
    for value in 1..=3 {
        fill(&tree, value);
        if value == 1 {
            settle(&tree);
        }
    }
    if filling {
        let mut session = session(&tree);
        for at in (0..=settings().engine.buffer_bytes / 2).step_by(4096) {
            put(&mut session, &[&[0xff; 4][..], &at.to_be_bytes()].concat(), &[0; 4096]);
        }
    }
    let found = world.crash(Crash::Kill);
    World { settings: settings().with_engine(|tree| tree.level0_runs_max = 2), ..found }
}

/// Looks, with a compaction that is done between two of them.
const ROUNDS: u64 = 5;

/// Threads look for work after a tenth of a second at the latest.
const LOOK: Duration = Duration::from_millis(300);

/// The most jobs that were given away and not done at any moment. The executor does one after
/// another and says that it is so `wide`.
fn most_waiting(wide: Option<usize>, filling: bool) -> usize {
    let world = due(filling);
    let (slow, tree) = Slow::open(&world, wide);
    let clock = SystemClock::new();
    let waiting = || slow.waiting.lock().unwrap().len();
    let mut most = 0;
    for done in 0..ROUNDS {
        clock.sleep(LOOK);
        most = most.max(waiting());
        // The first compactions chosen are done, or a few are, and their threads look for more.
        until("a compaction", || {
            slow.allow(usize::from(waiting() > 0));
            tree.stats().tree.expect("a tree").compaction_count > done
        });
    }
    slow.allow(1000);
    assert_eq!(tree.stats().jobs_passed_on_count, 0);
    holds(&tree, 3);
    most
}

#[test]
fn one_compaction_is_chosen_ahead_and_no_more() {
    // The compaction that is being done and the next one, which may be divided.
    let narrow = most_waiting(Some(1), false);
    assert!((2..=3).contains(&narrow), "{narrow}");
    let wide = most_waiting(Some(2), false);
    assert!((3..=4).contains(&wide), "{wide}");
    // How many executors idle there is unknown.
    let unknown = most_waiting(None, false);
    assert!(unknown >= 5, "{unknown}");
}

#[test]
fn while_the_buffer_fills_whoever_is_free_elsewhere_is_given_something() {
    let wide = most_waiting(Some(4), true);
    assert!((4..=8).contains(&wide), "{wide}");
    let unknown = most_waiting(None, true);
    assert!(unknown <= 2, "{unknown}");
}
