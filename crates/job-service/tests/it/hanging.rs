//! A backend in which one request does not end before it is let go.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use firn_engine::Semantics;
use firn_format::Sequence;
use firn_format::manifest::TableMeta;
use firn_job_service::control::pool::Limits;
use firn_job_service::{Backends, ControlPlane, Worker, WorkerOptions};
use firn_jobs::{CompactSpec, Executor, JobHandle, JobInput};
use firn_storage::backend::{Effect, Fault, Faulty, Memory, Operation, When};
use firn_storage::{Clock, Storage, SystemClock};

use crate::scene::{Scene, any_port, url};

/// A file on which the first request of a kind hangs, and a file on which none does. Neither is a
/// table.
pub(crate) const SLOW: &str = "slow-000000.table";
pub(crate) const OTHER: &str = "other-000000.table";
const BYTES: u64 = 1000;

/// How often a worker says that it lives where a peer's end is to be noticed soon: a lease is ten
/// of them.
pub(crate) const OFTEN: Duration = Duration::from_millis(200);

/// And where it is not: what such a worker hears within seconds is no answer to a beat.
pub(crate) const SELDOM: Duration = Duration::from_secs(30);

/// What it hears sooner is no answer either to a question that it asks because the one before had
/// none.
pub(crate) const SOON: Duration = Duration::from_secs(10);

fn lease(beat: Duration) -> Duration {
    10 * beat
}

/// A control plane for workers that say seldom that they live.
pub(crate) fn patient_plane(scene: &mut Scene) -> ControlPlane {
    scene.plane_with(any_port(), Limits { lease: lease(SELDOM), ..Limits::default() })
}

/// A clock on which each sleeping thread waits until all are let go.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    sleepers: AtomicUsize,
    is_open: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    /// How many hang now.
    pub(crate) fn sleepers(&self) -> usize {
        self.sleepers.load(Ordering::SeqCst)
    }

    pub(crate) fn open(&self) {
        *self.is_open.lock().unwrap() = true;
        self.opened.notify_all();
    }
}

impl Clock for Gate {
    fn now(&self) -> Duration {
        Duration::ZERO
    }

    fn unix_ms(&self) -> u64 {
        0
    }

    fn sleep(&self, _time: Duration) {
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        drop(self.opened.wait_while(self.is_open.lock().unwrap(), |is_open| !*is_open).unwrap());
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The backend, whatever it is called.
#[derive(Debug)]
struct Hanging(Arc<dyn Storage>);

impl Backends for Hanging {
    fn open(&self, _name: &str) -> firn_storage::Result<Arc<dyn Storage>> {
        Ok(Arc::clone(&self.0))
    }
}

/// A worker with one slot for the control planes at `planes`. It hangs at the first operation `on`
/// the slow file, until the gate is opened.
pub(crate) fn worker(
    scene: &mut Scene,
    planes: &[SocketAddr],
    beat: Duration,
    on: Operation,
) -> (Worker, Arc<Gate>) {
    worker_at(scene, planes, beat, files(), (on, SLOW))
}

/// The slow file and the other one.
pub(crate) fn files() -> Arc<dyn Storage> {
    let memory = Memory::new();
    for name in [SLOW, OTHER] {
        memory.publish(name, &[7; BYTES as usize]).unwrap();
    }
    Arc::new(memory)
}

/// The same with files at `backend`, at the first such operation on such a file.
pub(crate) fn worker_at(
    scene: &mut Scene,
    planes: &[SocketAddr],
    beat: Duration,
    backend: Arc<dyn Storage>,
    (on, file): (Operation, &str),
) -> (Worker, Arc<Gate>) {
    named_worker_at(scene, planes, ("one", beat), backend, (on, file, When::Once { after: 0 }))
}

/// The same with a name, and with all such operations of `when`.
pub(crate) fn named_worker_at(
    scene: &mut Scene,
    planes: &[SocketAddr],
    (name, beat): (&str, Duration),
    backend: Arc<dyn Storage>,
    fault: (Operation, &str, When),
) -> (Worker, Arc<Gate>) {
    wide_worker_at(scene, planes, (name, beat, 1), backend, fault)
}

/// The same with so many slots.
pub(crate) fn wide_worker_at(
    scene: &mut Scene,
    planes: &[SocketAddr],
    (name, beat, slots): (&str, Duration, u32),
    backend: Arc<dyn Storage>,
    (on, file, when): (Operation, &str, When),
) -> (Worker, Arc<Gate>) {
    let gate = Arc::new(Gate::default());
    let backend = Faulty::with_clock(backend, Arc::clone(&gate) as _);
    let effect = Effect::Delay(Duration::from_secs(1));
    backend.inject(Fault { on, file: file.to_owned(), when, effect });
    let mut options = WorkerOptions::new(planes.iter().copied().map(url).collect(), name, scene.draw());
    (options.slots, options.beat, options.lease) = (slots, beat, lease(beat));
    let (backends, clock) = (Arc::new(Hanging(Arc::new(backend))), Arc::new(SystemClock::new()));
    let worker = Worker::start(options, backends, Arc::new(Semantics::new()), clock, &scene.spawn).unwrap();
    (worker, gate)
}

/// A job that reads `file` of level 0, which is L0 work, or of another one. A worker finds that the
/// file is damaged, and no other does the job again.
pub(crate) fn submit(remote: &dyn Executor, file: &str, level: u32) -> JobHandle {
    let table = TableMeta {
        file: file.to_owned(),
        bytes: BYTES,
        file_checksum: 0,
        smallest: Vec::new(),
        largest: Vec::new(),
        sequence_min: Sequence(0),
        sequence_max: Sequence(0),
        entry_count: 0,
        tombstone_count: 0,
        range_tombstone_count: 0,
        data_bytes: 0,
        content_hash: 0,
    };
    let inputs = vec![JobInput { table, level, run: 1 }];
    let output_stem = format!("out-{file}-{level}");
    remote.submit(CompactSpec { inputs, output_stem, ..Default::default() }.into()).unwrap()
}
