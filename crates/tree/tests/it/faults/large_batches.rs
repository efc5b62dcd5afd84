//! T12: batches larger than the memory budget. A batch is held by its caller and once more by the
//! log, until it is written out; the next one waits for that.
//!
//! Neighbours: one large value; a large operand; several writers at once.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use firn_engine::{Batch, Engine, KeyspaceId, ReadAt, WriteOptions};
use firn_storage::backend::{Local, LocalOptions};
use firn_storage::{Clock, Storage, SystemClock};
use firn_tree::{Settings, Tree, TreeOptions};

use super::joining::{Joining, joined};
use crate::support::world::{World, session, threads};

/// Tells the other process that it is one.
const IS_OTHER: &str = "FIRN_TEST_LARGE_BATCHES";

const MIB: u64 = 1 << 20;
const MEMORY_BYTES: u64 = 16 * MIB;
const BATCH_BYTES: u64 = 48 * MIB;
const ROUNDS: u8 = 4;

/// What jobs and the allocator take beside what is counted.
const BESIDE_BYTES: u64 = 24 * MIB;

fn settings() -> Settings {
    Settings { memory_bytes: MEMORY_BYTES, ..Settings::default() }.with_engine(|tree| {
        tree.log_segment_bytes = 4 * MIB;
        tree.memtable_bytes = 4 * MIB;
        tree.buffer_bytes = 4 * MIB;
        tree.buffer_bytes_max = 8 * MIB;
        tree.log_bytes_max = 16 * MIB;
    })
}

/// Anonymous memory of this process.
fn anonymous_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let kib = status.lines().find_map(|line| line.strip_prefix("RssAnon:")?.trim().strip_suffix(" kB"));
    kib.unwrap().parse::<u64>().unwrap() << 10
}

/// The most anonymous memory while `work` is done.
fn most(work: impl FnOnce()) -> u64 {
    let (most, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::SeqCst) {
                most.fetch_max(anonymous_bytes(), Ordering::SeqCst);
                SystemClock::new().sleep(Duration::from_millis(1));
            }
        });
        work();
        is_over.store(true, Ordering::SeqCst);
    });
    most.into_inner()
}

/// A kind of batch, of [`BATCH_BYTES`].
type Kind = fn(KeyspaceId, u8) -> Batch;

/// Beside each is how often it is held at most: by its caller, by the log, and by its writer if it
/// is one record.
const KINDS: [(&str, Kind, u64); 3] = [
    (
        "many values",
        |keyspace, round| {
            let (mut batch, value) = (Batch::new(), vec![round; 1000]);
            for number in 0..(BATCH_BYTES / 1000) as u32 {
                batch.put(keyspace, &number.to_be_bytes(), &value);
            }
            batch
        },
        2,
    ),
    (
        "one value",
        |keyspace, round| {
            let mut batch = Batch::new();
            batch.put(keyspace, b"large", &vec![round; BATCH_BYTES as usize]);
            batch
        },
        4,
    ),
    (
        "one operand",
        |keyspace, round| {
            let mut batch = Batch::new();
            batch.merge(keyspace, &[round], &vec![round; BATCH_BYTES as usize]);
            batch
        },
        5,
    ),
];

fn write(tree: &Tree, keyspace: KeyspaceId, kind: Kind) {
    let mut session = session(tree);
    for round in 0..ROUNDS {
        session.write(&kind(keyspace, round), WriteOptions::default()).unwrap();
    }
}

/// Memory belongs to a process, so that what is tested has one of its own.
#[test]
fn t12_batches_beyond_the_memory_are_held_one_at_a_time() {
    let test = "faults::large_batches::t12_writes_large_batches";
    let arguments = ["--exact", test, "--ignored", "--nocapture", "--test-threads=1"];
    let mut other = Command::new(std::env::current_exe().unwrap());
    let output = other.args(arguments).env(IS_OTHER, "1").output().unwrap();
    let said =
        [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned()).concat();
    println!("{said}");
    assert!(output.status.success() && said.contains("all was done"), "{said}");
}

#[test]
#[ignore = "the other process of t12_batches_beyond_the_memory_are_held_one_at_a_time"]
fn t12_writes_large_batches() {
    if std::env::var_os(IS_OTHER).is_none() {
        return;
    }
    for (name, kind, copies) in KINDS {
        let dir = tempfile::tempdir().unwrap();
        let local = Local::open(dir.path(), LocalOptions { create: true }).unwrap();
        let storage = Arc::new(local) as Arc<dyn Storage>;
        let options = Joining::default().options(&World::new(settings()));
        let clock = Arc::new(SystemClock::new());
        let tree = Tree::open(TreeOptions { storage, clock, background: threads(), ..options }).unwrap();
        let keyspace = tree.create_keyspace("joined", joined()).unwrap();
        let before = anonymous_bytes();
        let most = most(|| write(&tree, keyspace, kind)) - before.min(MEMORY_BYTES);
        tree.flush().unwrap();
        tree.wait_idle().unwrap();
        let after = anonymous_bytes();
        let mib = [before, most, after].map(|bytes| bytes / MIB);
        println!("{name}: {} MiB before, {} at most, {} afterwards", mib[0], mib[1], mib[2]);
        let limit = MEMORY_BYTES + copies * BATCH_BYTES + BESIDE_BYTES;
        assert!(most <= limit, "{name}: {} MiB of at most {}", mib[1], limit / MIB);
        assert!(after <= MEMORY_BYTES + BESIDE_BYTES, "{name}: {} MiB stay", mib[2]);
        let snapshot = tree.snapshot().unwrap();
        let key: &[u8] = match name {
            "many values" => &[0, 0, 0, 7],
            "one value" => b"large",
            _ => &[ROUNDS - 1],
        };
        let found = session(&tree).get(ReadAt::Snapshot(&snapshot), keyspace, key).unwrap();
        assert!(found.is_some_and(|value| value.iter().all(|byte| *byte == ROUNDS - 1)));
        tree.close().unwrap();
    }
    println!("all was done");
}
