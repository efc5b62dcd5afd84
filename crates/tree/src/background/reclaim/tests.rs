//! What is not removed yet: tables that other tasks work on, and everything while background work
//! is held.

use std::sync::Arc;
use std::time::Duration;

use firn_engine::{KEYSPACE_DEFAULT, OrderedBatch, OrderedSession, Outcome, Session, WriteOptions};
use firn_maintenance::step;
use firn_storage::ManualClock;
use firn_storage::backend::Memory;

use super::Reclaim;
use crate::background::flush_through;
use crate::commit::roll::Freeze;
use crate::database::Database;
use crate::session::TreeSession;
use crate::settings::Settings;
use crate::stats::stats;
use crate::tree::tests::{beside_a_roll, manual};

/// A database with several tables, all under one range tombstone of a table, and its clock.
fn hidden_tables() -> (Arc<Database>, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new(1_000_000));
    let settings = Settings::default().with_engine(|tree| {
        tree.log_segment_bytes = 4 << 20;
        tree.table_bytes = 64 << 10;
        tree.block_bytes = 1024;
    });
    let options = manual(Memory::new(), settings, Arc::clone(&clock));
    let (database, _lock) = crate::open::open(&options).expect("opens");
    let mut session = TreeSession::new(Arc::clone(&database));
    session.set_inline(true);
    for number in 0..4000_u32 {
        let outcome = session
            .put(KEYSPACE_DEFAULT, &number.to_be_bytes(), &[7; 1000], WriteOptions::default())
            .expect("written");
        assert!(matches!(outcome, Outcome::Done(_)));
    }
    flush(&database);
    while step(&*database).expect("works") {}
    let mut batch = OrderedBatch::default();
    batch.delete_range(KEYSPACE_DEFAULT, &[], &[9]);
    let outcome = session.write_ordered(&batch, WriteOptions::default()).expect("written");
    assert!(matches!(outcome, Outcome::Done(_)));
    flush(&database);
    (database, clock)
}

/// Until all that was written is in tables, and no further.
fn flush(database: &Database) {
    let through = database.commit.freeze_through().expect("frozen");
    flush_through(database, through).expect("flushed");
}

fn reclaim(database: &Database) -> Reclaim<'_> {
    Reclaim { database, keyspace: KEYSPACE_DEFAULT.0 }
}

/// Names of the tables with entries.
fn full_tables(database: &Database) -> Vec<String> {
    let version = database.catalog.version.load();
    let levels = &version.keyspace(KEYSPACE_DEFAULT.0).expect("is there").levels;
    let full = levels.tables().filter(|(_, table)| table.meta().entry_count > 0);
    full.map(|(_, table)| table.meta().file.clone()).collect()
}

#[test]
fn tables_that_somebody_works_on_stay_until_he_is_done() {
    let (database, clock) = hidden_tables();
    let all = full_tables(&database);
    assert!(all.len() > 3, "{all:?}");
    let (busy, free) = all.split_at(2);
    database.maintenance.schedule.lock().claims.tables.taken.extend(busy.iter().cloned());
    // A log segment that was let go of may come first.
    while full_tables(&database) == all {
        assert!(step(&*database).unwrap(), "nothing goes");
    }
    assert_eq!(full_tables(&database), busy, "{free:?} are gone");
    assert_eq!(
        database.maintenance.schedule.lock().claims.tables.taken.len(),
        2,
        "what was claimed is free again"
    );
    database.maintenance.schedule.lock().claims.tables.taken.clear();
    clock.advance(Duration::from_secs(1));
    while step(&*database).unwrap() {}
    let version = database.catalog.version.load();
    assert_eq!(version.keyspace(KEYSPACE_DEFAULT.0).unwrap().levels.tables().count(), 0);
    assert_eq!(stats(&database).tree.expect("a tree").compaction_read_bytes_total, 0, "nothing is read");
}

#[test]
fn nothing_goes_while_background_work_is_held() {
    let (database, _clock) = hidden_tables();
    let all = full_tables(&database);
    let held = database.maintenance.hold();
    let version = database.catalog.version.load_full();
    let tables: Vec<_> = version.keyspace(KEYSPACE_DEFAULT.0).unwrap().levels.tables().collect();
    let tables: Vec<_> = tables.into_iter().map(|(_, table)| Arc::clone(table)).collect();
    assert!(!reclaim(&database).remove_tables(&tables).unwrap());
    while step(&*database).unwrap() {}
    assert_eq!(full_tables(&database), all);
    drop(held);
    while step(&*database).unwrap() {}
    assert_eq!(full_tables(&database), [""; 0]);
}

#[test]
fn a_table_that_was_replaced_meanwhile_is_left_alone() {
    let (database, _clock) = hidden_tables();
    let version = database.catalog.version.load_full();
    let tables: Vec<_> = version.keyspace(KEYSPACE_DEFAULT.0).unwrap().levels.tables().collect();
    let tables: Vec<_> = tables.into_iter().map(|(_, table)| Arc::clone(table)).collect();
    assert!(reclaim(&database).remove_tables(&tables[..2]).unwrap());
    // The manifest would refuse to remove one twice.
    assert!(reclaim(&database).remove_tables(&tables[..3]).unwrap());
    assert_eq!(
        database.catalog.version.load().keyspace(KEYSPACE_DEFAULT.0).unwrap().levels.tables().count(),
        tables.len() - 3
    );
}

/// A roll shows a memtable as frozen before its records lie below the base of the active segment.
#[test]
fn a_memtable_that_a_roll_is_freezing_is_flushed_to_its_end() {
    let (database, _clock) = hidden_tables();
    let mut session = TreeSession::new(Arc::clone(&database));
    session.set_inline(true);
    let outcome = session.put(KEYSPACE_DEFAULT, b"key", b"value", WriteOptions::default()).unwrap();
    let written = outcome.done().unwrap();
    let memtable =
        Arc::clone(&database.catalog.version.load().keyspace(KEYSPACE_DEFAULT.0).unwrap().memtable);
    let freeze = || reclaim(&database).freeze_memtable(&memtable);
    let through = beside_a_roll(&database, Freeze::All, freeze).unwrap();
    assert!(through.0 >= written.0, "flushed through {through}, written through {written:?}");
}
