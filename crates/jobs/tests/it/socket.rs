//! Jobs over a socket: the same bytes as here, and workers that are missing, go, hang, or are cancelled.

use std::io::Read;
use std::os::unix::net::UnixListener;
use std::sync::Arc;

use fastrand::Rng;
use firn_engine::Semantics;
use firn_jobs::socket::{Socket, serve};
use firn_jobs::{ErrorKind, Executor, JobHandle, JobResult, JobSpec};
use firn_storage::place::{Local as Directory, LocalOptions};
use firn_storage::{Priority, Spawn, Storage, ThreadSpawn};

use crate::same_bytes::{answer, compare};
use crate::segments::Values;

/// A directory, a worker for it, and an executor that asks that.
struct Scene {
    directory: tempfile::TempDir,
    storage: Arc<dyn Storage>,
    socket: std::path::PathBuf,
}

impl Scene {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("db");
        let storage = Arc::new(Directory::open(&path, LocalOptions { create: true }).unwrap());
        Self { socket: directory.path().join("worker.socket"), directory, storage }
    }

    fn listen(&self) -> UnixListener {
        UnixListener::bind(&self.socket).unwrap()
    }

    /// A worker whose threads live as long as the test.
    fn worker(&self, threads: usize) {
        let listener = self.listen();
        let spawn: Arc<dyn Spawn> = Arc::new(ThreadSpawn::new());
        let served = Arc::clone(&spawn);
        let work = move || drop(serve(&listener, &Arc::new(Semantics::new()), threads, &served));
        spawn.spawn("worker".to_owned(), Priority::Normal, Box::new(work)).unwrap();
    }

    fn executor(&self) -> Socket {
        Socket::new(&self.socket, &self.directory.path().join("db"), Arc::new(ThreadSpawn::new())).unwrap()
    }
}

#[test]
fn a_worker_makes_the_same_bytes() {
    let scene = Scene::new();
    scene.worker(2);
    compare(&scene.storage, &scene.executor(), 0..6).assert_varied();
}

#[test]
fn a_worker_that_is_missing_or_goes_refuses_and_one_that_comes_is_asked() {
    let scene = Scene::new();
    let executor = scene.executor();
    let mut values = Values::on(Arc::clone(&scene.storage), 1);
    let mut random = Rng::with_seed(1);
    values.write(&mut random);
    let spec = JobSpec::from(values.spec(&mut random, "c"));
    let error = executor.submit(spec.clone()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert!(error.to_string().contains("worker.socket"), "{error}");
    // One that takes the job and goes.
    let listener = scene.listen();
    let handle = executor.submit(spec.clone()).unwrap();
    let (mut stream, _) = listener.accept().unwrap();
    stream.read_exact(&mut [0; 40]).unwrap();
    assert!(handle.poll().is_none());
    drop(stream);
    assert_eq!(answer(&handle).unwrap_err().kind, ErrorKind::Unavailable);
    // One that says what no worker says.
    let handle = executor.submit(spec.clone()).unwrap();
    let (stream, _) = listener.accept().unwrap();
    std::io::Write::write_all(&mut &stream, b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
    assert_eq!(answer(&handle).unwrap_err().kind, ErrorKind::Unavailable);
    drop((listener, stream));
    std::fs::remove_file(&scene.socket).unwrap();
    scene.worker(1);
    assert!(answer(&executor.submit(spec).unwrap()).is_ok());
}

#[test]
fn what_a_worker_says_no_to_is_told_in_its_words() {
    let scene = Scene::new();
    scene.worker(1);
    let executor = scene.executor();
    let mut values = Values::on(Arc::clone(&scene.storage), 1);
    let mut random = Rng::with_seed(1);
    values.write(&mut random);
    let mut spec = values.spec(&mut random, "c");
    spec.victims[0].segment.bytes += 1;
    let error = answer(&executor.submit(spec.clone().into()).unwrap()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Corrupt);
    assert!(error.to_string().contains(&spec.victims[0].segment.file), "{error}");
    spec.victims.clear();
    let error = answer(&executor.submit(spec.into()).unwrap()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Invalid, "{error}");
}

#[test]
fn a_cancelled_job_ends_and_leaves_nothing() {
    let scene = Scene::new();
    scene.worker(1);
    let executor = scene.executor();
    let mut values = Values::on(Arc::clone(&scene.storage), 1);
    let mut random = Rng::with_seed(1);
    (0..20).for_each(|_| values.write(&mut random));
    let spec = values.spec(&mut random, "c");
    let handles: Vec<JobHandle> = (0..20)
        .map(|job| executor.submit(JobSpec::from(spec.clone()).with_stem(&format!("c{job}"))).unwrap())
        .collect();
    handles.iter().for_each(JobHandle::cancel);
    let answers: Vec<_> = handles.iter().map(answer).collect();
    let cancelled = |answer: &firn_jobs::Result<JobResult>| matches!(answer, Err(error) if error.kind == ErrorKind::Cancelled);
    assert!(answers.iter().any(cancelled), "{answers:?}");
    for (job, answer) in answers.iter().enumerate().filter(|(_, answer)| cancelled(answer)) {
        assert!(values.names(&format!("c{job}-")).is_empty(), "{job}: {answer:?}");
    }
}
