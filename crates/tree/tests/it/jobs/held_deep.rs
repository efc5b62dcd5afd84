//! Jobs that no writer waits for, while the executor that the owner gave is away: they are begun
//! here at the rate of the settings.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use firn_engine::{Engine, KEYSPACE_DEFAULT, Ordered};
use firn_jobs::{Error, ErrorKind, Executor, JobHandle, JobSpec};
use firn_storage::Clock;
use firn_tree::{Settings, Tree, TreeOptions};

use crate::support::asked_clock::AskedClock;
use crate::support::in_time::{in_time, until};
use crate::support::world::{World, put, session, settle, threads, tiny};

/// An executor that is away. Keeps the bytes of what it was asked to do.
#[derive(Debug, Default)]
struct Away(Mutex<Vec<u64>>);

impl Executor for Away {
    fn submit(&self, spec: JobSpec) -> firn_jobs::Result<JobHandle> {
        self.0.lock().unwrap().push(spec.input_bytes());
        Err(Error::new(ErrorKind::Unavailable, "nobody is there"))
    }
}

/// Waits until jobs that are held have been looked at since the last advance of `clock`.
fn wait_looks(clock: &AskedClock) {
    // A look asks once, and up to eight times more as it goes on with what it found. That is one
    // job that asks whether others are back, and one to begin.
    let before = clock.asked_count();
    until("looks", || clock.asked_count() >= before + 12);
}

/// Jobs that a compaction of everything is divided into: one for each thread, or for each table's
/// worth of bytes if those are fewer.
const JOBS: u64 = 3;

/// A tree whose tables are all in the last level, so that no compaction of them is L0 work, and
/// whose executor is away.
struct Scene {
    clock: Arc<AskedClock>,
    away: Arc<Away>,
    tree: Arc<Tree>,
}

impl Scene {
    fn new(local_bytes_per_second: u64) -> Self {
        let settings = Settings { background_threads: JOBS as usize, local_bytes_per_second, ..tiny() }
            .with_engine(|tree| tree.table_bytes = 64 << 10);
        let world = World::new(settings);
        let tree = world.open().unwrap();
        let mut writer = session(&tree);
        for key in 0..220_u32 {
            put(&mut writer, &key.to_be_bytes(), &[7; 1000]);
        }
        tree.flush().unwrap();
        settle(&tree);
        tree.compact_range(KEYSPACE_DEFAULT, b"", None).unwrap();
        drop(writer);
        tree.close().unwrap();
        drop(tree);
        let clock = Arc::new(AskedClock::new());
        let away = Arc::<Away>::default();
        let (executor, timed): (Arc<dyn Executor>, _) = (Arc::clone(&away) as _, Arc::clone(&clock) as _);
        let options =
            TreeOptions { executor: Some(executor), clock: timed, background: threads(), ..world.options() };
        Self { clock, away, tree: Tree::open(options).unwrap() }
    }

    fn table_bytes(&self) -> u64 {
        self.tree.stats().keyspaces[0]
            .tree
            .as_ref()
            .expect("a tree")
            .levels
            .iter()
            .map(|(_, bytes)| bytes)
            .sum()
    }

    /// Jobs that were begun here, and jobs that are held.
    fn jobs(&self) -> (u64, u64) {
        let stats = self.tree.stats();
        (stats.jobs_passed_on_count, stats.jobs.held_count)
    }
}

#[test]
fn at_a_low_rate_deep_jobs_are_held_until_their_turn() {
    const RATE: u64 = 4 << 10;
    let scene = Scene::new(RATE);
    std::thread::scope(|scope| {
        let compacting = scope.spawn(|| scene.tree.compact_range(KEYSPACE_DEFAULT, b"", None));
        let ended = catch_unwind(AssertUnwindSafe(|| {
            until("all but one are held", || scene.jobs() == (1, JOBS - 1));
            let bytes = scene.away.0.lock().unwrap()[0];
            assert_eq!(scene.tree.stats().jobs.held_bytes, scene.table_bytes() - bytes);
            // So long as the first takes at that rate, and less than any is held at most.
            let turn = Duration::from_millis(bytes * 1000 / RATE);
            assert!((5..50).contains(&turn.as_secs()), "{turn:?}");
            let little = Duration::from_millis(1);
            scene.clock.advance(turn - little);
            wait_looks(&scene.clock);
            assert_eq!(scene.jobs(), (1, JOBS - 1), "before its turn");
            scene.clock.advance(little);
            until("the second begins", || scene.jobs() == (2, JOBS - 2));
        }));
        // Whatever came of it, nothing is to wait for a turn any more.
        until("the end", || {
            scene.clock.advance(Duration::from_secs(60));
            compacting.is_finished()
        });
        ended.unwrap_or_else(|panic| resume_unwind(panic));
        compacting.join().unwrap().unwrap();
    });
    assert_eq!(scene.jobs(), (JOBS, 0));
}

#[test]
fn at_a_high_rate_no_deep_job_waits_for_its_turn() {
    let scene = Scene::new(1 << 40);
    let begun = scene.clock.now();
    let tree = Arc::clone(&scene.tree);
    in_time("a compaction", move || tree.compact_range(KEYSPACE_DEFAULT, b"", None).unwrap());
    assert_eq!((scene.jobs(), scene.clock.now()), ((JOBS, 0), begun), "no time has passed");
    assert_eq!(scene.away.0.lock().unwrap().len(), 1, "nobody is back, and nobody was asked again");
}
