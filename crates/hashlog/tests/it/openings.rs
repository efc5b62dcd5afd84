//! What an opening makes of a log of several segments and of redo logs, with one thread or several.

use std::collections::BTreeMap;
use std::sync::Arc;

use firn_engine::blocking::Blocking;
use firn_engine::conformance::APPEND;
use firn_engine::{Engine, KEYSPACE_DEFAULT, KeyspaceId, KeyspaceSettings, ReadAt, WriteOptions};
use firn_hashlog::{HashLog, Settings};
use firn_storage::backend::{Crash, Memory};
use firn_storage::{ManualClock, SystemClock};

use crate::support::{open, tiny};

/// More than its log has room for in memory, so that an opening writes pages out.
const KEYS: u64 = 30_000;

const WRITE: WriteOptions = WriteOptions { durability: None, expires_at_ms: 0 };

type Model = BTreeMap<(u32, Vec<u8>), Vec<u8>>;

/// The default keyspace, one whose keys are in one slot, and one with an operator.
fn keyspaces(database: &HashLog) -> [KeyspaceId; 3] {
    let one_slot = KeyspaceSettings { in_one_slot: true, ..KeyspaceSettings::default() };
    let append = KeyspaceSettings { merge_operator: Some(APPEND.to_owned()), ..KeyspaceSettings::default() };
    [
        KEYSPACE_DEFAULT,
        database.create_keyspace("one", one_slot).expect("a keyspace"),
        database.create_keyspace("append", append).expect("a keyspace"),
    ]
}

/// Writes, replaces, deletes and merges, drawn from a seed.
fn change(database: &HashLog, model: &mut Model, seed: u64, count: u64) {
    let spaces = keyspaces(database);
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut sessions: Vec<_> = (0..5).map(|_| Blocking::new(database.session())).collect();
    for number in 0..count {
        let session = rng.choice(&mut sessions).expect("a session");
        let (space, key) = (rng.usize(..3), rng.u64(..KEYS).to_le_bytes());
        let place = (spaces[space].0, key.to_vec());
        let mut value = number.to_le_bytes().repeat(rng.usize(1..12));
        value.push(seed as u8);
        match (space, rng.u8(..8)) {
            (2, 0..=4) => {
                session.merge(spaces[2], &key, &value, WRITE).expect("merge");
                model.entry(place).or_default().extend(&value);
            }
            (_, 7) => {
                session.delete(spaces[space], &key, WRITE).expect("delete");
                model.remove(&place);
            }
            _ => {
                session.put(spaces[space], &key, &value, WRITE).expect("put");
                model.insert(place, value);
            }
        }
    }
}

fn check(database: &HashLog, model: &Model, what: &str) {
    let spaces = keyspaces(database);
    let mut session = Blocking::new(database.session());
    for space in spaces {
        for number in 0..KEYS {
            let key = number.to_le_bytes();
            let found = session.get(ReadAt::Latest, space, &key).expect("get");
            assert_eq!(found.as_ref(), model.get(&(space.0, key.to_vec())), "{what}: {space}, {number}");
        }
    }
}

/// Kills a process three times: after a checkpoint of several segments, and twice with redo logs
/// that are longer than memory. Each time all is there, with however many threads it is opened.
#[test]
fn threads_find_what_one_does() {
    let mut memory = Memory::new();
    let mut model = Model::new();
    let settings = |threads: usize| {
        let settings = Settings { background_threads: threads, ..tiny() };
        settings.with_engine(|hash| hash.redo_bytes_max = 1 << 30)
    };
    for round in 0..3 {
        let clock = Arc::new(SystemClock::new());
        let database = open(Arc::new(memory.clone()), clock, true, settings(2)).expect("open");
        change(&database, &mut model, round, 3 * KEYS);
        if round == 0 {
            database.flush().expect("a checkpoint");
            assert!(database.stats().hash.expect("its part").segment_count >= 3);
        }
        memory = memory.crash(Crash::Kill);
        drop(database);
        for threads in [0, 2, 5] {
            let what = format!("round {round}, {threads} threads");
            let left = Arc::new(memory.crash(Crash::Kill));
            let clock = Arc::new(ManualClock::new(1));
            let again = open(left, clock, threads > 0, settings(threads.max(1))).expect("open again");
            check(&again, &model, &what);
        }
    }
}
