//! Jobs over a socket: the same bytes as here, and workers that are missing, go, hang, or are
//! cancelled.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex};

use fastrand::Rng;
use firn_engine::Semantics;
use firn_jobs::socket::{Report, Socket, serve};
use firn_jobs::{ErrorKind, Executor, JobHandle, JobResult, JobSpec};
use firn_storage::backend::{Local as Directory, LocalOptions};
use firn_storage::{Priority, Spawn, Storage, SystemClock, ThreadSpawn};

use crate::same_bytes::{answer, compare};
use crate::segments::Values;

/// A directory, a worker for it, and an executor that asks that.
struct Scene {
    directory: tempfile::TempDir,
    storage: Arc<dyn Storage>,
    socket: std::path::PathBuf,
    /// What workers reported.
    reported: Arc<Mutex<Vec<String>>>,
}

impl Scene {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("db");
        let storage = Arc::new(Directory::open(&path, LocalOptions { create: true }).unwrap());
        let socket = directory.path().join("worker.socket");
        Self { socket, directory, storage, reported: Arc::default() }
    }

    fn listen(&self) -> UnixListener {
        UnixListener::bind(&self.socket).unwrap()
    }

    /// A worker whose threads live as long as the test.
    fn worker(&self, threads: usize) {
        let listener = self.listen();
        let spawn: Arc<dyn Spawn> = Arc::new(ThreadSpawn::new());
        let served = Arc::clone(&spawn);
        let reported = Arc::clone(&self.reported);
        let report: Report = Arc::new(move |what: &str| reported.lock().unwrap().push(what.to_owned()));
        let (semantics, clock) = (Arc::new(Semantics::new()), SystemClock::new());
        let work = Box::new(move || serve(&listener, &semantics, threads, &served, &clock, &report));
        spawn.spawn("worker".to_owned(), Priority::Normal, work).unwrap();
    }

    fn executor(&self) -> Socket {
        self.executor_on(&self.directory.path().join("db"))
    }

    fn executor_on(&self, directory: &Path) -> Socket {
        Socket::new(&self.socket, directory, Arc::new(ThreadSpawn::new())).unwrap()
    }

    /// Some job.
    fn job(&self) -> JobSpec {
        let mut values = Values::on(Arc::clone(&self.storage), 1);
        let mut random = Rng::with_seed(1);
        values.write(&mut random);
        values.spec(&mut random, "c").into()
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
    let spec = scene.job();
    let error = executor.submit(spec.clone()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert!(error.to_string().contains("worker.socket"), "{error}");
    // A worker that takes the job and goes.
    let listener = scene.listen();
    let handle = executor.submit(spec.clone()).unwrap();
    let (mut stream, _) = listener.accept().unwrap();
    stream.read_exact(&mut [0; 40]).unwrap();
    assert!(handle.poll().is_none());
    drop(stream);
    assert_eq!(answer(&handle).unwrap_err().kind, ErrorKind::Unavailable);
    // A worker that says what no worker says.
    let handle = executor.submit(spec.clone()).unwrap();
    let (stream, _) = listener.accept().unwrap();
    (&stream).write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
    assert_eq!(answer(&handle).unwrap_err().kind, ErrorKind::Unavailable);
    drop((listener, stream));
    std::fs::remove_file(&scene.socket).unwrap();
    scene.worker(1);
    assert!(answer(&executor.submit(spec).unwrap()).is_ok());
}

/// A message as it travels.
fn message(tag: u8, number: u64, body: &[u8]) -> Vec<u8> {
    let rest = [&[tag], number.to_le_bytes().as_slice(), body].concat();
    [&(rest.len() as u32).to_le_bytes(), rest.as_slice()].concat()
}

#[test]
fn a_database_with_other_messages_is_told_so_and_the_talk_ends() {
    let scene = Scene::new();
    scene.worker(1);
    for (version, older) in [(1, "database"), (77, "worker")] {
        let mut stream = UnixStream::connect(&scene.socket).unwrap();
        stream.write_all(&message(0, version, b"/some/where")).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let said = String::from_utf8_lossy(&answer[14..]).into_owned();
        assert_eq!(answer, message(4, 0, &[&[ErrorKind::Unavailable as u8], said.as_bytes()].concat()));
        assert!(said.contains(&format!("database version {version}: upgrade the {older}")), "{said}");
        let reported = scene.reported.lock().unwrap().pop().unwrap();
        assert_eq!(reported, format!("the database in /some/where is not served: {said}"));
    }
}

#[test]
fn what_a_worker_says_that_does_not_serve_is_why_jobs_fail() {
    let scene = Scene::new();
    let listener = scene.listen();
    let executor = scene.executor();
    let spec = scene.job();
    let handles = [0, 1].map(|_| executor.submit(spec.clone()).unwrap());
    let (mut stream, _) = listener.accept().unwrap();
    stream
        .write_all(&message(4, 0, &[&[ErrorKind::Unavailable as u8][..], b"not of my age"].concat()))
        .unwrap();
    for handle in &handles {
        let error = answer(handle).unwrap_err();
        assert_eq!((error.kind, error.to_string().as_str()), (ErrorKind::Unavailable, "not of my age"));
    }
    // The talk is over, and another one begins with the next job.
    stream.read_to_end(&mut Vec::new()).unwrap();
    let _handle = executor.submit(spec).unwrap();
    listener.accept().unwrap();
}

#[test]
fn a_directory_that_a_worker_cannot_open_is_why_jobs_fail_until_it_can() {
    let scene = Scene::new();
    scene.worker(1);
    let directory = scene.directory.path().join("elsewhere");
    let (executor, spec) = (scene.executor_on(&directory), scene.job());
    for _ in 0..20 {
        let error = answer(&executor.submit(spec.clone()).unwrap()).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unavailable);
        let said = error.to_string();
        assert!(
            said.contains("the worker cannot open") && said.contains(directory.to_str().unwrap()),
            "{said}"
        );
        let reported = scene.reported.lock().unwrap().pop().unwrap();
        assert!(reported.ends_with(&said), "{reported}");
    }
    std::os::unix::fs::symlink(scene.directory.path().join("db"), &directory).unwrap();
    answer(&executor.submit(spec).unwrap()).unwrap();
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
