//! Reads of more data than memory has, one key at a time and several: `cargo bench -p firn-hashlog
//! --bench beyond [KEYS] [MEMORY_MIB] [DIR]`.
//!
//! Values of 100 bytes, keys drawn uniformly, one session, three rounds. Run it in a cgroup whose
//! limit is a little more than that memory, and what the kernel keeps of the files is little too.
//! `DIR`, if named, stays, and is used as it is where it is there.

#![expect(clippy::print_stdout, clippy::disallowed_methods, reason = "a benchmark prints, and measures time")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use firn_engine::settings::MIB;
use firn_engine::{Engine, KEYSPACE_DEFAULT, ReadAt, Session, Values, WriteOptions};
use firn_hashlog::{Background, HashLog, HashOptions, Settings};
use firn_storage::backend::{Local, LocalOptions};
use firn_storage::{SystemClock, ThreadSpawn};

/// Of each measurement.
const TIME: Duration = Duration::from_secs(3);

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    let keys: u64 = args.first().and_then(|arg| arg.parse().ok()).unwrap_or(2_000_000);
    let memory_mib: u64 = args.get(1).and_then(|arg| arg.parse().ok()).unwrap_or(64);
    let folder = tempfile::tempdir().expect("a folder");
    let path = args.get(2).map_or_else(|| folder.path().join("db"), Into::into);
    let is_there = path.exists();
    let database = HashLog::open(&HashOptions {
        storage: Arc::new(Local::open(&path, LocalOptions { create: true }).expect("a directory")),
        settings: Settings::for_memory(memory_mib * MIB),
        semantics: Default::default(),
        clock: Arc::new(SystemClock::new()),
        background: Background::Threads(Arc::new(ThreadSpawn::new())),
        seed: 7,
        create: true,
        take_over: false,
    })
    .expect("a database");
    let mut session = database.session();
    session.set_inline(true);
    let key = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
    for number in 0..if is_there { 0 } else { keys } {
        let put = session.put(KEYSPACE_DEFAULT, &key(number), &[number as u8; 100], WriteOptions::default());
        assert!(put.is_ok_and(|outcome| outcome.done().is_some()));
    }
    database.flush().expect("flush");
    database.wait_idle().expect("idle");
    let cold = database.stats().hash.expect("its part").cold.run_entry_count;
    println!("{keys} keys in {memory_mib} MiB, {cold} of them found by runs of the cold log");
    let mut random = fastrand::Rng::with_seed(1);
    for _ in 0..3 {
        for together in [1, 16, 64] {
            measure(&database, &mut *session, together, || key(random.u64(..keys)));
        }
    }
    drop(session);
    database.close().expect("close");
}

/// Reads so many of the keys that `draw` answers at a time.
fn measure(
    database: &HashLog,
    session: &mut dyn Session,
    together: usize,
    mut draw: impl FnMut() -> [u8; 8],
) {
    let (mut value, mut values) = (Vec::new(), Values::new());
    let (begun, cpu, misses) = (Instant::now(), cpu_seconds(), database.stats().read_miss_count);
    let mut reads = 0;
    while begun.elapsed() < TIME {
        let keys: Vec<[u8; 8]> = (0..together).map(|_| draw()).collect();
        let keys: Vec<&[u8]> = keys.iter().map(|key| key.as_slice()).collect();
        let done = match keys.as_slice() {
            [key] => session
                .get(ReadAt::Latest, KEYSPACE_DEFAULT, key, &mut value)
                .map(|read| read.done().is_some()),
            keys => {
                let read = session.multi_get(ReadAt::Latest, KEYSPACE_DEFAULT, keys, &mut values);
                read.map(|read| read.done().is_some() && values.iter().flatten().count() == together)
            }
        };
        assert!(done.expect("read"));
        reads += together;
    }
    let (wall, cpu) = (begun.elapsed().as_secs_f64(), cpu_seconds() - cpu);
    let misses = (database.stats().read_miss_count - misses) as f64 / reads as f64;
    let (rate, cpu_us) = (reads as f64 / wall, cpu * 1e6 / reads as f64);
    println!(
        "{together:3} together {rate:8.0} reads/s {cpu_us:6.1} us of the processor {misses:5.2} records of the device"
    );
}

/// Processor time of this process.
fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}
