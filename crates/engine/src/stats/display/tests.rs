//! Statistics as people read them.

use super::*;
use crate::{BlobStats, JobStats};

#[test]
fn numbers_have_units_and_three_digits() {
    let sizes = [(0, "0 B"), (1023, "1023 B"), (1024, "1.00 KiB"), (1536, "1.50 KiB")];
    let larger = [(10_234, "9.99 KiB"), (102_348, "99.9 KiB"), (1_048_063, "1023 KiB")];
    let largest = [(1_048_064, "1.00 MiB"), (1 << 40, "1.00 TiB"), (u64::MAX, "16.0 EiB")];
    for (number, text) in sizes.into_iter().chain(larger).chain(largest) {
        assert_eq!(bytes(number), text, "{number}");
    }
    for (number, text) in [(7, "7"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
        assert_eq!(count(number), text);
    }
    let short = [(1, "1 us"), (999, "999 us"), (1250, "1.25 ms"), (999_499, "999 ms")];
    let long = [(999_500, "1.00 s"), (12_000_000, "12.0 s"), (303_000_000, "5 min 3 s")];
    for (us, text) in short.into_iter().chain(long).chain([(7_500_000_000, "2 h 5 min")]) {
        assert_eq!(time(us), text);
    }
}

#[test]
fn what_is_zero_is_not_shown() {
    assert_eq!(Stats::default().to_string(), "durability: process, writes survive the end of the process\n");
}

#[test]
fn subjects_stand_apart_and_trouble_comes_first() {
    let levels = vec![(0, 0), (2, 3 << 20)];
    let tree = TreeKeyspaceStats { memtable_records: 1200, runs: vec![(0, 5), (1, 6)], levels };
    let blobs = BlobStats { write_count: 3, write_bytes_total: 3 << 20, ..BlobStats::default() };
    let stats = Stats {
        durability: Durability::Disk,
        open_us: 303_000_000,
        user_write_bytes_total: 4 << 20,
        log_write_bytes_total: 7 << 20,
        stop_us_total: 1500,
        stop_wall_us_total: 900,
        memory_bytes: 100 << 20,
        memory_bytes_max: 512 << 20,
        write_refusal: Some("the disk is full".to_owned()),
        jobs: JobStats { passed_on: vec![("away", 2), ("late", 0)], ..JobStats::default() },
        tree: Some(TreeStats { table_count: 2, table_bytes: 3 << 20, blobs, ..TreeStats::default() }),
        keyspaces: vec![
            KeyspaceStats {
                name: "default".to_owned(),
                tree: Some(tree),
                compression: Compression::Zstd,
                ..KeyspaceStats::default()
            },
            KeyspaceStats {
                name: "new".to_owned(),
                tree: Some(TreeKeyspaceStats::default()),
                ..KeyspaceStats::default()
            },
        ],
        ..Stats::default()
    };
    let expected = "\
durability: disk, writes survive loss of power
open for: 5 min 3 s

trouble
  writes are refused         the disk is full

memory
  held                       100 MiB of 512 MiB

disk
  tables                     2, 3.00 MiB

writes since the opening
  by callers                 4.00 MiB
  to devices                 10.0 MiB, 2.50 times as much
    log                      7.00 MiB
    large values             3, 3.00 MiB
  stopped, in all            1.50 ms
    by the clock             900 us

jobs
    away                     2

keyspaces
  default                    memtable 1,200 records; 2 runs 11 records; L1 2 tables 3.00 MiB; zstd
  new                        empty; uncompressed\n";
    assert_eq!(stats.to_string(), expected);
}
