//! Operations on more data than fits in memory, and what memory that takes:
//! `cargo bench -p firn-hashlog --bench memory -- [KEYS [VALUE_BYTES [MEMORY_MIB]]]`.
//!
//! Keys drawn from a Zipfian distribution of exponent 0.99, one session, at `process`. The load
//! is in the order of hashes. Anonymous memory is the process's, with 2 MiB for the program itself
//! and the draws.

#![expect(clippy::print_stdout, clippy::disallowed_methods, reason = "a benchmark prints, and measures time")]

use std::sync::Arc;
use std::time::Instant;

use firn_engine::settings::MIB;
use firn_engine::{Durability, Engine, KEYSPACE_DEFAULT, ReadAt, WriteOptions};
use firn_hashlog::{Background, HashLog, HashOptions, Settings};
use firn_storage::backend::{Local, LocalOptions};
use firn_storage::{SystemClock, ThreadSpawn};

const OPERATIONS: u64 = 4_000_000;

fn main() {
    let numbers: Vec<u64> = std::env::args().skip(1).filter_map(|arg| arg.parse().ok()).collect();
    let argument = |index: usize, default: u64| numbers.get(index).copied().unwrap_or(default);
    let (keys, value_bytes, memory_mib) = (argument(0, 8_000_000), argument(1, 100), argument(2, 256));
    let folder = tempfile::tempdir().expect("a folder");
    let before = anonymous_mib();
    let database = HashLog::open(&HashOptions {
        storage: Arc::new(Local::open(folder.path(), LocalOptions { create: true }).expect("a directory")),
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
    let options = WriteOptions { durability: Some(Durability::Process), ..WriteOptions::default() };
    let key = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
    let mut value = vec![7; value_bytes as usize];
    let report = |what: &str, operations: u64, (begun, cpu): (Instant, f64), reads: u64| {
        let stats = database.stats();
        let hash = stats.hash.as_ref().expect("of this engine");
        let mib = |bytes: u64| bytes / MIB;
        println!(
            "{what:6} {:7.1} k/s, {:7.1} a second of the thread's processor time, {:.3} reads each; MiB: {} anonymous, {} said (index {}, log {}, copies {}, cold {}); \
             {} k entries, {} k cold, {} MiB on the device",
            operations as f64 / begun.elapsed().as_secs_f64() / 1e3,
            operations as f64 / (cpu_seconds() - cpu) / 1e3,
            (stats.read_miss_count - reads) as f64 / operations as f64,
            anonymous_mib() - before,
            mib(stats.memory_bytes),
            mib(hash.index_bytes),
            mib(hash.resident_bytes),
            mib(hash.cache_bytes),
            mib(hash.cold.memory_bytes),
            hash.index_entry_count / 1000,
            hash.cold.run_entry_count / 1000,
            mib(hash.segment_bytes + hash.cold.segment_bytes + hash.cold.run_bytes),
        );
    };
    let begun = (Instant::now(), cpu_seconds());
    for number in 0..keys {
        value[..8].copy_from_slice(&number.to_le_bytes());
        let put = session.put(KEYSPACE_DEFAULT, &key(number), &value, options);
        assert!(put.as_ref().is_ok_and(|outcome| outcome.done().is_some()), "{put:?}");
        if number % (keys / 4) == keys / 4 - 1 {
            report("load", number + 1, begun, 0);
        }
    }
    let (mut random, draws) = (fastrand::Rng::with_seed(1), Zipfian::new(keys, 0.99));
    for (what, updates) in [("reads", 0.0), ("5 %", 0.05), ("half", 0.5), ("reads", 0.0)] {
        let (begun, reads) = ((Instant::now(), cpu_seconds()), database.stats().read_miss_count);
        for done in 1..=OPERATIONS {
            let drawn = key(scattered(draws.draw(&mut random), keys));
            if random.f64() < updates {
                let put = session.put(KEYSPACE_DEFAULT, &drawn, &value, options);
                assert!(put.as_ref().is_ok_and(|outcome| outcome.done().is_some()), "{put:?}");
            } else {
                let found = session.get(ReadAt::Latest, KEYSPACE_DEFAULT, &drawn, &mut value);
                assert!(found.as_ref().is_ok_and(|outcome| outcome.done() == Some(true)), "{found:?}");
            }
            if done % (OPERATIONS / 2) == 0 {
                report(what, done, begun, reads);
            }
        }
    }
    drop(session);
    database.close().expect("close");
}

/// A key that is drawn often is as likely as any to have been loaded early or late.
fn scattered(rank: u64, keys: u64) -> u64 {
    ((u128::from(rank.wrapping_mul(0x9e37_79b9_7f4a_7c15)) * u128::from(keys)) >> 64) as u64
}

/// Ranks from 0 on, drawn by the inverse of an approximation of their distribution.
struct Zipfian {
    keys: f64,
    exponent: f64,
    sum: f64,
    rest: f64,
}

impl Zipfian {
    fn new(keys: u64, exponent: f64) -> Self {
        let sum: f64 = (1..=keys).map(|rank| (rank as f64).powf(-exponent)).sum();
        let first_two = 1.0 + 0.5_f64.powf(exponent);
        let keys = keys as f64;
        let rest = (1.0 - (2.0 / keys).powf(1.0 - exponent)) / (1.0 - first_two / sum);
        Self { keys, exponent, sum, rest }
    }

    fn draw(&self, random: &mut fastrand::Rng) -> u64 {
        let at = random.f64();
        if at * self.sum < 1.0 {
            return 0;
        }
        if at * self.sum < 1.0 + 0.5_f64.powf(self.exponent) {
            return 1;
        }
        let power = 1.0 / (1.0 - self.exponent);
        ((self.keys * (self.rest * at - self.rest + 1.0).powf(power)) as u64).min(self.keys as u64 - 1)
    }
}

/// MiB of memory that is no file's, of this process.
fn anonymous_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or_default() / 1024
}

/// Processor time of this thread.
fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}
