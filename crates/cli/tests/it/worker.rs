//! A worker process that a database relies on for nothing: it comes, goes, and is killed in the
//! middle of jobs.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use firn::jobs::socket::Socket;
use firn::jobs::{Executor, JobHandle, JobSpec, Result, is_output_of};
use firn::{Db, Settings};
use firn_engine::JobKindStats;
use firn_format::file_name;
use firn_storage::ThreadSpawn;
use rustix::process::{Pid, Signal};

const PROGRAM: &str = env!("CARGO_BIN_EXE_firn");

/// `firn worker`, killed when it is dropped.
pub(crate) struct Worker(Child);

impl Worker {
    pub(crate) fn start(socket: &Path) -> Self {
        let mut command = Command::new(PROGRAM);
        command.args(["worker", "--threads", "2", "--socket"]).arg(socket).stdout(Stdio::piped());
        let mut process = command.spawn().expect("the program starts");
        let mut line = String::new();
        BufReader::new(process.stdout.as_mut().expect("piped")).read_line(&mut line).expect("it is read");
        assert!(line.starts_with("working for each database that connects to "), "{line:?}");
        Self(process)
    }

    /// Memory it had at most, pages of files included.
    pub(crate) fn peak_bytes(&self) -> u64 {
        let status = self.proc_file("status");
        let kib = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB"));
        kib.expect("a peak").parse::<u64>().expect("a number") << 10
    }

    /// Stops it wherever it is.
    fn freeze(&self) {
        self.signal(Signal::STOP);
        until("it stands still", || self.proc_file("stat").contains(") T "));
    }

    fn signal(&self, signal: Signal) {
        let id = Pid::from_raw(self.0.id().cast_signed()).expect("a process");
        rustix::process::kill_process(id, signal).expect("it is told");
    }

    fn proc_file(&self, file: &str) -> String {
        std::fs::read_to_string(format!("/proc/{}/{file}", self.0.id())).expect("it runs")
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.0.kill().expect("it is killed");
        self.0.wait().expect("it ends");
    }
}

/// Fails if `done` is not so within a minute.
fn until(what: &str, mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}: not in a minute");
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Asks a worker, and knows what it was given and has not done.
#[derive(Debug)]
struct Watched {
    worker: Socket,
    given: Mutex<Vec<(JobSpec, JobHandle)>>,
}

impl Executor for Watched {
    fn submit(&self, spec: JobSpec) -> Result<JobHandle> {
        let handle = self.worker.submit(spec.clone())?;
        self.given.lock().expect("nobody panics").push((spec, handle.clone()));
        Ok(handle)
    }
}

impl Watched {
    fn new(socket: &Path, dir: &Path) -> Arc<Self> {
        let worker = Socket::new(socket, dir, Arc::new(ThreadSpawn::new())).expect("a directory");
        Arc::new(Self { worker, given: Mutex::default() })
    }

    /// Stems of attempts without an answer that counts: of attempts that have failed, or of
    /// attempts that are under way.
    fn stems(&self, has_failed: bool, is_meant: impl Fn(&JobSpec) -> bool) -> Vec<String> {
        let mut given = self.given.lock().expect("nobody panics");
        given.retain(|(_, handle)| !matches!(handle.poll(), Some(Ok(_))));
        let found = given.iter().filter(|(_, handle)| handle.poll().is_some() == has_failed);
        found.filter(|(spec, _)| is_meant(spec)).map(|(spec, _)| spec.output_stem().to_owned()).collect()
    }

    /// GCs that have no answer and whose output is begun in `dir`.
    fn begun(&self, dir: &Path) -> Vec<String> {
        let mut stems = self.stems(false, |spec| matches!(spec, JobSpec::BlobGc(_)));
        stems.retain(|stem| dir.join(file_name::collected_blobs(stem, 0)).exists());
        stems
    }

    /// Stops `worker` in the middle of a GC; the stems of all that it had not answered.
    fn catch(&self, worker: &Worker, dir: &Path) -> Vec<String> {
        loop {
            until("a GC at the worker", || !self.begun(dir).is_empty());
            worker.freeze();
            // What it has said is heard by then.
            std::thread::sleep(Duration::from_millis(100));
            if !self.begun(dir).is_empty() {
                return self.stems(false, |_| true);
            }
            worker.signal(Signal::CONT);
        }
    }
}

fn open(dir: &Path, executor: Arc<Watched>) -> Db {
    let settings = Settings {
        space_amplification_max: 1.1,
        // Nothing is done here that the worker could do.
        idle_threads: 0,
        ..Settings::for_memory(64 << 20)
    }
    .with_engine(|tree| {
        tree.separate_bytes = 100;
        tree.blob_segment_bytes = 4 << 20;
        tree.memtable_bytes = 1 << 20;
        tree.table_bytes = 256 << 10;
    });
    Db::builder(dir).settings(settings).executor(executor).open().expect("it opens")
}

/// Writes at random, and knows what must be found.
struct Model {
    random: fastrand::Rng,
    values: Vec<Option<Vec<u8>>>,
}

