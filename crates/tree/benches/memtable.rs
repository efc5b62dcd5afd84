//! The memtable, measured: `cargo bench -p firn-tree --bench memtable`.
//!
//! Numbers and what followed from them: docs/decisions/0002-memtable.md. Under `cargo test` it runs
//! small.
#![expect(
    dead_code,
    unused_imports,
    unreachable_pub,
    reason = "takes in a private module by its path and uses a part of it"
)]

#[path = "../src/sync.rs"]
mod sync;
#[path = "../src/records.rs"]
mod records;
#[path = "../src/buffer"]
mod buffer {
    mod entry;
    pub(crate) use entry::{RunEntry, prefix_word};
}
#[path = "../src/memtable/mod.rs"]
mod memtable;

use firn_arena::Region;
use firn_format::Kind;
use firn_format::key::{Position, Sequence, Trailer, key_hash};
use firn_format::log::{Record, record_bytes};
use firn_jobs::Cursor;
use memtable::Memtable;
use records::Records;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

const HEADER_BYTES: usize = 24;
const SCAN_ENTRIES: usize = 50;

struct Log(Region);

impl Records for Log {
    fn record(&self, position: Position) -> Option<Record<'_>> {
        Record::at(self.0.read_from(position.0 as usize))
    }
}

impl Log {
    fn watermark(&self) -> Sequence {
        Position(self.0.published() as u64).sequence()
    }

    fn put(&self, index: &Memtable, key: &[u8], value: &[u8]) {
        let bytes = HEADER_BYTES + record_bytes(key.len(), value.len(), false);
        let mut frame = self.0.reserve(bytes).expect("the region was made large enough");
        let record = Record { keyspace: 0, kind: Kind::Put, expires_at_ms: 0, key, value };
        record.encode(&mut frame.bytes_mut()[HEADER_BYTES - 8..]);
        let sequence = Position((frame.offset() + HEADER_BYTES) as u64).sequence();
        index.insert((key_hash(key) >> 32) as u32, key, Trailer::new(sequence, Kind::Put));
        frame.publish(bytes as u64);
        self.0.advance();
    }
}

/// The `number`th key: "user" and 20 digits of a hash.
fn key_of(number: u64) -> [u8; 24] {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^= mixed >> 31;
    let mut key = *b"user00000000000000000000";
    for digit in key[4..].iter_mut().rev() {
        *digit = b'0' + (mixed % 10) as u8;
        mixed /= 10;
    }
    key
}

/// Runs `work(thread)` on each thread and returns the processor time of all of them. What else the
/// machine does at the same time then matters less.
fn timed(threads: usize, work: impl Fn(usize) + Sync) -> Duration {
    let on_this_thread = &|thread| {
        let start = processor_time();
        work(thread);
        processor_time() - start
    };
    thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|thread| scope.spawn(move || on_this_thread(thread))).collect();
        let mine = on_this_thread(0);
        others.into_iter().map(|other| other.join().expect("no panic")).sum::<Duration>() + mine
    })
}

fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Nanoseconds of a processor for one of `operations`.
fn each(time: Duration, operations: usize) -> f64 {
    time.as_nanos() as f64 / operations as f64
}

const COLUMNS: [&str; 8] =
    ["insert", "hit", "miss", "freeze", "scan+5%", "first scan", "overwrite", "bytes/entry"];

