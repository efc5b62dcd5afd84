//! A writer that copies for long while others write, roll, freeze and sync around it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use firn_engine::{Engine, KeyspaceSettings, WriteOptions};
use firn_storage::backend::Crash;

use crate::support::world::{DISK, World, get, get_in, put, session, settle, tiny};

const MIB: usize = 1 << 20;

/// Room for several large batches, so that no writer stops.
fn roomy() -> World {
    let mut settings = tiny();
    (settings.engine.buffer_bytes, settings.engine.buffer_bytes_max, settings.engine.log_bytes_max) =
        (512 * MIB as u64, 1 << 30, 1 << 30);
    settings.memory_bytes = 2 << 30;
    World::new(settings)
}

#[test]
fn an_empty_memtable_keeps_the_segment_a_slow_writer_copies_into() {
    let world = roomy();
    let tree = world.open().unwrap();
    let slow = tree.create_keyspace("slow", KeyspaceSettings::default()).unwrap();
    let value = vec![7; 48 * MIB];
    for round in 0..4_u8 {
        let busy = AtomicBool::new(true);
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut session = session(&tree);
                session.put(slow, &[round], &value, WriteOptions::default()).unwrap();
                busy.store(false, Ordering::Release);
            });
            // Each of these takes a segment of its own and then waits for the slow one; so several
            // are needed.
            for other in 0..4_u8 {
                let (tree, busy) = (&tree, &busy);
                scope.spawn(move || {
                    let mut session = session(tree);
                    while busy.load(Ordering::Acquire) {
                        put(&mut session, &[other; 2], &vec![round; MIB + 1]);
                    }
                });
            }
        });
        settle(&tree);
        tree.flush().unwrap();
    }
    let mut session = session(&tree);
    for round in 0..4_u8 {
        assert!(get_in(&mut session, slow, &[round]).is_some_and(|found| found == value), "round {round}");
    }
    assert_eq!(get(&mut session, &[0; 2]).map(|value| value.len()), Some(MIB + 1));
}

#[test]
fn a_disk_write_behind_a_slow_one_is_not_acknowledged_before_it() {
    let world = roomy();
    let tree = world.open().unwrap();
    let value = Arc::new(vec![3; 64 * MIB]);
    for round in 0..6_u8 {
        let begun = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut session = session(&tree);
                begun.store(true, Ordering::Release);
                put(&mut session, b"slow", &value);
            });
            let mut session = session(&tree);
            while !begun.load(Ordering::Acquire) {
                thread::yield_now();
            }
            for small in 0..4_u8 {
                session.put(firn_engine::KEYSPACE_DEFAULT, &[round, small], b"x", DISK).unwrap();
                let after = world.crash(Crash::PowerLoss { seed: u64::from(round) });
                drop(get(&mut session, &[round, small]).expect("read your writes"));
                let reopened = after.open().unwrap();
                let found = get(&mut crate::support::world::session(&reopened), &[round, small]);
                assert_eq!(found.as_deref(), Some(&b"x"[..]), "round {round} write {small}");
            }
        });
    }
}