impl Model {
    fn write(&mut self, db: &Db, count: u32) {
        for _ in 0..count {
            let (random, keys) = (&mut self.random, self.values.len());
            let key = random.usize(0..keys);
            let value = (random.u32(0..10) > 0).then(|| vec![random.u8(..); random.usize(50..6000)]);
            match &value {
                Some(value) => db.put(key.to_be_bytes(), value),
                None => db.delete(key.to_be_bytes()),
            }
            .expect("it is written");
            self.values[key] = value;
        }
    }

    fn check(&self, db: &Db, what: &str) {
        for (key, value) in self.values.iter().enumerate() {
            assert!(&db.get(key.to_be_bytes()).expect("it is read") == value, "{what}, key {key}");
        }
    }
}

fn gcs(db: &Db) -> JobKindStats {
    let kinds = db.stats().jobs.kinds;
    kinds.into_iter().find(|kind| kind.kind == "blob_gc").expect("they are told")
}

/// Outputs of attempts called by `stems`.
fn left(dir: &Path, stems: &[String]) -> Vec<String> {
    let files = std::fs::read_dir(dir).expect("listed").map(|file| file.expect("one").file_name());
    let names = files.filter_map(|name| name.into_string().ok());
    names.filter(|name| stems.iter().any(|stem| is_output_of(name, stem))).collect()
}

#[test]
fn a_worker_that_is_killed_in_the_middle_of_gcs_costs_nothing_but_time() {
    let seed = std::env::var("FIRN_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    println!("FIRN_SEED={seed}");
    let mut model = Model { random: fastrand::Rng::with_seed(seed), values: vec![None; 4000] };
    let place = tempfile::tempdir().expect("a directory");
    let (dir, socket) = (place.path().join("db"), place.path().join("worker.socket"));
    let watched = Watched::new(&socket, &dir);
    let db = open(&dir, Arc::clone(&watched));
    for round in 0..3 {
        let worker = Worker::start(&socket);
        let (caught, before, passed_on) = std::thread::scope(|scope| {
            // Killed at once: writers may have to wait for what it has.
            let (watched, db, dir) = (&watched, &db, &dir);
            let killing = scope.spawn(move || {
                let caught = watched.catch(&worker, dir);
                let before = (gcs(db), db.stats().jobs_passed_on_count);
                drop(worker);
                (caught, before.0, before.1)
            });
            while !killing.is_finished() {
                model.write(db, 20);
            }
            killing.join().expect("one is caught")
        });
        // No other worker is there.
        until("a GC done here instead", || {
            model.write(&db, 20);
            let is_instead = db.stats().jobs_passed_on_count > passed_on;
            is_instead && gcs(&db).here_count > before.here_count
        });
        let reason = db.stats().jobs_passed_on_reason.expect("one is told");
        assert!(reason.contains("worker"), "round {round}: {reason}");
        until("nothing is left", || left(&dir, &caught).is_empty());
        model.check(&db, &format!("round {round}"));
    }
    // In the middle of whatever it does.
    for round in 0..2 {
        let worker = Worker::start(&socket);
        model.write(&db, 3000);
        std::thread::sleep(Duration::from_millis(model.random.u64(0..50)));
        drop(worker);
        model.check(&db, &format!("at random, round {round}"));
    }
    let (_worker, before) = (Worker::start(&socket), gcs(&db));
    until("a GC done by one that is back", || {
        model.write(&db, 20);
        gcs(&db).elsewhere_count > before.elsewhere_count
    });
    db.wait_idle().expect("it rests");
    model.check(&db, "at rest");
    let failed = watched.stems(true, |_| true);
    assert!(failed.len() >= 3, "{failed:?}");
    until("nothing is left of any", || left(&dir, &failed).is_empty());
    db.close().expect("it closes");
    drop(db);
    let verify = Command::new(PROGRAM).args(["verify", "--dir"]).arg(&dir).output().expect("it runs");
    assert!(verify.status.success(), "{}", String::from_utf8_lossy(&verify.stderr));
    model.check(&open(&dir, Watched::new(&socket, &dir)), "opened again");
}

#[test]
fn one_worker_listens_on_a_socket_and_takes_over_what_a_killed_one_left() {
    let place = tempfile::tempdir().expect("a directory");
    let socket = place.path().join("worker.socket");
    let first = Worker::start(&socket);
    let second = Command::new(PROGRAM).args(["worker", "--socket"]).arg(&socket).output().expect("it runs");
    assert_eq!(second.status.code(), Some(5));
    let said = String::from_utf8_lossy(&second.stderr);
    assert!(said.contains("another process listens"), "{said}");
    drop(first);
    assert!(socket.exists(), "killed, it could not clean up");
    drop(Worker::start(&socket));
    let nowhere =
        Command::new(PROGRAM).args(["worker", "--socket", "/nowhere/at/all"]).output().expect("it runs");
    assert_eq!(nowhere.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&nowhere.stderr).contains("cannot listen on /nowhere/at/all"));
}
