//! Opening, closing, flushing, counting.

use super::Check;
use super::database::{Database, key, noise};
use super::{OpenWith, VARIANTS};
use crate::{Durability, ErrorKind, ReadAt, Stats, WriteOptions};

pub(super) const CHECKS: &[Check] = &[
    ("lifecycle::reopening keeps everything", false, reopening_keeps),
    ("lifecycle::reopening with other settings keeps everything", false, other_settings),
    ("lifecycle::dropping the last handle keeps everything", false, dropping_keeps),
    ("lifecycle::a closed engine refuses writes and reads", false, closed_refuses),
    ("lifecycle::flush, sync and wait_idle change no answer", false, maintenance_changes_nothing),
    ("lifecycle::totals only grow", false, totals_grow),
    ("lifecycle::user bytes are counted", false, user_bytes),
    ("lifecycle::an empty database works", false, empty_database),
];

fn fill(database: &mut Database, round: usize) {
    for number in 0..500 {
        match (number + round) % 5 {
            0 => database.delete(&key(number)),
            _ => database.put(&key(number), &noise((round * 1000 + number) as u64, number)),
        };
    }
}

#[track_caller]
fn assert_filled(database: &mut Database, round: usize) {
    for number in 0..500 {
        let is_there = !(number + round).is_multiple_of(5);
        let value = is_there.then(|| noise((round * 1000 + number) as u64, number));
        assert_eq!(database.get(&key(number)), value, "key {number} of round {round}");
    }
}

fn reopening_keeps(database: &mut Database) {
    for round in 0..4 {
        fill(database, round);
        if round == 2 {
            database.flush();
        }
        database.reopen();
        assert_filled(database, round);
    }
}

fn other_settings(database: &mut Database) {
    for (round, with) in VARIANTS.into_iter().chain(VARIANTS).enumerate() {
        fill(database, round);
        database.reopen_with(with);
        assert_filled(database, round);
        database.compact();
        assert_filled(database, round);
    }
}

fn dropping_keeps(database: &mut Database) {
    fill(database, 1);
    database.drop_engine();
    let with = OpenWith { durability: Durability::Disk, ..database.with };
    let engine = database.harness.open(with).expect("a dropped database opens");
    let mut session = crate::blocking::Blocking::new(engine.session());
    for number in 0..500 {
        let value = !(number + 1_usize).is_multiple_of(5);
        let value = value.then(|| noise((1000 + number) as u64, number));
        assert_eq!(session.get(ReadAt::Latest, database.keyspace, &key(number)).expect("get"), value);
    }
}

fn closed_refuses(database: &mut Database) {
    fill(database, 0);
    let keyspace = database.keyspace;
    let engine = std::sync::Arc::clone(database.engine());
    engine.close().expect("close");
    engine.close().expect("closing is idempotent");
    let o = WriteOptions::default();
    let kinds = [
        database.db().put(keyspace, b"a", b"1", o).expect_err("closed").kind(),
        database.db().delete(keyspace, b"a", o).expect_err("closed").kind(),
        database.db().write(crate::Batch::new().put(keyspace, b"a", b"1"), o).expect_err("closed").kind(),
        database.session().put(keyspace, b"a", b"1", o).expect_err("closed").kind(),
        database.db().get(ReadAt::Latest, keyspace, &key(0)).expect_err("closed").kind(),
        database.db().multi_get(ReadAt::Latest, keyspace, &[b"a"]).expect_err("closed").kind(),
        database.session().is_stored(keyspace, b"a").expect_err("closed").kind(),
    ];
    assert_eq!(kinds, [ErrorKind::Closed; 7]);
    drop(engine);
    database.reopen();
    assert_filled(database, 0);
    assert_eq!(database.get(b"a"), None, "a refused write is not there");
}

fn maintenance_changes_nothing(database: &mut Database) {
    for round in 0..3 {
        fill(database, round);
        let synced = database.engine().sync().expect("sync");
        database.flush();
        assert!(database.engine().sync().expect("sync") >= synced, "what is durable stays durable");
        assert_filled(database, round);
        database.engine().wait_idle().expect("wait_idle");
        assert_filled(database, round);
    }
}

fn totals(stats: &Stats) -> [u64; 34] {
    let tree = stats.tree.clone().unwrap_or_default();
    [
        stats.user_write_bytes_total,
        stats.log_write_bytes_total,
        tree.flush_write_bytes_total,
        tree.ingest_write_bytes_total,
        tree.ingest_count,
        tree.compaction_write_bytes_total,
        tree.compaction_read_bytes_total,
        stats.manifest_write_bytes_total,
        tree.merge_index_bytes_total,
        stats.read_miss_bytes_total,
        stats.read_miss_count,
        stats.sync_count,
        tree.flush_count,
        tree.compaction_count,
        stats.slowdown_us_total,
        stats.stop_us_total,
        stats.slowdown_wall_us_total,
        stats.stop_wall_us_total,
        tree.blobs.write_count,
        tree.blobs.write_bytes_total,
        tree.blobs.sync_count,
        tree.blobs.gc_count,
        tree.blobs.gc_segment_count,
        tree.blobs.gc_read_bytes_total,
        tree.blobs.gc_write_bytes_total,
        tree.blobs.gc_failure_count,
        tree.blobs.read_count,
        tree.blobs.read_bytes_total,
        tree.blobs.survivor_count,
        tree.blobs.survivor_bytes_total,
        tree.blobs.dropped_count,
        tree.blobs.dropped_bytes_total,
        tree.blobs.wholly_dead_count,
        tree.blobs.wholly_dead_bytes_total,
    ]
}

fn totals_grow(database: &mut Database) {
    let mut last = totals(&database.engine().stats());
    for round in 0..6 {
        fill(database, round);
        match round {
            1 => database.flush(),
            3 => database.compact(),
            _ => assert_filled(database, round),
        }
        let stats = database.engine().stats();
        let now = totals(&stats);
        assert!(
            last.iter().zip(&now).all(|(last, now)| last <= now),
            "a total shrank: {last:?} then {now:?}"
        );
        let tree = stats.tree.clone().unwrap_or_default();
        let hash = stats.hash.clone().unwrap_or_default();
        let parts = stats.log_write_bytes_total
            + tree.flush_write_bytes_total
            + tree.ingest_write_bytes_total
            + tree.compaction_write_bytes_total
            + stats.manifest_write_bytes_total
            + tree.blobs.write_bytes_total
            + tree.blobs.gc_write_bytes_total
            + hash.flush_write_bytes_total
            + hash.value_write_bytes_total;
        assert_eq!(stats.device_write_bytes_total(), parts);
        last = now;
    }
}

fn user_bytes(database: &mut Database) {
    let before = database.engine().stats().user_write_bytes_total;
    let mut session = database.session();
    for number in 0..100 {
        let value = [b'x'; 90];
        session.put(database.keyspace, &key(number), &value, WriteOptions::default()).expect("put");
    }
    database.get(&key(1));
    // A session may count in steps; what is left it counts when it ends.
    drop(session);
    let after = database.engine().stats().user_write_bytes_total;
    assert_eq!(after - before, 100 * 100, "keys of 10 bytes and values of 90");
}

fn empty_database(database: &mut Database) {
    database.everywhere(&mut |database| {
        database.assert_value(ReadAt::Latest, b"a", None);
        let snapshot = database.engine().snapshot().expect("snapshot");
        database.assert_value(ReadAt::Snapshot(&snapshot), b"a", None);
        database.engine().sync().expect("sync");
        database.engine().wait_idle().expect("wait_idle");
    });
}
