//! Scans by hash while slots grow, and of what lies on the device.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use firn_engine::blocking::Blocking;
use firn_engine::{
    Batch, BatchLimit, Completion, Engine, ErrorKind, HashBatch, HashCursor, HashScan, Hashed, HashedSession,
    KeyspaceId, KeyspaceSettings, Outcome, ReadAt, Session, WriteOptions,
};
use firn_hashlog::HashLog;
use firn_storage::SystemClock;
use firn_storage::backend::Memory;

use crate::support::{open, tiny};

fn database() -> Arc<HashLog> {
    open(Arc::new(Memory::new()), Arc::new(SystemClock::new()), true, tiny()).expect("open")
}

fn put(session: &mut dyn Session, keyspace: KeyspaceId, number: u32, value: &[u8]) {
    let done = session.put(keyspace, &number.to_le_bytes(), value, WriteOptions::default()).expect("put");
    assert!(matches!(done, Outcome::Done(_)), "an inline session never waits");
}

/// Numbers of all keys, in batches of `records`, and how many batches were pending.
fn scan(session: &mut dyn HashedSession, keyspace: KeyspaceId, records: usize) -> (Vec<u32>, usize) {
    let limit = BatchLimit { records, ..BatchLimit::default() };
    let (mut found, mut pending, mut batch) = (Vec::new(), 0, HashBatch::new());
    let mut next = Some(HashCursor::START);
    while let Some(from) = next {
        let scan = HashScan { keyspace, from, limit, has_values: true };
        if let Outcome::Pending(_) = session.scan_by_hash(ReadAt::Latest, scan, &mut batch).expect("scan") {
            pending += 1;
            let mut answer = None;
            while answer.is_none() {
                session.wait(None);
                session.poll(&mut |_, completion| answer = Some(completion));
            }
            batch = match answer {
                Some(Completion::ScannedByHash(batch)) => batch,
                other => panic!("{other:?}"),
            };
        }
        let number = |key: &[u8]| u32::from_le_bytes(key.try_into().expect("four bytes"));
        found.extend(batch.records().records().map(|(key, _)| number(key)));
        next = batch.next();
    }
    (found, pending)
}

/// Also after a reopening, and a keyspace that was made otherwise is refused.
#[test]
fn keys_that_say_their_slots_lie_there() {
    let database = database();
    let settings = KeyspaceSettings { has_slot_in_key: true, ..KeyspaceSettings::default() };
    let keyspace = database.create_keyspace("slots", settings.clone()).expect("create");
    assert_eq!(database.keyspace_settings(keyspace).expect("there"), settings);
    let mut session = Blocking::new(database.hashed_session());
    let key = |slot: u16, number: u32| {
        [&7_u32.to_be_bytes()[..], &slot.to_be_bytes(), &number.to_le_bytes()].concat()
    };
    let options = WriteOptions::default();
    for slot in [0, 1, 12739, 16383] {
        (0..50).for_each(|number| {
            session.put(keyspace, &key(slot, number), b"v", options).expect("put");
        });
    }
    // What says none has one too, and is found.
    for other in [&b"short"[..], &key(16384, 0), &key(u16::MAX, 1)] {
        session.put(keyspace, other, b"v", options).expect("put");
        assert_eq!(session.get(ReadAt::Latest, keyspace, other).expect("get").as_deref(), Some(&b"v"[..]));
    }
    for slot in [0, 1, 12739, 16383] {
        let (mut found, mut batch) = (0, HashBatch::new());
        let mut next = HashCursor::new(slot, 0);
        while let Some(from) = next.filter(|from| from.slot() == slot) {
            let limit = BatchLimit { records: 1, bytes: 1 << 20 };
            let scan = HashScan { keyspace, from, limit, has_values: false };
            session.scan_by_hash(ReadAt::Latest, scan, &mut batch).expect("a scan");
            next = batch.next();
            found += batch.records().records().filter(|(found, _)| found[4..6] == slot.to_be_bytes()).count();
        }
        assert_eq!(found, 50, "slot {slot}");
    }
    database.create_keyspace("hashes", KeyspaceSettings::default()).expect("create");
    let refused = database.create_keyspace("hashes", settings).expect_err("slots by hash");
    assert_eq!(refused.kind(), ErrorKind::Conflict);
    assert!(refused.to_string().contains("`firn copy --engine hashlog`"), "{refused}");
}

