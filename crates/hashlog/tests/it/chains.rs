//! Keys that share a chain, some of them dead: what becomes of one is nothing to the others.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use firn_engine::blocking::Blocking;
use firn_engine::settings::MIB;
use firn_engine::{
    Engine, KEYSPACE_DEFAULT, KeyspaceId, KeyspaceSettings, ReadAt, Rmw, RmwAnswer, WriteOptions,
};
use firn_hashlog::HashLog;
use firn_storage::backend::{Effect, Fault, Faulty, Memory, Operation, When};
use firn_storage::{Clock, ErrorKind, ManualClock, SystemClock};

use crate::support::{open, tiny};

/// As many keys of two kinds in one slot, whose entries have 16 bits of a hash, share a thousand
/// chains.
const KEYS: u64 = 8000;

/// Keys of the second kind.
const OTHERS: std::ops::Range<u64> = 1_000_000..1_000_000 + KEYS;

fn opened(storage: Faulty, clock: Arc<dyn Clock>, index_bytes_max: u64) -> (Arc<HashLog>, KeyspaceId) {
    let settings = tiny().with_engine(|hash| hash.index_bytes_max = index_bytes_max);
    let database = open(Arc::new(storage), clock, true, settings).expect("open");
    let settings = KeyspaceSettings { in_one_slot: true, ..KeyspaceSettings::default() };
    let keyspace = database.create_keyspace("one", settings).expect("create");
    (database, keyspace)
}

/// Writes keys until `is_done`, and tries again where a fault of background work is in the way.
fn push_out(database: &Arc<HashLog>, mut is_done: impl FnMut() -> bool) {
    let mut session = Blocking::new(database.session());
    for key in 0..300_000u64 {
        if key % 1024 == 0 && is_done() {
            return;
        }
        let mut tries = 0;
        let value = [7; 40];
        while let Err(error) =
            session.put(KEYSPACE_DEFAULT, &key.to_le_bytes(), &value, WriteOptions::default())
        {
            tries += 1;
            assert!(tries < 1000, "{error:?}: {:?}", database.stats().hash);
            SystemClock::new().sleep(Duration::from_millis(10));
        }
    }
    panic!("it is never done: {:?}", database.stats().hash);
}

/// A compaction fails amid records that share chains with deleted ones, and is tried again: what
/// lives is found, before and after.
#[test]
fn what_lies_below_a_dead_record_outlives_a_compaction_that_fails() {
    let faulty = Faulty::new(Arc::new(Memory::new()));
    let (database, keyspace) = opened(faulty.clone(), Arc::new(SystemClock::new()), MIB + MIB / 2);
    let mut session = Blocking::new(database.session());
    let default = WriteOptions::default();
    for key in 0..KEYS {
        session.put(keyspace, &key.to_le_bytes(), &[key as u8; 20], default).expect("put");
    }
    for key in OTHERS {
        session.put(keyspace, &key.to_le_bytes(), &[1; 20], default).expect("put");
        session.delete(keyspace, &key.to_le_bytes(), default).expect("delete");
    }
    let effect = Effect::Fail(ErrorKind::Refused);
    faulty.inject(Fault {
        on: Operation::Write,
        file: "*.cold".to_owned(),
        when: When::Once { after: 0 },
        effect,
    });
    let mut check = |when: &str| {
        for key in 0..KEYS {
            let found = session.get(ReadAt::Latest, keyspace, &key.to_le_bytes()).expect("get");
            assert_eq!(found.as_deref(), Some(&[key as u8; 20][..]), "{when}: key {key}");
        }
        for key in OTHERS {
            let found = session.get(ReadAt::Latest, keyspace, &key.to_le_bytes()).expect("get");
            assert_eq!(found, None, "{when}: key {key} was deleted");
        }
    };
    push_out(&database, || faulty.struck_count() > 0);
    check("after a failed write");
    let cold_bytes = || database.stats().hash.expect("its part").cold.segment_bytes;
    push_out(&database, || cold_bytes() > 3 * MIB);
    database.flush().expect("flush");
    check("after the compaction");
}

/// Keys that were read from the device have copies, in front of chains whose newer records are of
/// other keys. Their own records leave the log; then they are changed.
#[expect(clippy::disallowed_methods, reason = "a thread that may never end cannot be scoped")]
#[test]
fn a_key_with_a_copy_is_changed_after_its_record_has_left_the_log() {
    let clock = Arc::new(ManualClock::new(1_000_000));
    let (database, keyspace) = opened(Faulty::new(Arc::new(Memory::new())), clock.clone(), 4 * MIB);
    let mut session = Blocking::new(database.session());
    let default = WriteOptions::default();
    for key in 0..KEYS {
        session.rmw(keyspace, &key.to_le_bytes(), Rmw::Add(1), default).expect("add");
    }
    let expiring = WriteOptions { expires_at_ms: 2_000_000, ..default };
    for key in 0..60_000u64 {
        session.put(KEYSPACE_DEFAULT, &key.to_le_bytes(), &[1; 200], expiring).expect("put");
    }
    for key in OTHERS {
        session.put(keyspace, &key.to_le_bytes(), &[1; 20], default).expect("put");
    }
    for key in 0..KEYS {
        assert!(session.get(ReadAt::Latest, keyspace, &key.to_le_bytes()).expect("get").is_some());
    }
    clock.advance(Duration::from_secs(3600));
    database.flush().expect("flush");
    database.wait_idle().expect("idle");
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut session = Blocking::new(database.session());
        for key in 0..KEYS {
            let sum = session.rmw(keyspace, &key.to_le_bytes(), Rmw::Add(1), default).expect("add");
            assert_eq!(sum, RmwAnswer::Sum(2), "key {key}");
        }
        sender.send(()).expect("it is waited for");
    });
    receiver.recv_timeout(Duration::from_secs(60)).expect("all were added to");
}
