//! Single pitfalls of such engines, by their numbers in docs/internals/hashed-pitfalls.md; others
//! are shown by tests that are about more.

use std::sync::Arc;

use firn_engine::blocking::Blocking;
use firn_engine::{
    BatchLimit, Engine, ErrorKind, HashBatch, HashCursor, HashScan, Hashed, KEYSPACE_DEFAULT,
    KeyspaceSettings, ReadAt, Session, WriteOptions,
};
use firn_format::file_name::{FileName, manifest_edit, parse};
use firn_format::hybrid::ADDRESS_MAX;
use firn_format::manifest::{Change, EditEncoder, ManifestEdit};
use firn_hashlog::HashLog;
use firn_storage::backend::{Crash, Memory};
use firn_storage::{ManualClock, Storage, SystemClock};

use crate::support::{open, tiny};

fn database(memory: &Memory, has_threads: bool) -> Arc<HashLog> {
    open(Arc::new(memory.clone()), Arc::new(ManualClock::new(1)), has_threads, tiny()).expect("open")
}

fn put(session: &mut Blocking<dyn Session>, number: u64, value: &[u8]) {
    session.put(KEYSPACE_DEFAULT, &number.to_le_bytes(), value, WriteOptions::default()).expect("put");
}

/// 6: a page turns when every operation has gone on. Sessions that stand amid something hold up
/// none: a lock, half a scan, a snapshot, a read whose answer is not fetched.
#[test]
fn sessions_that_stand_still_hold_up_no_page() {
    let clock = Arc::new(SystemClock::new());
    let database = open(Arc::new(Memory::new()), clock, true, tiny()).expect("open");
    let mut session = Blocking::new(database.session());
    (0..50_000).for_each(|number| put(&mut session, number, &[1; 200]));
    let mut holder = Blocking::new(database.session());
    let locks = holder.lock(&[(KEYSPACE_DEFAULT, b"locked")]).expect("locks");
    let snapshot = database.snapshot().expect("snapshot");
    let mut reader = database.session();
    let mut out = Vec::new();
    let _pending = reader.get(ReadAt::Latest, KEYSPACE_DEFAULT, &1_u64.to_le_bytes(), &mut out).expect("get");
    let mut scanner = Blocking::new(Arc::clone(&database).hashed_session());
    let (limit, mut batch) = (BatchLimit { records: 3, ..BatchLimit::default() }, HashBatch::new());
    let scan = HashScan { keyspace: KEYSPACE_DEFAULT, from: HashCursor::START, limit, has_values: true };
    scanner.scan_by_hash(ReadAt::Latest, scan, &mut batch).expect("scan");
    // Four times what is in memory.
    let before = database.stats().hash.expect("hashed").flush_write_bytes_total;
    (0..150_000).for_each(|number| put(&mut session, number, &[2; 200]));
    database.flush().expect("flush");
    let flushed = database.stats().hash.expect("hashed").flush_write_bytes_total - before;
    assert!(flushed > 30_000_000, "{flushed} bytes");
    let mut at = |number: u64| {
        let at = ReadAt::Snapshot(&snapshot);
        session.get(at, KEYSPACE_DEFAULT, &number.to_le_bytes()).expect("get")
    };
    assert_eq!(at(0).as_deref(), Some(&[1; 200][..]));
    assert_eq!(at(149_999), None);
    let from = batch.next().expect("there are more");
    let scan = HashScan { keyspace: KEYSPACE_DEFAULT, from, limit, has_values: true };
    scanner.scan_by_hash(ReadAt::Latest, scan, &mut batch).expect("scan");
    assert!(batch.records().records().all(|(_, value)| value == [2; 200]));
    drop(locks);
}

/// 9: the record of a deletion goes when nothing older of its key is left, whether the process dies
/// before or after.
#[test]
fn deleted_keys_stay_deleted_at_each_step_of_compaction() {
    const KEYS: u64 = 5000;
    let memory = Memory::new();
    let database = database(&memory, false);
    // Keys whose chains are longer than one.
    let settings = KeyspaceSettings { in_one_slot: true, ..KeyspaceSettings::default() };
    let keyspace = database.create_keyspace("one", settings).expect("create");
    let mut session = Blocking::new(database.session());
    let options = WriteOptions::default();
    let write = |session: &mut Blocking<dyn Session>, number: u64, value: &[u8]| {
        session.put(keyspace, &number.to_le_bytes(), value, options).expect("put");
    };
    (0..KEYS).for_each(|number| write(&mut session, number, &[1; 200]));
    database.flush().expect("flush");
    (0..KEYS).step_by(2).for_each(|number| {
        session.delete(keyspace, &number.to_le_bytes(), options).expect("delete");
    });
    database.flush().expect("flush");
    let mut steps = 0;
    for round in 0..6 {
        (1..KEYS).step_by(2).for_each(|number| write(&mut session, number, &[round; 200]));
        database.flush().expect("flush");
        while database.step().expect("a step") {
            steps += 1;
            let crash = if steps % 2 == 0 { Crash::Kill } else { Crash::PowerLoss { seed: steps } };
            let left = open(Arc::new(memory.crash(crash)), Arc::new(ManualClock::new(1)), false, tiny());
            let left = left.unwrap_or_else(|error| panic!("step {steps}, {crash:?}: {error:?}"));
            for (what, database) in [("open", &database), ("killed", &left)] {
                let mut session = Blocking::new(database.session());
                for number in 0..KEYS {
                    let found = session.get(ReadAt::Latest, keyspace, &number.to_le_bytes()).expect("get");
                    let expected = (number % 2 == 1).then(|| vec![round; 200]);
                    assert!(found == expected, "step {steps}, {what}, {crash:?}, key {number}: {found:?}");
                }
            }
        }
    }
    let stats = database.stats().hash.expect("hashed");
    assert!(steps >= 6 && stats.compaction_read_bytes_total > 2_000_000, "{steps} steps, {stats:?}");
}

