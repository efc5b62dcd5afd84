//! Operations in memory, as programs call them: `cargo bench -p firn-hashlog --bench run [KEYS]`.
//!
//! Keys and values of 8 bytes, keys drawn uniformly, one session.

#![expect(clippy::print_stdout, clippy::disallowed_methods, reason = "a benchmark prints, and measures time")]

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use firn_engine::settings::MIB;
use firn_engine::{Durability, Engine, KEYSPACE_DEFAULT, ReadAt, Rmw, WriteOptions};
use firn_hashlog::{Background, HashLog, HashOptions, Settings};
use firn_storage::backend::{Local, LocalOptions};
use firn_storage::{SystemClock, ThreadSpawn};

const OPERATIONS: usize = 4_000_000;

fn main() {
    let keys: u64 = std::env::args().skip(1).find_map(|arg| arg.parse().ok()).unwrap_or(1_000_000);
    let folder = tempfile::tempdir().expect("a folder");
    let memory_bytes = (keys * 160).max(256 * MIB);
    let open = |path: &Path| {
        HashLog::open(&HashOptions {
            storage: Arc::new(Local::open(path, LocalOptions { create: true }).expect("a directory")),
            settings: Settings::for_memory(memory_bytes),
            semantics: Default::default(),
            clock: Arc::new(SystemClock::new()),
            background: Background::Threads(Arc::new(ThreadSpawn::new())),
            seed: 7,
            create: true,
            take_over: false,
        })
        .expect("a database")
    };
    let database = open(&folder.path().join("db"));
    let mut session = database.session();
    session.set_inline(true);
    let options = WriteOptions { durability: Some(Durability::Process), ..WriteOptions::default() };
    let key = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
    time("load", keys as usize, |number| {
        let number = number as u64;
        let put = session.put(KEYSPACE_DEFAULT, &key(number), &number.to_le_bytes(), options);
        assert!(put.is_ok_and(|outcome| outcome.done().is_some()));
    });
    let checkpoint = WriteOptions { durability: Some(Durability::Checkpoint), ..options };
    println!("memory {} bytes a key", database.stats().memory_bytes / keys);
    // What a killed process leaves.
    let (from, killed) = (folder.path().join("db"), folder.path().join("killed"));
    std::fs::create_dir(&killed).expect("a folder");
    for file in std::fs::read_dir(&from).expect("its files") {
        let file = file.expect("a file");
        std::fs::copy(file.path(), killed.join(file.file_name())).expect("copied");
    }
    let begun = Instant::now();
    let reopened = open(&killed);
    println!("reopen {:.2} s", begun.elapsed().as_secs_f64());
    drop(reopened);
    std::fs::remove_dir_all(&killed).expect("removed");
    let mut random = fastrand::Rng::with_seed(1);
    // Drawn anew for each figure: what was written lies in the order in which it was written, and
    // would be read in that order.
    let mut draw = || (0..OPERATIONS).map(|_| key(random.u64(..keys))).collect::<Vec<[u8; 8]>>();
    for _ in 0..2 {
        let (mut value, draws) = (Vec::new(), draw());
        time("read", OPERATIONS, |number| {
            let found = session.get(ReadAt::Latest, KEYSPACE_DEFAULT, &draws[number], &mut value);
            assert!(found.is_ok_and(|outcome| outcome.done() == Some(true)));
        });
        for options in [checkpoint, options] {
            let at = options.durability.expect("one of two").name();
            let draws = draw();
            time(&format!("put {at}"), OPERATIONS, |number| {
                let put = session.put(KEYSPACE_DEFAULT, &draws[number], &draws[number], options);
                assert!(put.is_ok_and(|outcome| outcome.done().is_some()));
            });
            let draws = draw();
            time(&format!("rmw {at}"), OPERATIONS, |number| {
                let added = session.rmw(KEYSPACE_DEFAULT, &draws[number], Rmw::Add(0), options);
                assert!(added.is_ok_and(|outcome| outcome.done().is_some()));
            });
        }
    }
    drop(session);
    let begun = Instant::now();
    database.close().expect("close");
    println!("close {:.2} s", begun.elapsed().as_secs_f64());
}

fn time(what: &str, operations: usize, mut operation: impl FnMut(usize)) {
    let (begun, cpu) = (Instant::now(), cpu_seconds());
    (0..operations).for_each(&mut operation);
    let (wall, cpu) = (begun.elapsed().as_secs_f64(), cpu_seconds() - cpu);
    let (by_wall, by_cpu) = (operations as f64 / wall / 1e6, operations as f64 / cpu / 1e6);
    println!("{what:15} {by_wall:6.2} Mops/s, {by_cpu:6.2} per second of the thread's processor time");
}

/// Processor time of this thread.
fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}
