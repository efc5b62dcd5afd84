//! A file system that is really full, and is written to again once something is removed.

use firn::{Batch, Db, Durability, ErrorKind, KEYSPACE_DEFAULT, Settings, WriteOptions};

use crate::small_disk::SmallDisk;

fn value(number: u32) -> Vec<u8> {
    let mut value = number.to_be_bytes().repeat(12_500);
    value[7] ^= 5;
    value
}

fn write(db: &Db, number: u32) -> firn::Result<firn::Position> {
    let durability = if number.is_multiple_of(8) { Durability::Disk } else { Durability::Process };
    let mut batch = Batch::new();
    batch.put(KEYSPACE_DEFAULT, &number.to_be_bytes(), &value(number));
    db.write_with(&batch, WriteOptions { durability: Some(durability), ..WriteOptions::default() })
}

fn assert_holds(db: &Db, numbers: std::ops::Range<u32>) {
    for number in numbers {
        let found = db.get(number.to_be_bytes()).expect("reads go on");
        assert!(found.as_deref() == Some(&value(number)[..]), "number {number}");
    }
}

/// Writes from `first` on until the disk is full; the first number refused.
fn fill(db: &Db, first: u32) -> u32 {
    for number in first..first + 4000 {
        if let Err(error) = write(db, number) {
            assert_eq!(error.kind(), ErrorKind::Retry, "{error:?}");
            let text = error.to_string();
            assert!(text.contains("free") && text.contains("space"), "says what to do: {text}");
            return number;
        }
    }
    panic!("64 MiB were never full");
}

#[test]
fn a_full_disk_refuses_writes_until_there_is_space_and_loses_nothing() {
    let Some(disk) = SmallDisk::mount(64 << 20) else { return };
    let ballast = disk.path().join("ballast");
    std::fs::write(&ballast, vec![1; 24 << 20]).expect("24 of 64 MiB");
    let path = disk.path().join("db");
    let open = || Db::builder(&path).settings(Settings::for_memory(16 << 20)).open().expect("opened");
    let db = open();
    let kept = fill(&db, 0);
    assert!(kept > 100, "only {kept} values fit");
    assert_holds(&db, 0..kept);
    // Background work may still give some space back; then it is full again.
    let kept = (0..3).fold(kept, |kept, _| fill(&db, kept));
    assert_holds(&db, 0..kept);
    std::fs::remove_file(&ballast).expect("removed");
    // What was refused is written again; a few tries are for the engine to find the space.
    let resumed = (0..50).find_map(|_| write(&db, kept).ok());
    assert!(resumed.is_some(), "space was freed, but writes are refused");
    for number in kept + 1..kept + 100 {
        write(&db, number).expect("there is space");
    }
    db.flush().expect("there is space to flush");
    assert_holds(&db, 0..kept + 100);
    db.close().expect("closed");
    drop(db);
    let db = open();
    assert_holds(&db, 0..kept + 100);
    // A database that was full when it was closed is found whole too.
    std::fs::write(&ballast, vec![1; 8 << 20]).expect("some space is left");
    let refused = fill(&db, kept + 100);
    let _full = db.close();
    drop(db);
    std::fs::remove_file(&ballast).expect("removed");
    assert_holds(&open(), 0..refused);
}
