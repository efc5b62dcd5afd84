//! Limits and the errors beyond them.

use super::Check;
use super::database::{Database, noise};
use crate::{Batch, ErrorKind, ReadAt, WriteOptions};

pub(super) const CHECKS: &[Check] = &[
    ("limits::an empty batch is refused", false, empty_batch),
    ("limits::keys of 64 KiB - 1 work", false, longest_keys),
    ("limits::longer keys are refused and nothing is written", false, longer_keys),
    ("limits::values of 1 MiB and more work", false, large_values),
];

const KEY_BYTES_MAX: usize = (1 << 16) - 1;

fn empty_batch(database: &mut Database) {
    let error = database.db().write(&Batch::new(), WriteOptions::default()).expect_err("an empty batch");
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
}

fn longest_keys(database: &mut Database) {
    let mut keys: Vec<Vec<u8>> = (0..8).map(|seed| noise(seed, KEY_BYTES_MAX)).collect();
    // Keys that differ only in their last byte.
    keys.extend((0..4).map(|last| [&vec![b'x'; KEY_BYTES_MAX - 1][..], &[last]].concat()));
    for (index, key) in keys.iter().enumerate() {
        database.put(key, &[index as u8]);
    }
    database.everywhere(&mut |database| {
        for (index, key) in keys.iter().enumerate() {
            assert_eq!(database.get(key), Some(vec![index as u8]), "long key {index}");
        }
        assert_eq!(database.get(&vec![b'x'; KEY_BYTES_MAX]), None);
        if database.is_ordered() {
            let found: Vec<_> =
                database.scan(crate::ScanRange::all()).into_iter().map(|(key, _)| key).collect();
            let mut sorted = keys.clone();
            sorted.sort();
            assert!(found == sorted, "a scan of long keys");
        }
    });
}

fn longer_keys(database: &mut Database) {
    let too_long = vec![b'x'; KEY_BYTES_MAX + 1];
    let keyspace = database.keyspace;
    let o = WriteOptions::default();
    let kinds = [
        database.db().put(keyspace, &too_long, b"1", o).expect_err("too long").kind(),
        database.db().delete(keyspace, &too_long, o).expect_err("too long").kind(),
    ];
    assert_eq!(kinds, [ErrorKind::Invalid; 2]);
    assert_eq!(database.db().get(ReadAt::Latest, keyspace, &too_long).unwrap_or(None), None);
    database.put(b"a", b"1");
    database.assert_value(ReadAt::Latest, b"a", Some(b"1"));
}

fn large_values(database: &mut Database) {
    let sizes = [1 << 16, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 3 << 20];
    for (index, bytes) in sizes.into_iter().enumerate() {
        database.put(&[index as u8], &noise(index as u64, bytes));
    }
    database.everywhere(&mut |database| {
        for (index, bytes) in sizes.into_iter().enumerate() {
            let value = database.get(&[index as u8]);
            assert!(value == Some(noise(index as u64, bytes)), "a value of {bytes} bytes");
        }
    });
    for index in 0..sizes.len() {
        database.put(&[index as u8], b"small");
    }
    database.everywhere(&mut |database| {
        for index in 0..sizes.len() {
            database.assert_value(ReadAt::Latest, &[index as u8], Some(b"small"));
        }
    });
}
