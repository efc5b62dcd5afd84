//! A cancelled job leaves its worker soon, however large what it works on.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use firn::Settings;
use firn_engine::Semantics;
use firn_job_service::control::pool::Limits;
use firn_job_service::{Backends, Remote, Worker, WorkerOptions};
use firn_jobs::{Executor, JobHandle, JobSpec};
use firn_storage::backend::{Effect, Fault, Faulty, Local, LocalOptions, Operation, When};
use firn_storage::{Clock, Storage};

use crate::scene::{Scene, any_port, check, url};
use crate::second::{Took, Watch, within_a_second};

/// Directories in which each read and each write takes a while.
#[derive(Debug)]
struct Slow {
    clock: Arc<dyn Clock>,
    opened: Mutex<Vec<Faulty>>,
}

impl Slow {
    fn read_bytes(&self) -> u64 {
        let opened = self.opened.lock().unwrap();
        opened.iter().map(|backend| backend.counters().of(Operation::Read).bytes).sum()
    }
}

impl Backends for Slow {
    fn open(&self, name: &str) -> firn_storage::Result<Arc<dyn Storage>> {
        let backend = Local::open(Path::new(name), LocalOptions { create: false })?;
        let slow = Faulty::with_clock(Arc::new(backend), Arc::clone(&self.clock));
        for on in [Operation::Read, Operation::Write] {
            let effect = Effect::Delay(Duration::from_millis(200));
            slow.inject(Fault { on, file: "*".to_owned(), when: When::Always { after: 0 }, effect });
        }
        self.opened.lock().unwrap().push(slow.clone());
        Ok(Arc::new(slow))
    }
}

/// Passes one large job on, and does all others.
#[derive(Debug)]
struct One {
    remote: Remote,
    others: firn_jobs::Local,
    is_wanted: fn(&JobSpec) -> bool,
    is_open: AtomicBool,
    /// With the bytes of its inputs.
    job: Mutex<Option<(JobHandle, u64)>>,
}

impl Executor for One {
    fn submit(&self, spec: JobSpec) -> firn_jobs::Result<JobHandle> {
        let bytes = spec.input_bytes();
        if !(bytes >= 16 << 20 && (self.is_wanted)(&spec) && self.is_open.swap(false, Ordering::SeqCst)) {
            return self.others.submit(spec);
        }
        let handle = self.remote.submit(spec)?;
        *self.job.lock().unwrap() = Some((handle.clone(), bytes));
        Ok(handle)
    }
}

/// Values of 512 KiB in the tree or separated, until a worker is at a large job that is wanted;
/// this is cancelled then. How long its worker is at it after that.
fn cancelled(separate_bytes: u32, is_wanted: fn(&JobSpec) -> bool) -> Took {
    let mut scene = Scene::new();
    // What the worker hears within a second is no answer to a beat.
    let beat = Duration::from_secs(30);
    let plane = scene.plane_with(any_port(), Limits { lease: 4 * beat, ..Limits::default() });
    let at = plane.address();
    let mut options = WorkerOptions::new(vec![url(at)], "slow", scene.draw());
    (options.beat, options.lease) = (beat, 4 * beat);
    let slow = Arc::new(Slow { clock: Arc::clone(&scene.clock), opened: Mutex::default() });
    let (backends, clock) = (Arc::<Slow>::clone(&slow), Arc::clone(&scene.clock));
    let worker = Worker::start(options, backends, Arc::new(Semantics::new()), clock, &scene.spawn).unwrap();
    let (remote, is_open, job) = (scene.remote(&[at]), AtomicBool::new(true), Mutex::default());
    let here = Local::open(Path::new(&scene.shared_name()), LocalOptions { create: true }).unwrap();
    let others = firn_jobs::Local::inline(Arc::new(here), Arc::new(Semantics::new()));
    let one = Arc::new(One { remote, others, is_wanted, is_open, job });
    let settings =
        Settings { space_amplification_max: 1.2, ..Settings::for_memory(64 << 20) }.with_engine(|tree| {
            tree.separate_bytes = separate_bytes;
            tree.blob_segment_bytes = 32 << 20;
            tree.memtable_bytes = 8 << 20;
        });
    let db = scene.builder(&[at]).settings(settings).executor(Arc::<One>::clone(&one)).open().unwrap();
    let (mut model, random) = (vec![None; 100], &mut fastrand::Rng::with_seed(7));
    let mut rounds = 0;
    while one.is_open.load(Ordering::SeqCst) {
        let key = random.usize(0..model.len());
        model[key] = Some((0..512 << 10).map(|_| random.u8(..)).collect());
        db.put(key.to_be_bytes(), model[key].as_ref().unwrap()).unwrap();
        rounds += 1;
        assert!(rounds < 2000, "no such job");
    }
    scene.wait_until(|| slow.read_bytes() > 1 << 20);
    let (job, bytes) = one.job.lock().unwrap().clone().unwrap();
    let watch = Watch::begin(&scene.clock);
    job.cancel();
    // The count of jobs alone would be 0 while it hangs in its backend, too.
    let figures = || worker.watch().figures().unwrap();
    scene.wait_until(|| !figures().attempts.is_empty());
    let (took, figures) = (watch.end(), figures());
    scene.wait_until(|| worker.job_count() == 0);
    println!("{} of {bytes} bytes", figures.read_bytes + figures.write_bytes);
    let attempts = figures.attempts.values().next().unwrap();
    let is_late = attempts.failed.cancelled == 0;
    // As a whole it reads all of them, and writes about as many.
    let is_part = figures.read_bytes + figures.write_bytes < bytes;
    assert!(is_late || is_part, "{figures:?} of {bytes} bytes");
    db.wait_idle().unwrap();
    check(&db, &model);
    db.close().unwrap();
    // It was done, or missed what others had done meanwhile: that it was cancelled was heard too
    // late, however soon it ended then.
    if is_late { took.late() } else { took }
}

#[test]
fn a_gc_of_large_values_that_is_cancelled_leaves_its_worker_within_a_second() {
    within_a_second(|| cancelled(1000, |spec| matches!(spec, JobSpec::BlobGc(_))));
}

#[test]
fn a_compaction_of_large_values_that_is_cancelled_leaves_its_worker_within_a_second() {
    within_a_second(|| cancelled(0, |spec| matches!(spec, JobSpec::Compact(_))));
}
