//! The forecast that a database gives to the executor of its jobs.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use firn_engine::Engine;
use firn_jobs::{Executor, JobHandle, JobSpec, Local};
use firn_tree::{Settings, Tree, TreeOptions};

use crate::support::world::{World, put, session, settle, tiny};

/// Runs jobs here and keeps the forecasts that it got.
#[derive(Debug)]
struct Recorder {
    inner: Local,
    urges: Mutex<Vec<Option<Duration>>>,
}

impl Executor for Recorder {
    fn submit(&self, spec: JobSpec) -> firn_jobs::Result<JobHandle> {
        self.inner.submit(spec)
    }

    fn urge(&self, stalls_in: Option<Duration>) {
        self.urges.lock().unwrap().push(stalls_in);
    }
}

impl Recorder {
    fn last(&self) -> Option<Duration> {
        self.urges.lock().unwrap().last().copied().unwrap()
    }
}

const KEYS: u32 = 2000;
/// Two seconds for each sorted run.
const ROUND: Duration = Duration::from_secs(2);

/// Writes every key and makes a sorted run of them, in two seconds.
fn write(world: &World, tree: &Tree, round: u8) {
    let mut session = session(tree);
    for key in 0..KEYS {
        put(&mut session, &key.to_be_bytes(), &[round; 1000]);
        world.clock.advance(ROUND / KEYS);
    }
    tree.flush().unwrap();
    settle(tree);
}

#[test]
fn a_database_says_how_soon_its_writers_stop_and_that_they_rest() {
    // No run is compacted before there are six of them, and the buffer's room is not much.
    let settings = Settings { space_amplification_max: 100.0, ..tiny() }.with_engine(|tree| {
        tree.level0_runs_max = 12;
        tree.buffer_bytes_max = 12 << 20;
    });
    let world = World::new(settings);
    let inner = Local::inline(world.options().storage, Arc::new(world.options().semantics));
    let recorder = Arc::new(Recorder { inner, urges: Mutex::default() });
    let tree =
        Tree::open(TreeOptions { executor: Some(Arc::clone(&recorder) as _), ..world.options() }).unwrap();
    settle(&tree);
    assert_eq!(recorder.last(), None, "nobody writes");
    let mut left = Vec::new();
    for round in 0..5 {
        write(&world, &tree, round);
        left.push(recorder.last().unwrap().as_secs_f64());
    }
    // The first run goes down unread. As long as level 0 is empty its runs are taken to be as large
    // as the buffer makes them. Then there are two seconds for each of 24 runs, and for what the
    // buffer takes beside. Each run brings the stall closer by its own time.
    assert!(left[0] > 100.0 && (48.0..60.0).contains(&left[2]), "{left:?}");
    let steps: Vec<f64> = left[2..].windows(2).map(|pair| pair[0] - pair[1]).collect();
    assert!(steps.len() == 2 && steps.iter().all(|step| (1.5..2.5).contains(step)), "{left:?}");
    let calls = recorder.urges.lock().unwrap().len();
    settle(&tree);
    assert_eq!(recorder.urges.lock().unwrap().len(), calls, "no time has passed");
    for _ in 0..12 {
        world.clock.advance(Duration::from_secs(1));
        settle(&tree);
    }
    assert_eq!(recorder.last(), None, "they rest");
}
