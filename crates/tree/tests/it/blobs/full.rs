//! Separated values while no table can be written: on a full disk, or on a store that is slow
//! or away.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use firn_engine::{Engine, ErrorKind, KeyspaceSettings, WriteOptions};
use firn_storage::backend::{Effect, Fault, Faulty, Operation, When};
use firn_storage::{Clock, ErrorKind as Kind, Storage, SystemClock};
use firn_tree::{Background, Settings};

use crate::support::world::{World, get_in, session, settle, slow, threads, tiny};

const KEYS: u32 = 100;

#[test]
fn the_buffer_keeps_its_limit_and_what_it_hides_is_found_later() {
    let settings = tiny().with_engine(|tree| tree.blob_segment_bytes = 1 << 20);
    let limit = settings.engine.buffer_bytes_max + settings.engine.log_segment_bytes;
    let machine = World::new(settings);
    let faulty = Arc::new(Faulty::new(Arc::new(machine.storage.clone())));
    let tree = machine.open_on(Arc::clone(&faulty) as Arc<dyn Storage>, Background::Manual);
    let settings = KeyspaceSettings { separate_bytes: Some(100), ..KeyspaceSettings::default() };
    let keyspace = tree.create_keyspace("large", settings).unwrap();
    let mut session = session(&tree);
    let value = |number: u32| number.to_le_bytes().repeat(400);
    for key in 0..KEYS {
        session.put(keyspace, &key.to_be_bytes(), &value(key), WriteOptions::default()).unwrap();
    }
    tree.flush().unwrap();
    settle(&tree);
    let (when, effect) = (When::Always { after: 0 }, Effect::Fail(Kind::Full));
    faulty.inject(Fault { on: Operation::Create, file: "*.table".to_owned(), when, effect });
    let (mut newest, mut most, mut refused) = (KEYS, 0, 0);
    while refused < 100 {
        let number = newest;
        match session.put(keyspace, &(number % KEYS).to_be_bytes(), &value(number), WriteOptions::default()) {
            Ok(_) => newest += 1,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Retry, "{error}");
                refused += 1;
            }
        }
        if number % 1000 == 0 || refused > 0 {
            machine.clock.advance(Duration::from_secs(1));
            while tree.step().unwrap_or_else(|error| {
                assert_eq!(error.kind(), ErrorKind::Retry, "{error}");
                true
            }) {}
        }
        most = most.max(tree.stats().tree.expect("a tree").buffer_bytes);
        assert!(most <= limit, "{most} bytes after {number} values");
    }
    assert!(faulty.struck_count() > 10 && newest > 10_000, "{newest} values");
    faulty.clear_faults();
    machine.clock.advance(Duration::from_secs(30));
    settle(&tree);
    for number in newest - KEYS..newest {
        let found = get_in(&mut session, keyspace, &(number % KEYS).to_be_bytes());
        assert!(found == Some(value(number)), "{number}");
    }
    let values = tree.stats().tree.expect("a tree").blobs;
    assert!(values.unreclaimed_bytes + values.dead_bytes < 32 << 20, "{values:?}");
}

#[test]
fn the_buffer_keeps_its_limit_beside_a_flush_that_takes_long() {
    let settings =
        Settings { background_threads: 3, ..tiny() }.with_engine(|tree| tree.blob_segment_bytes = 1 << 20);
    let limit = settings.engine.buffer_bytes_max + settings.engine.log_segment_bytes;
    let machine = World::new(settings);
    let backend = slow(&machine, "*.table", Operation::Create, Duration::from_secs(3));
    let tree = machine.open_on(Arc::new(backend), threads());
    let settings = KeyspaceSettings { separate_bytes: Some(100), ..KeyspaceSettings::default() };
    let keyspace = tree.create_keyspace("large", settings).unwrap();
    let is_over = AtomicBool::new(false);
    let has_come_far = |most| most + (8 << 20) > limit;
    let most = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut session = session(&tree);
            let mut number = 0_u32;
            while !is_over.load(Ordering::Relaxed) {
                let key = (number % KEYS).to_be_bytes();
                session.put(keyspace, &key, &[1; 150], WriteOptions::default()).unwrap();
                number += 1;
            }
        });
        let (clock, mut most) = (SystemClock::new(), 0);
        // A writer that gets little of the processors needs more than one flush's time.
        while clock.now() < Duration::from_secs(if has_come_far(most) { 5 } else { 60 }) {
            most = most.max(tree.stats().tree.expect("a tree").buffer_bytes);
            clock.sleep(Duration::from_millis(2));
        }
        is_over.store(true, Ordering::Relaxed);
        most
    });
    assert!(has_come_far(most), "the writer has not come as far: {most} bytes");
    assert!(most <= limit, "{most} bytes, where {limit} are the limit");
}
