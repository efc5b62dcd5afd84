//! A worker process that a database relies on for nothing: it comes, goes, and is killed in the middle of jobs.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use firn::jobs::socket::Socket;
use firn::{Db, Settings};
use firn_storage::ThreadSpawn;

const PROGRAM: &str = env!("CARGO_BIN_EXE_firn");

/// `firn worker`, killed when it is dropped.
struct Worker(Child);

impl Worker {
    fn start(socket: &Path) -> Self {
        let mut command = Command::new(PROGRAM);
        command.args(["worker", "--threads", "2", "--socket"]).arg(socket).stdout(Stdio::piped());
        let mut process = command.spawn().expect("the program starts");
        let mut line = String::new();
        BufReader::new(process.stdout.as_mut().expect("piped")).read_line(&mut line).expect("it is read");
        assert!(line.starts_with("working for whoever connects to "), "{line:?}");
        Self(process)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.0.kill().expect("it is killed");
        self.0.wait().expect("it ends");
    }
}

fn open(dir: &Path, socket: &Path) -> Db {
    let settings = Settings {
        separate_bytes: 100,
        value_segment_bytes: 1 << 20,
        space_amplification_max: 1.1,
        memtable_bytes: 1 << 20,
        table_bytes: 256 << 10,
        ..Settings::for_memory(64 << 20)
    };
    let worker = Socket::new(socket, dir, Arc::new(ThreadSpawn::new())).expect("a directory");
    Db::builder(dir).settings(settings).executor(Arc::new(worker)).open().expect("it opens")
}

fn value(random: &mut fastrand::Rng) -> Vec<u8> {
    vec![random.u8(..); random.usize(50..6000)]
}

#[test]
fn a_worker_that_is_killed_again_and_again_costs_nothing_but_time() {
    let seed = std::env::var("FIRN_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    println!("FIRN_SEED={seed}");
    let random = &mut fastrand::Rng::with_seed(seed);
    let place = tempfile::tempdir().expect("a directory");
    let (dir, socket) = (place.path().join("db"), place.path().join("worker.socket"));
    let db = open(&dir, &socket);
    let mut model: Vec<Option<Vec<u8>>> = vec![None; 800];
    let mut done_there = 0;
    for round in 0..10 {
        let worker = (round != 3).then(|| Worker::start(&socket));
        let before = db.stats();
        for step in 0..3000 {
            let key = random.usize(0..model.len());
            model[key] = (random.u32(0..10) > 0).then(|| value(random));
            match &model[key] {
                Some(value) => db.put(key.to_be_bytes(), value),
                None => db.delete(key.to_be_bytes()),
            }
            .expect("it is written");
            if step % 1000 == 999 {
                db.flush().expect("it drains");
            }
        }
        if round < 2 {
            db.wait_idle().expect("it rests");
        }
        // In the middle of whatever it does.
        std::thread::sleep(Duration::from_millis(random.u64(0..50)));
        drop(worker);
        let after = db.stats();
        let jobs = |stats: &firn::Stats| stats.compaction_count + stats.values.collection_count;
        let here = after.compaction_fallback_count - before.compaction_fallback_count;
        done_there += (jobs(&after) - jobs(&before)).saturating_sub(here);
        for (key, value) in model.iter().enumerate() {
            assert_eq!(&db.get(key.to_be_bytes()).expect("it is read"), value, "round {round}, key {key}");
        }
    }
    db.wait_idle().expect("it rests");
    let stats = db.stats();
    assert!(done_there > 0 && stats.compaction_fallback_count > 0, "{done_there} there, {stats:?}");
    assert!(stats.values.collection_count > 10, "{:?}", stats.values);
    db.close().expect("it closes");
    drop(db);
    let verify = Command::new(PROGRAM).arg("verify").arg(&dir).output().expect("it runs");
    assert!(verify.status.success(), "{}", String::from_utf8_lossy(&verify.stderr));
    let db = open(&dir, &socket);
    for (key, value) in model.iter().enumerate() {
        assert_eq!(&db.get(key.to_be_bytes()).expect("it is read"), value, "key {key}, opened again");
    }
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
