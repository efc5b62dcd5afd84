//! What runs cost, in nanoseconds an operation:
//! `cargo bench -p firn-tree --bench run [-- ENTRIES]`.
//!
//! The modules are compiled into this program, so that nothing private has to be public for it.
//! Without `--bench` (as in `cargo test`) it runs once over few entries.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use firn_arena::Region;
use firn_format::filter::filter_hash;
use firn_format::key::{Kind, Trailer, key_prefix};
use firn_format::log::{RECORD_HEADER_BYTES, Record, record_bytes};
use firn_format::{Position, Sequence};
use firn_jobs::Cursor;

use buffer::entry::RunEntry;
use buffer::index::PrefixIndex;
use buffer::merge::MergeTask;
use buffer::run::{Filtering, FrozenEntries, Run};
use records::Records;

mod records {
    pub(crate) use firn_tree::Records;
}

#[expect(
    dead_code,
    unused_imports,
    reason = "the program measures some of what the modules do, and tests nothing"
)]
#[path = "../src/buffer"]
mod buffer {
    #[path = "entry.rs"]
    pub(crate) mod entry;
    #[path = "index.rs"]
    pub(crate) mod index;
    #[path = "run/mod.rs"]
    pub(crate) mod run;
    #[path = "merge/mod.rs"]
    pub(crate) mod merge;
}

fn main() {
    let numbers: Vec<usize> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    let thorough = std::env::args().any(|argument| argument == "--bench");
    let entries = numbers.first().copied().unwrap_or(if thorough { 2_000_000 } else { 10_000 });
    println!("{:>7} {:>9} {:>5}  ns an operation", "value", "entries", "runs");
    measure_filter(entries);
    for value_bytes in [100, 1024] {
        measure_reads(entries, value_bytes);
    }
    for run_count in [2, 4, 8, 16] {
        measure_merge(entries, run_count, 0);
    }
    measure_merge(entries, 4, entries / 10);
}

fn report(what: &str, value_bytes: usize, entries: usize, runs: usize, times: usize, elapsed: Duration) {
    let each = elapsed.as_nanos() as f64 / times as f64;
    println!("{value_bytes:>7} {entries:>9} {runs:>5}  {each:8.1}  {what}");
}

fn measure_filter(entries: usize) {
    let hashes: Vec<u32> = (0..2 * entries as u64).map(|number| filter_hash(&number.to_le_bytes())).collect();
    let (inside, outside) = hashes.split_at(entries);
    let (elapsed, filter) = best(|| firn_format::filter::build(inside, 10));
    report("filter build", 0, entries, 1, entries, elapsed);
    let contained = |hashes: &[u32]| {
        let filter = black_box(filter.as_slice());
        hashes.iter().filter(|hash| firn_format::filter::contains(filter, **hash)).count()
    };
    let (elapsed, count) = best(|| contained(inside));
    assert_eq!(count, entries);
    report("filter look, key is there", 0, entries, 1, entries, elapsed);
    let (elapsed, count) = best(|| contained(outside));
    report("filter look, key is not there", 0, entries, 1, entries, elapsed);
    println!("{:>23}  {:8.3}  percent of false positives", "", 100.0 * count as f64 / entries as f64);
}

fn measure_reads(entries: usize, value_bytes: usize) {
    let log = Log::filled(entries, value_bytes, |number| number);
    let (elapsed, frozen) = timed(|| log.frozen(0..entries));
    report("sort (standard library, for scale)", value_bytes, entries, 1, entries, elapsed);
    let entry_list = frozen.entries.clone();
    let index = PrefixIndex::build(&entry_list);
    let (elapsed, run) = timed(|| Run::build(frozen, &FILTERING, &log).ok());
    report("build of a run", value_bytes, entries, 1, entries, elapsed);
    let Some(run) = run.map(Arc::new) else { return };
    println!("{:>23}  {:8.1}  bytes an entry", "", run.memory_bytes() as f64 / entries as f64);

    let times = entries.min(1_000_000);
    let mut random = fastrand::Rng::with_seed(1);
    let probes: Vec<(u32, [u8; KEY_BYTES])> =
        (0..times).map(|_| key(random.u64(..entries as u64))).map(|key| (filter_hash(&key), key)).collect();
    let (elapsed, _) = best(|| {
        let places =
            probes.iter().map(|(_, key)| index.lower_bound(&entry_list, key_prefix(black_box(key), 4)));
        places.fold(0, |sum, place| sum ^ place)
    });
    report("search in the index alone", value_bytes, entries, 1, times, elapsed);
    let mut value = Vec::with_capacity(value_bytes);
    let (elapsed, found) = best(|| {
        let hits = probes.iter().filter(|(hash, key)| {
            let Some((_, record)) = run.newest(*hash, key, Sequence::MAX, &log) else { return false };
            value.clear();
            value.extend_from_slice(record.value);
            black_box(&value);
            true
        });
        hits.count()
    });
    assert_eq!(found, times);
    report("hit: filter, search, record, copy", value_bytes, entries, 1, times, elapsed);
    let absent: Vec<(u32, [u8; KEY_BYTES])> = (0..times as u64)
        .map(|number| key(entries as u64 + number))
        .map(|key| (filter_hash(&key), key))
        .collect();
    let miss =
        || absent.iter().filter(|(hash, key)| run.newest(*hash, key, Sequence::MAX, &log).is_some()).count();
    let (elapsed, found) = best(miss);
    assert_eq!(found, 0);
    report("miss", value_bytes, entries, 1, times, elapsed);

    let mut cursor = run.cursor(Sequence::MAX, &log);
    let (elapsed, bytes) = best(|| {
        let mut bytes = 0;
        let mut moved = cursor.seek_first();
        while let (Ok(()), Some(entry)) = (&moved, cursor.entry()) {
            bytes += entry.key.len() + entry.value.len();
            moved = cursor.next();
        }
        bytes
    });
    assert_eq!(bytes, entries * (KEY_BYTES + value_bytes));
    report("cursor step", value_bytes, entries, 1, entries, elapsed);
}