/// One round: everything that is measured, in the order of `COLUMNS`.
fn round(log_bytes: usize, value_bytes: usize, threads: usize) -> [f64; 8] {
    let frame_bytes = HEADER_BYTES + record_bytes(24, value_bytes, false);
    let count = log_bytes / frame_bytes;
    let scans = (count / 8).min(20_000);
    let log = Arc::new(Log(Region::anonymous(log_bytes + (scans + threads) * frame_bytes).expect("memory")));
    let value = vec![7; value_bytes];
    let index = Memtable::with_expected_entries(b"user", count, Arc::default());
    let share = |thread: usize, total: usize| {
        (thread * total / threads) as u64..((thread + 1) * total / threads) as u64
    };
    let insert = timed(threads, |thread| {
        share(thread, count).for_each(|number| log.put(&index, &key_of(number), &value))
    });
    let scattered = |number: u64| number.wrapping_mul(0x9e37_79b1) % count as u64;
    let get = |first: u64| {
        timed(threads, |thread| {
            let found = share(thread, count).filter(|&number| {
                let key = key_of(first + scattered(number));
                let found = index.newest((key_hash(&key) >> 32) as u32, &key, log.watermark(), &*log);
                found.is_some_and(|(_, record)| record.value[0] == 7)
            });
            assert_eq!(found.count(), if first == 0 { share(thread, count).count() } else { 0 });
        })
    };
    let (hit, miss) = (get(0), get(1 << 40));
    let bytes = index.memory_bytes() as f64 / count as f64;
    let freeze = timed(1, |_| assert_eq!(index.freeze_entries(&*log).entries.len(), count));
    let first_scan = timed(1, |_| assert!(scan(&index, &key_of(1), &log) > 0));
    let fresh = AtomicUsize::new(count);
    let scanning = timed(threads, |thread| {
        for number in share(thread, scans) {
            if number % 20 == 0 {
                log.put(&index, &key_of(fresh.fetch_add(1, Ordering::Relaxed) as u64), &value);
            } else {
                scan(&index, &key_of(scattered(number)), &log);
            }
        }
    });
    [
        each(insert, count),
        each(hit, count),
        each(miss, count),
        each(freeze, count),
        each(scanning, scans),
        first_scan.as_nanos() as f64,
        overwrite(log_bytes, value_bytes, threads),
        bytes,
    ]
}

/// Reads up to [`SCAN_ENTRIES`] entries from `key` on, as of now.
fn scan(index: &Memtable, key: &[u8], log: &Arc<Log>) -> usize {
    let mut cursor = index.cursor(log.watermark(), Arc::clone(log));
    cursor.seek(key).expect("memory does not fail");
    let (mut found, mut sum) = (0, 0);
    while found < SCAN_ENTRIES {
        let Some(entry) = cursor.entry() else { break };
        sum += entry.key.len() + usize::from(entry.value[0]);
        found += 1;
        cursor.next().expect("memory does not fail");
    }
    std::hint::black_box(sum);
    found
}

/// Skewed overwriting: half of all writes go to 64 keys, the others to 10 000.
fn overwrite(log_bytes: usize, value_bytes: usize, threads: usize) -> f64 {
    let count = log_bytes / (HEADER_BYTES + record_bytes(24, value_bytes, false));
    let log = Log(Region::anonymous(log_bytes).expect("memory"));
    let index = Memtable::with_expected_entries(b"user", count, Arc::default());
    let value = vec![7; value_bytes];
    let time = timed(threads, |thread| {
        for number in 0..(count / threads) as u64 {
            let mixed = (number + thread as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
            let keys = if mixed.is_multiple_of(2) { 64 } else { 10_000 };
            log.put(&index, &key_of((mixed >> 8) % keys), &value);
        }
    });
    each(time, count)
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_unstable_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn main() {
    let full = std::env::args().any(|argument| argument == "--bench");
    let (log_bytes, rounds) = if full { (64 << 20, 7) } else { (1 << 18, 1) };
    println!("| value bytes | threads | {} |", COLUMNS.join(" | "));
    println!("|---|---|{}", "---|".repeat(COLUMNS.len()));
    for value_bytes in [100, 1024] {
        for threads in [1, 2] {
            let rounds: Vec<_> = (0..rounds).map(|_| round(log_bytes, value_bytes, threads)).collect();
            let medians: Vec<_> = (0..COLUMNS.len())
                .map(|column| format!("{:.0}", median(rounds.iter().map(|round| round[column]).collect())))
                .collect();
            println!("| {value_bytes} | {threads} | {} |", medians.join(" | "));
        }
    }
}