/// 10: the addresses of a log end. Then writes are refused, and what is there is read.
#[test]
fn a_log_without_addresses_refuses_writes() {
    let memory = Memory::new();
    database(&memory, false).close().expect("close");
    // As after 256 TiB of writes, of which nothing is left.
    let names = memory.list().expect("list").into_iter().map(|(name, _)| name);
    let newest = names.filter_map(|name| match parse(&name) {
        Some(FileName::ManifestEdit(number)) => Some(number),
        _ => None,
    });
    let newest = newest.max().expect("a manifest");
    let mut redo = 0;
    for number in 1..=newest {
        let Ok(file) = memory.open_read(&manifest_edit(number)) else { continue };
        let mut bytes = vec![0; file.len() as usize];
        file.read_at(0, &mut bytes).expect("read");
        for change in ManifestEdit::decode(&bytes).expect("an edit").changes {
            if let Change::HybridCut { redo: later, .. } = change {
                redo = later;
            }
        }
    }
    let address = ADDRESS_MAX + 1 - (1 << 20);
    let mut edit = EditEncoder::default();
    edit.push(&Change::HybridBegin { address });
    edit.push(&Change::HybridCut { address, redo });
    memory.publish(&manifest_edit(newest + 1), &edit.finish(newest + 1, false, redo)).expect("publish");
    for has_threads in [false, true] {
        let database = database(&memory, has_threads);
        let mut session = Blocking::new(database.session());
        let mut last = 0_u64;
        let error = loop {
            let key = last.to_le_bytes();
            match session.put(KEYSPACE_DEFAULT, &key, &[3; 10_000], WriteOptions::default()) {
                Ok(_) => last += 1,
                Err(error) => break error,
            }
            assert!(last < 10_000, "more than there are addresses");
        };
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error:?}");
        assert!(error.to_string().contains("a new database"), "{error}");
        for number in 0..last {
            let found = session.get(ReadAt::Latest, KEYSPACE_DEFAULT, &number.to_le_bytes()).expect("get");
            assert!(found.is_some_and(|found| found == [3; 10_000]), "key {number} of {last}");
        }
        drop(session);
        database.close().expect("close");
    }
}

/// 17: places of sessions are limited; those that end come back, and background work has its own.
#[test]
fn sessions_beyond_the_places_are_refused_and_places_come_back() {
    let memory = Memory::new();
    let database = database(&memory, true);
    let mut sessions = Vec::new();
    let error = loop {
        let mut session = Blocking::new(database.session());
        let number = sessions.len() as u64;
        let put = session.put(KEYSPACE_DEFAULT, &number.to_le_bytes(), b"v", WriteOptions::default());
        match put {
            Ok(_) => sessions.push(session),
            Err(error) => break error,
        }
        assert!(sessions.len() < 5000, "there is no limit");
    };
    assert!(error.kind() == ErrorKind::Retry && error.to_string().contains("too many sessions"), "{error:?}");
    let places = sessions.len();
    assert!(places >= 500, "{places} places");
    database.flush().expect("background work has places of its own");
    for _ in 0..3 {
        sessions.truncate(10);
        while sessions.len() < places {
            sessions.push(Blocking::new(database.session()));
        }
        for (session, number) in sessions.iter_mut().zip(0_u64..) {
            put(session, number, &number.to_le_bytes());
        }
    }
    drop(sessions);
    let left = memory.crash(Crash::Kill);
    let left = open(Arc::new(left), Arc::new(ManualClock::new(1)), false, tiny()).expect("open again");
    let mut session = Blocking::new(left.session());
    for number in 0..places as u64 {
        let found = session.get(ReadAt::Latest, KEYSPACE_DEFAULT, &number.to_le_bytes()).expect("get");
        assert_eq!(found.as_deref(), Some(&number.to_le_bytes()[..]));
    }
}