/// Merges `run_count` runs; `overwrites` of the entries are second versions of keys of other runs.
fn measure_merge(entries: usize, run_count: usize, overwrites: usize) {
    let distinct = (entries - overwrites) as u64;
    let log = Log::filled(entries, 100, |number| number % distinct);
    let each = entries / run_count;
    let runs: Vec<Arc<Run>> = (0..run_count)
        .map(|index| index * each..(index + 1) * each)
        .filter_map(|range| Run::build(log.frozen(range), &FILTERING, &log).ok().map(Arc::new))
        .collect();
    let total: usize = runs.iter().map(|run| run.len()).sum();
    let (elapsed, (rest, merged)) = best(|| {
        let mut task = MergeTask::new(runs.clone(), &[], FILTERING, 1, &log);
        while matches!(task.step(1 << 16), Ok(buffer::merge::Progress::Working { .. })) {}
        timed(|| task.finish().ok())
    });
    let what = format!(
        "merge by reference, filter and index included ({} dropped; finish {} us)",
        merged.map_or(0, |run| run.dropped().count),
        rest.as_micros()
    );
    report(&what, 100, total, run_count, total, elapsed);
}

const FILTERING: Filtering = Filtering { bits_per_key: 10, extractor: None };
const KEY_BYTES: usize = 24;
const REPETITIONS: usize = 5;

/// `user` and 20 digits of a scrambled number, as YCSB has them.
fn key(number: u64) -> [u8; KEY_BYTES] {
    let mut key = *b"user00000000000000000000";
    let mut rest = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for digit in key.iter_mut().skip(4).rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    key
}

/// Records in sealed segments of 64 MiB, found as the engine finds them.
struct Log {
    segments: Vec<Region>,
    positions: Vec<Position>,
}

const SEGMENT_SHIFT: u32 = 26;
const SEGMENT_BYTES: usize = 1 << SEGMENT_SHIFT;

impl Records for Log {
    #[inline]
    fn record(&self, position: Position) -> Option<Record<'_>> {
        let segment = self.segments.get((position.0 >> SEGMENT_SHIFT) as usize)?;
        Record::at(segment.read_from(position.0 as usize & (SEGMENT_BYTES - 1)))
    }
}

impl Log {
    /// `count` values, the key of record `i` being that of `number(i)`.
    fn filled(count: usize, value_bytes: usize, number: impl Fn(u64) -> u64) -> Self {
        let span = record_bytes(KEY_BYTES, value_bytes, false);
        let per_segment = SEGMENT_BYTES / span;
        let numbers: Vec<u64> = (0..count as u64).map(number).collect();
        let segments = numbers.chunks(per_segment).map(|part| {
            let fill = |bytes: &mut [u8]| -> Result<(), ()> {
                for (number, record) in part.iter().zip(bytes.chunks_mut(span)) {
                    write_record(record, &key(*number), value_bytes);
                }
                Ok(())
            };
            Region::load(SEGMENT_BYTES, part.len() * span, fill).ok()
        });
        let segments: Vec<Region> = segments.map_while(|segment| segment).collect();
        let place = |index: usize| (index / per_segment) << SEGMENT_SHIFT | (index % per_segment * span);
        Self { segments, positions: (0..count).map(|index| Position(place(index) as u64)).collect() }
    }

    /// What a memtable over the records of `range` would leave.
    fn frozen(&self, range: std::ops::Range<usize>) -> FrozenEntries {
        let positions = &self.positions[range];
        let common = b"user".to_vec();
        let mut sorted: Vec<(&[u8], Position)> = positions
            .iter()
            .filter_map(|position| self.record(*position).map(|record| (record.key, *position)))
            .collect();
        sorted.sort_unstable_by(|a, b| a.0.cmp(b.0).then(b.1.cmp(&a.1)));
        let entry = |(key, position): &(&[u8], Position)| RunEntry {
            prefix: key_prefix(key, common.len()),
            trailer: Trailer::new(position.sequence(), Kind::Put),
        };
        let end = positions.last().map_or(0, |last| last.0 + 8);
        FrozenEntries {
            entries: sorted.iter().map(entry).collect(),
            hashes: sorted.iter().map(|(key, _)| filter_hash(key)).collect(),
            common,
            tombstones: Arc::default(),
            span: positions.first().copied().unwrap_or_default()..Position(end),
            live_bytes: 0,
        }
    }
}

/// A put, laid out as `format::log::record` says.
fn write_record(record: &mut [u8], key: &[u8], value_bytes: usize) {
    let (header, rest) = record.split_at_mut(RECORD_HEADER_BYTES);
    header[..4].copy_from_slice(&(value_bytes as u32).to_le_bytes());
    header[4..6].copy_from_slice(&(key.len() as u16).to_le_bytes());
    header[6] = Kind::Put as u8;
    rest[..key.len()].copy_from_slice(key);
    rest[key.len()..][..value_bytes].fill(7);
}

/// The least of [`REPETITIONS`] times, so that what else the machine does shows little.
fn best<T>(mut work: impl FnMut() -> T) -> (Duration, T) {
    let mut best = timed(&mut work);
    for _ in 1..REPETITIONS {
        let again = timed(&mut work);
        if again.0 < best.0 {
            best = again;
        }
    }
    best
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn timed<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let start = Instant::now();
    let result = black_box(work());
    (start.elapsed(), result)
}
