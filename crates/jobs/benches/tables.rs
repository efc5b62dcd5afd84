//! Tables and merges on one core: `cargo bench -p firn-jobs --bench tables [-- DIR] [-- RECORDS]`.
//!
//! Prints for 1 KiB and 100 B records: building tables, point reads of resident mapped tables
//! (uniform, hits and misses), walking, and compacting four runs. Times are CPU time of the thread
//! with the kernel's part, so that a busy machine disturbs them little. Files go to DIR (default:
//! the system's directory for temporary files) and are removed.

use std::path::PathBuf;
use std::sync::Arc;

use firn_engine::Semantics;
use firn_format::compression::Compression;
use firn_format::filter::filter_hash;
use firn_format::key::{Entry, Kind, Sequence};
use firn_format::manifest::TableMeta;
use firn_format::table::TableForm;
use firn_jobs::{CompactSpec, Control, Cursor, JobInput, OutputForm, RunCursor, run_compact};
use firn_storage::Storage;
use firn_storage::backend::{Local, LocalOptions};
use firn_storage::file::cache::BlockCache;
use firn_storage::file::table::{CursorOptions, Lookup, ReadMode, ReaderOptions, TableBuilder, TableReader};
use rustix::time::{ClockId, clock_gettime};

const TABLE_BYTES: u64 = 64 << 20;
const RUNS: u64 = 4;

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| !argument.starts_with("--"));
    let parent = arguments.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let records: u64 = arguments.next().and_then(|number| number.parse().ok()).unwrap_or(500_000);
    let dir = tempfile::tempdir_in(parent).expect("a directory for the files");
    let storage = Local::open(dir.path(), LocalOptions { create: true }).expect("an empty directory");
    for (value_bytes, records) in [(1024, records), (100, records * 4)] {
        println!("{records} records of {value_bytes} B values, 23 B keys");
        bench_blobs(&storage, records, value_bytes);
    }
}

fn bench_blobs(storage: &Local, records: u64, value_bytes: usize) {
    let value = compressible(value_bytes);
    let bytes = records * (value_bytes as u64 + 23);
    let mut inputs = Vec::new();
    measure("build", records, bytes, || {
        for run in 0..RUNS {
            let numbers = (0..records).filter(|number| number % RUNS == run);
            let metas = build(storage, &format!("in{value_bytes}-{run}"), numbers, &value, run);
            inputs.extend(metas.into_iter().map(|table| JobInput { table, level: 0, run }));
        }
    });
    let mut tables = Vec::new();
    for compression in [Compression::None, Compression::Lz4] {
        let spec = CompactSpec {
            inputs: inputs.clone(),
            output: OutputForm { compression, table_bytes_target: TABLE_BYTES, ..OutputForm::default() },
            output_stem: format!("out{value_bytes}-{compression:?}"),
            ..CompactSpec::default()
        };
        measure(&format!("compact {RUNS} runs, {compression:?}"), records, bytes, || {
            let result =
                run_compact(&spec, storage, &Semantics::new(), &Control::new()).expect("a compaction");
            assert_eq!(result.tables.iter().map(|table| table.entry_count).sum::<u64>(), records);
            if compression == Compression::None {
                tables = result.tables;
            } else {
                remove(storage, &result.tables);
            }
        });
    }
    let cache = Arc::new(BlockCache::new(0));
    let open = |meta: &TableMeta| {
        Arc::new(TableReader::open(storage, meta, &cache, ReaderOptions::default()).expect("a table"))
    };
    let mut readers = Vec::new();
    measure("open", tables.len() as u64, 0, || readers = tables.iter().map(open).collect());
    let held: usize = readers.iter().map(|reader| reader.memory_bytes()).sum();
    println!(
        "  {:<28} {held} bytes, {:.2} % of the data",
        "index and filters",
        held as f64 * 100.0 / bytes as f64
    );
    measure("walk", records, bytes, || {
        let mut cursor = RunCursor::new(readers.clone(), CursorOptions::SCAN);
        cursor.seek_first().expect("a walk");
        let mut sum = 0;
        while let Some(entry) = cursor.entry() {
            sum += entry.value.len();
            cursor.next().expect("a walk");
        }
        assert_eq!(sum as u64, records * value_bytes as u64);
    });
    let reads = 2_000_000;
    for (name, miss) in [("get, hit", false), ("get, hit again", false), ("get, miss", true)] {
        measure(name, reads, 0, || read_at_random(&readers, records, reads, miss));
    }
    remove(storage, &tables);
    inputs.iter().for_each(|input| storage.remove(&input.table.file).expect("a file of ours"));
}

fn remove(storage: &Local, tables: &[TableMeta]) {
    tables.iter().for_each(|table| storage.remove(&table.file).expect("a file of ours"));
}

fn build(
    storage: &Local,
    stem: &str,
    numbers: impl Iterator<Item = u64>,
    value: &[u8],
    sequence: u64,
) -> Vec<TableMeta> {
    let mut metas = Vec::new();
    let mut open: Option<TableBuilder> = None;
    for number in numbers {
        if open.as_ref().is_some_and(|open| open.estimated_bytes() >= TABLE_BYTES) {
            metas.extend(open.take().map(|open| open.finish().expect("a table")));
        }
        let builder = open.get_or_insert_with(|| {
            let name = format!("{stem}-{:06}.table", metas.len());
            TableBuilder::new(&name, storage.create(&name).expect("a new file"), TableForm::default())
        });
        let key = key(number);
        let sequence = Sequence(sequence + 1);
        builder
            .add(&Entry { key: &key, sequence, kind: Kind::Put, expires_at_ms: 0, value })
            .expect("in order");
    }
    metas.extend(open.map(|open| open.finish().expect("a table")));
    metas
}

fn read_at_random(readers: &[Arc<TableReader>], records: u64, reads: u64, miss: bool) {
    let (mut out, mut state, mut found) = (Vec::new(), 1_u64, 0);
    for _ in 0..reads {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mut key = key((state >> 33) % records);
        if miss {
            key[22] ^= 0x80;
        }
        let table = readers.partition_point(|reader| reader.properties().smallest.as_slice() <= &key[..]);
        let reader = &readers[table.saturating_sub(1)];
        let lookup =
            reader.newest(&key, filter_hash(&key), Sequence::MAX, ReadMode::Blocking).expect("a read");
        if let Lookup::Found(hit) = lookup {
            out.clear();
            out.extend_from_slice(hit.value());
            found += 1;
        }
    }
    assert_eq!(found, if miss { 0 } else { reads });
}

/// YCSB's keys: "user" and 19 digits.
fn key(number: u64) -> [u8; 23] {
    let mut key = *b"user0000000000000000000";
    let mut rest = number.wrapping_mul(2_654_435_761);
    for byte in key[4..].iter_mut().rev() {
        *byte = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    key
}

/// Bytes that a codec makes about half of.
fn compressible(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| if at % 32 < 16 { b'x' } else { ((at as u64 * 2_654_435_761) >> 7) as u8 }).collect()
}

fn measure(name: &str, operations: u64, bytes: u64, work: impl FnOnce()) {
    let now = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
    };
    let before = now();
    work();
    let took = now() - before;
    print!(
        "  {name:<28} {:>8.0} ns each, {:.2} M/s",
        took * 1e9 / operations as f64,
        operations as f64 / took / 1e6
    );
    if bytes > 0 {
        print!(", {:.2} GB/s", bytes as f64 / took / 1e9);
    }
    println!();
}
