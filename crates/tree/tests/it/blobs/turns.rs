//! A known mistake of stores whose GCs run on devices: software reads what the device wrote
//! otherwise. Here two executors make GCs by turns, each out of what the other has made,
//! and all of it is read after each.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use firn_engine::Engine;
use firn_format::blob::SegmentNumber;
use firn_format::blob::segment::Origin;
use firn_jobs::{Executor, JobHandle, JobResult, JobSpec, Local, new_job};
use firn_storage::Storage;
use firn_storage::backend::Crash;

use crate::support::scene::{Scene, assert_sound};
use crate::support::unmapped::Unmapped;
use crate::support::world::{World, seed};

/// Does jobs here and, every other job, as a worker elsewhere. That goes from a spec's bytes to a
/// result's, on a backend that gives no file as memory.
#[derive(Debug)]
struct Turns {
    executors: [Local; 2],
    done: Mutex<Done>,
}

#[derive(Debug, Default)]
struct Done {
    jobs: usize,
    /// Which executor has made each segment.
    made: BTreeMap<SegmentNumber, usize>,
    /// Victims that the other has made, for each.
    crossed: [u64; 2],
}

impl Turns {
    fn new(machine: &World) -> Arc<Self> {
        let semantics = Arc::new(machine.options().semantics);
        let inner: Arc<dyn Storage> = Arc::new(machine.storage.clone());
        let unmapped = Arc::new(Unmapped { inner: Arc::clone(&inner) });
        let executors = [Local::inline(inner, Arc::clone(&semantics)), Local::inline(unmapped, semantics)];
        Arc::new(Self { executors, done: Mutex::default() })
    }
}

impl Executor for Turns {
    fn submit(&self, spec: JobSpec) -> firn_jobs::Result<JobHandle> {
        let mut done = self.done.lock().unwrap();
        done.jobs += 1;
        let turn = done.jobs % 2;
        if let JobSpec::BlobGc(spec) = &spec {
            let collected = spec.victims.iter().filter(|victim| victim.origin == Origin::Collected);
            let others =
                collected.filter(|victim| done.made.get(&victim.segment.number) != Some(&turn)).count();
            done.crossed[turn] += others as u64;
        }
        let result = match turn {
            0 => self.executors[0].submit(spec)?.wait()?,
            _ => {
                let spec = JobSpec::decode(&spec.encode()).unwrap();
                let result = self.executors[1].submit(spec)?.wait()?;
                JobResult::decode(&result.encode()).unwrap()
            }
        };
        if let JobResult::BlobGc(result) = &result {
            done.made.extend(result.segment.iter().map(|segment| (segment.number, turn)));
        }
        let (handle, finisher) = new_job();
        finisher.finish(Ok(result));
        Ok(handle)
    }
}

#[test]
fn what_two_executors_make_by_turns_is_read_and_collected_by_either() {
    let random = &mut fastrand::Rng::with_seed(seed(3));
    let mut scene = Scene::new();
    let turns = Turns::new(&scene.machine);
    scene.executor = Some(Arc::clone(&turns) as _);
    scene.machine.settings.reexecuted_share = 0.0;
    let mut gcs = 0;
    for round in 1..=24 {
        scene.wear(round, random);
        scene.reopen(1.05);
        let mut known = 0;
        while scene.tree.step().unwrap() {
            let stats = scene.tree.stats();
            if stats.tree.as_ref().expect("a tree").blobs.gc_count > known {
                known = stats.tree.as_ref().expect("a tree").blobs.gc_count;
                scene.check(&format!("round {round}, {known} GCs"));
                assert_sound(&scene.machine.crash(Crash::Kill));
            }
        }
        let stats = scene.tree.stats();
        assert_eq!((stats.jobs_passed_on_count, stats.jobs_passed_on_reason), (0, None));
        gcs += known;
        scene.reopen(100.0);
    }
    let done = turns.done.lock().unwrap();
    assert!(gcs > 24, "{gcs} GCs");
    assert!(
        done.crossed.iter().all(|count| *count > 5),
        "victims that the other has made: {:?}",
        done.crossed
    );
}
