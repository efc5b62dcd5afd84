//! An opening after a kill: `cargo bench -p firn-hashlog --bench open [KEYS] [DIR]`.
//!
//! Keys and values of 8 bytes, written at `process`. One process writes them and ends without
//! closing; then five processes open what it has left, and end in the same way. `DIR`, if named,
//! stays, and is opened as it is where it is there.

#![expect(clippy::print_stdout, clippy::disallowed_methods, reason = "a benchmark prints, and measures time")]

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use firn_engine::settings::MIB;
use firn_engine::{Durability, Engine, KEYSPACE_DEFAULT, ReadAt, WriteOptions};
use firn_hashlog::{Background, HashLog, HashOptions, Settings};
use firn_storage::backend::{Local, LocalOptions};
use firn_storage::{SystemClock, ThreadSpawn};

const OPENINGS: usize = 5;

/// What a process that this one starts is to do.
const ROLE: &str = "FIRN_BENCH_ROLE";

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    let keys: u64 = args.first().and_then(|arg| arg.parse().ok()).unwrap_or(100_000);
    let folder = tempfile::tempdir().expect("a folder");
    let path = args.get(1).map_or_else(|| folder.path().join("db"), Into::into);
    match std::env::var(ROLE).as_deref() {
        Ok("load") => load(&path, keys),
        Ok(_) => reopen(&path, keys),
        Err(_) => {
            let run = |role: &str| {
                let program = std::env::current_exe().expect("this program");
                let mut command = Command::new(program);
                command.env(ROLE, role).arg(keys.to_string()).arg(&path);
                assert!(command.status().expect("it runs").success(), "{role} has failed");
            };
            if !path.exists() {
                run("load");
            }
            (0..OPENINGS).for_each(|_| run("open"));
        }
    }
}

fn open(path: &Path, keys: u64) -> Arc<HashLog> {
    HashLog::open(&HashOptions {
        storage: Arc::new(Local::open(path, LocalOptions { create: true }).expect("a directory")),
        settings: Settings::for_memory((keys * 160).max(256 * MIB)),
        semantics: Default::default(),
        clock: Arc::new(SystemClock::new()),
        background: Background::Threads(Arc::new(ThreadSpawn::new())),
        seed: 7,
        create: true,
        take_over: false,
    })
    .expect("a database")
}

fn key(number: u64) -> [u8; 8] {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()
}

fn load(path: &Path, keys: u64) -> ! {
    let database = open(path, keys);
    let mut session = database.session();
    session.set_inline(true);
    let options = WriteOptions { durability: Some(Durability::Process), ..WriteOptions::default() };
    for number in 0..keys {
        let put = session.put(KEYSPACE_DEFAULT, &key(number), &number.to_le_bytes(), options);
        assert!(put.is_ok_and(|outcome| outcome.done().is_some()));
    }
    // Without a checkpoint of the close, as after a kill.
    std::process::exit(0);
}

fn reopen(path: &Path, keys: u64) -> ! {
    let (begun, cpu) = (Instant::now(), cpu_seconds());
    let database = open(path, keys);
    println!("open {:.2} s, {:.2} s of processors", begun.elapsed().as_secs_f64(), cpu_seconds() - cpu);
    let mut session = database.session();
    session.set_inline(true);
    let mut value = Vec::new();
    for number in (0..keys).step_by(97) {
        let found = session.get(ReadAt::Latest, KEYSPACE_DEFAULT, &key(number), &mut value);
        assert!(found.is_ok_and(|outcome| outcome.done() == Some(true)), "key {number}");
        assert_eq!(value, number.to_le_bytes());
    }
    std::process::exit(0);
}

/// Processor time of this process.
fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}