/// In a keyspace of one slot, which grows from one bucket to many thousand meanwhile.
#[test]
fn keys_that_stay_are_returned_while_their_slot_grows() {
    const STAYING: u32 = 200;
    const MOST: u32 = 60_000;
    let database = database();
    let settings = KeyspaceSettings { in_one_slot: true, ..KeyspaceSettings::default() };
    let keyspace = database.create_keyspace("one", settings).expect("create");
    let mut session = database.session();
    session.set_inline(true);
    (0..STAYING).for_each(|number| put(&mut *session, keyspace, number, b"first"));
    let is_over = AtomicBool::new(false);
    let scans = std::thread::scope(|scope| {
        let is_over = &is_over;
        scope.spawn(move || {
            for number in STAYING..MOST {
                put(&mut *session, keyspace, number, b"new");
                put(&mut *session, keyspace, number % STAYING, &number.to_le_bytes());
            }
            is_over.store(true, Ordering::Relaxed);
        });
        let mut session = database.hashed_session();
        session.set_inline(true);
        let mut scans = 0;
        while !is_over.load(Ordering::Relaxed) {
            let found: BTreeSet<u32> = scan(&mut *session, keyspace, 3).0.into_iter().collect();
            let missed: Vec<u32> = (0..STAYING).filter(|number| !found.contains(number)).collect();
            assert!(missed.is_empty(), "scan {scans} has not returned {missed:?}");
            scans += 1;
        }
        scans
    });
    assert!(scans > 2, "{scans} scans while the slot grew");
    let mut session = database.hashed_session();
    session.set_inline(true);
    let mut found = scan(&mut *session, keyspace, 100).0;
    found.sort_unstable();
    assert!(found.into_iter().eq(0..MOST), "each key once");
}

#[test]
fn records_on_the_device_are_returned_later() {
    const KEYS: u32 = 20_000;
    let database = database();
    let mut session = database.session();
    session.set_inline(true);
    let keyspace = firn_engine::KEYSPACE_DEFAULT;
    (0..KEYS).for_each(|number| put(&mut *session, keyspace, number, &[7; 2000]));
    let mut batch = Batch::new();
    (0..KEYS).step_by(10).for_each(|number| _ = batch.delete(keyspace, &number.to_le_bytes()));
    assert!(matches!(session.write(&batch, WriteOptions::default()), Ok(Outcome::Done(_))));
    let mut session = database.hashed_session();
    let (mut found, pending) = scan(&mut *session, keyspace, 100);
    assert!(pending > 100, "{pending} batches were pending: the data fits in memory");
    found.sort_unstable();
    assert!(found.into_iter().eq((0..KEYS).filter(|number| number % 10 != 0)));
}

#[test]
fn a_keyspace_of_one_slot_is_read_without_the_others() {
    let database = database();
    let mut session = database.session();
    session.set_inline(true);
    let settings = KeyspaceSettings { in_one_slot: true, ..KeyspaceSettings::default() };
    let small = database.create_keyspace("small", settings).expect("create");
    (0..50_000).for_each(|number| put(&mut *session, firn_engine::KEYSPACE_DEFAULT, number, b"v"));
    (0..10).for_each(|number| put(&mut *session, small, number, b"v"));
    let mut session = database.hashed_session();
    session.set_inline(true);
    let limit = BatchLimit::default();
    let scan = HashScan { keyspace: small, from: HashCursor::START, limit, has_values: true };
    let mut batch = HashBatch::new();
    let done = session.scan_by_hash(ReadAt::Latest, scan, &mut batch).expect("scan");
    assert!(matches!(done, Outcome::Done(())));
    // All keys of all slots would take more than one batch.
    assert_eq!((batch.records().len(), batch.next()), (10, None));
}
