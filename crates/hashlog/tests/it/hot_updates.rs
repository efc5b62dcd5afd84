//! Values that are changed in place for long: what the redo log takes, and how long an opening
//! makes its changes again.

use std::sync::Arc;
use std::time::Duration;

use firn_engine::blocking::Blocking;
use firn_engine::settings::MIB;
use firn_engine::{Engine, KEYSPACE_DEFAULT, ReadAt, Rmw, Session, WriteOptions};
use firn_storage::backend::{Crash, Memory};
use firn_storage::{Clock, Storage, SystemClock};

use crate::support::{open, repeated_for, tiny};

const KEYS: u64 = 1000;
/// Of the redo log, in the short form.
const BYTES_MAX: u64 = 2 * MIB;
/// What files take beyond their entries: pages, and what is made ahead.
const BYTES_BEYOND: u64 = 2 * MIB;

fn length(key: u64) -> usize {
    [1, 3, 8, 9, 100, 1000, 4000][key as usize % 7]
}

fn value(key: u64, round: u64) -> Vec<u8> {
    let mut value = vec![0; length(key)];
    fastrand::Rng::with_seed(key << 40 | round).fill(&mut value);
    value
}

fn put(session: &mut Blocking<dyn Session>, key: u64, round: u64) {
    let options = WriteOptions::default();
    session.put(KEYSPACE_DEFAULT, &key.to_le_bytes(), &value(key, round), options).expect("put");
    session.rmw(KEYSPACE_DEFAULT, &(KEYS + key % 10).to_le_bytes(), Rmw::Add(1), options).expect("rmw");
}

/// Updates from one thread for so many seconds; kills it, and looks at all of it.
fn updates(bytes_max: u64, seconds: u64) {
    let memory = Memory::new();
    let settings = tiny().with_engine(|hash| hash.redo_bytes_max = bytes_max);
    let clock = || Arc::new(SystemClock::new());
    let database = open(Arc::new(memory.clone()), clock(), true, settings.clone()).expect("open");
    let mut session = Blocking::new(database.session());
    let (mut most, mut rounds) = (0, 0);
    repeated_for("FIRN_SECONDS", seconds, |round| {
        (0..KEYS).for_each(|key| put(&mut session, key, round));
        let files = memory.list().expect("list").into_iter();
        let bytes: u64 = files.filter(|(name, _)| name.ends_with(".redo")).map(|(_, bytes)| bytes).sum();
        most = bytes.max(most);
        rounds = round + 1;
    });
    assert!(most < bytes_max + bytes_max / 2 + BYTES_BEYOND, "{most} bytes of redo log of {bytes_max}");
    let checkpoints = database.stats().hash.expect("it is a hashed engine").checkpoint_count;
    assert!(checkpoints > 0, "no checkpoint in {rounds} rounds");
    let left = memory.crash(Crash::Kill);
    let timer = SystemClock::new();
    let again = open(Arc::new(left), clock(), true, settings).expect("open again");
    let took = timer.now();
    println!(
        "{} updates in place, {checkpoints} checkpoints, {most} bytes of redo log of {bytes_max} at most, opened in {} ms",
        2 * rounds * KEYS,
        took.as_millis()
    );
    assert!(took < Duration::from_secs(5), "{took:?} to open");
    let mut session = Blocking::new(again.session());
    for key in 0..KEYS {
        let found = session.get(ReadAt::Latest, KEYSPACE_DEFAULT, &key.to_le_bytes()).expect("get");
        assert!(found == Some(value(key, rounds - 1)), "key {key} after {rounds} rounds");
    }
    for counter in 0..10 {
        let key = (KEYS + counter).to_le_bytes();
        let found = session.get(ReadAt::Latest, KEYSPACE_DEFAULT, &key).expect("get").expect("a number");
        assert_eq!(found, (rounds * KEYS / 10).to_le_bytes(), "counter {counter}");
    }
}

#[test]
fn the_redo_log_stays_within_its_setting() {
    updates(BYTES_MAX, 2);
}

#[test]
#[ignore = "minutes: the soak runs it"]
fn the_redo_log_stays_within_its_setting_for_long() {
    updates(512 * MIB, 600);
}
