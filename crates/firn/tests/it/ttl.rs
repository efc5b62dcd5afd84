//! Values that live for a time.

use std::sync::Arc;
use std::time::Duration;

use firn::storage::ManualClock;
use firn::storage::backend::Memory;
use firn::{Change, Db, Durability, WriteOptions};

const BEGIN_MS: u64 = 1_000_000;

fn open_at(ms: u64) -> (Db, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new(ms));
    let db = Db::builder("x").storage(Arc::new(Memory::new())).clock(clock.clone()).open();
    (db.expect("opened"), clock)
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn every_way_to_write_for_a_time_is_the_same_time() {
    let (db, clock) = open_at(BEGIN_MS);
    let other = db.in_keyspace(db.keyspace("other").expect("created"));
    db.put_for("database", "1", seconds(10)).expect("put");
    other.put_for("keyspace", "1", seconds(10)).expect("put");
    let short = other.with_ttl(seconds(10));
    short.put("handle", "1").expect("put");
    short.update("updated", |_| (Change::Put(b"1".to_vec()), ())).expect("updated");
    short.add("counted", 1).expect("counted");
    short.put_from("streamed", 1, &mut &b"1"[..]).expect("streamed");
    db.transact(|transaction| {
        transaction.put_for("transaction", "1", seconds(10));
        transaction.in_keyspace(other.id()).put_for("transaction", "1", seconds(10));
        Ok(())
    })
    .expect("done");
    let mut batch = firn::Batch::new();
    batch.put_until(other.id(), b"batch", b"1", db.expiry_after(seconds(10)));
    db.write(&batch).expect("written");
    // What says another time, or none, has it.
    short.put_for("longer", "1", seconds(11)).expect("put");
    other.put("for ever", "1").expect("put");

    let count = || db.range(..).expect("scan").count() + other.range(..).expect("scan").count();
    clock.advance(Duration::from_millis(9_999));
    assert_eq!(count(), 11);
    clock.advance(Duration::from_millis(1));
    assert_eq!(count(), 2);
    clock.advance(seconds(1));
    assert_eq!(other.first().expect("read").expect("some").0, b"for ever");
    // The handle counts from each write on.
    short.put("handle", "2").expect("put");
    clock.advance(Duration::from_millis(9_999));
    assert!(short.contains_key("handle").expect("read"));
    clock.advance(Duration::from_millis(1));
    assert!(!short.contains_key("handle").expect("read"));
}

#[test]
fn times_saturate_and_none_of_them_is_for_ever() {
    let (db, clock) = open_at(0);
    assert_eq!(db.expiry_after(Duration::ZERO), 1, "0 would be never");
    assert_eq!(db.expiry_after(Duration::from_nanos(1)), 1);
    assert_eq!(db.expiry_after(Duration::from_micros(1001)), 2, "rounded up");
    assert_eq!(db.expiry_after(Duration::MAX), u64::MAX);
    db.put_for("long", "1", Duration::MAX).expect("put");
    clock.advance(seconds(1));
    db.put_for("short", "1", Duration::ZERO).expect("put");
    assert!(!db.contains_key("short").expect("read"), "it has expired at once");
    db.flush().expect("flushed");
    clock.advance(seconds(1 << 40));
    assert!(db.contains_key("long").expect("read"));
}

/// A change makes a new value, which does not expire when the old one was to.
#[test]
fn changed_values_do_not_expire_unless_that_is_said() {
    let (db, clock) = open_at(BEGIN_MS);
    let (all, short) = (db.in_default(), db.in_default().with_ttl(seconds(10)));
    let names = ["update", "add", "append", "set_range", "compare_and_set", "left"];
    for name in names {
        all.put_for(name, 1_u64.to_le_bytes(), seconds(5)).expect("put");
    }
    all.put_for("short", 1_u64.to_le_bytes(), seconds(5)).expect("put");
    all.update("update", |_| (Change::Put(b"v".to_vec()), ())).expect("updated");
    all.add("add", 1).expect("added");
    all.append("append", "v").expect("appended");
    all.set_range("set_range", 1, "v").expect("set");
    let old = 1_u64.to_le_bytes();
    assert!(all.compare_and_set("compare_and_set", Some(&old), Some(b"v")).expect("swapped"));
    short.add("short", 1).expect("added");
    clock.advance(seconds(5));
    let is_there = names.map(|name| db.contains_key(name).expect("read"));
    assert_eq!(is_there, [true, true, true, true, true, false]);
    assert!(db.contains_key("short").expect("read"));
    clock.advance(seconds(5));
    assert!(!db.contains_key("short").expect("read"));
}

#[test]
fn what_was_said_last_of_writes_holds() {
    let (db, clock) = open_at(BEGIN_MS);
    let on_disk = WriteOptions { durability: Some(Durability::Disk), ..WriteOptions::default() };
    let syncs = || db.stats().sync_count;
    let before = syncs();
    db.in_default().with_options(on_disk).with_ttl(seconds(1)).put("both", "1").expect("put");
    assert!(syncs() > before, "the durability stays");
    db.in_default().with_ttl(seconds(1)).with_options(on_disk).put("options", "1").expect("put");
    let until = WriteOptions { expires_at_ms: BEGIN_MS + 5_000, ..WriteOptions::default() };
    db.in_default().with_options(until).with_ttl(seconds(1)).put("ttl", "1").expect("put");
    clock.advance(seconds(1));
    let left: Vec<_> = db.range(..).expect("scan").map(|record| record.expect("sound").0).collect();
    assert_eq!(left, [b"options"]);
}
