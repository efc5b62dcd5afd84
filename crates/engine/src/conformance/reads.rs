//! Point reads.

use super::Check;
use super::database::{Database, key, noise};
use crate::ReadAt;

pub(super) const CHECKS: &[Check] = &[
    ("reads::the newest value is read everywhere", false, newest_value),
    ("reads::a deleted key has no value everywhere", false, deleted_key),
    ("reads::get reuses out and clears it", false, out_is_cleared),
    ("reads::get_range cuts to the value's length", false, get_range_cuts),
    ("reads::multi_get keeps the order of keys", false, multi_get_order),
    ("reads::empty keys and values are keys and values", false, empty_keys_and_values),
    ("reads::keys that share prefixes are different keys", false, prefixes_differ),
];

fn newest_value(database: &mut Database) {
    for round in 0..5 {
        for number in 0..200 {
            database.put(&key(number), &noise((number * 10 + round) as u64, 100));
        }
        if round % 2 == 0 {
            database.flush();
        }
    }
    database.everywhere(&mut |database| {
        for number in 0..200 {
            let value = noise((number * 10 + 4) as u64, 100);
            database.assert_value(ReadAt::Latest, &key(number), Some(&value));
        }
        database.assert_value(ReadAt::Latest, b"key-", None);
    });
}

fn deleted_key(database: &mut Database) {
    for number in 0..100 {
        database.put(&key(number), b"first");
    }
    database.flush();
    for number in (0..100).step_by(2) {
        database.delete(&key(number));
    }
    database.delete(b"never there");
    database.everywhere(&mut |database| {
        for number in 0..100 {
            database.assert_value(ReadAt::Latest, &key(number), (number % 2 == 1).then_some(b"first"));
        }
        database.assert_value(ReadAt::Latest, b"never there", None);
    });
    database.put(&key(0), b"again");
    database.everywhere(&mut |database| database.assert_value(ReadAt::Latest, &key(0), Some(b"again")));
}

fn out_is_cleared(database: &mut Database) {
    database.put(b"a", b"1");
    let keyspace = database.keyspace;
    let mut out = b"a longer left over".to_vec();
    assert!(database.db().get_into(ReadAt::Latest, keyspace, b"a", &mut out).expect("get"));
    assert_eq!(out, b"1");
    assert!(!database.db().get_into(ReadAt::Latest, keyspace, b"b", &mut out).expect("get"));
}

fn get_range_cuts(database: &mut Database) {
    let value = noise(1, 10_000);
    database.put(b"long", &value);
    database.put(b"empty", b"");
    database.everywhere(&mut |database| {
        let keyspace = database.keyspace;
        let mut read = |key: &[u8], range: std::ops::Range<usize>| {
            let mut out = Vec::new();
            let found = database.db().get_range_into(ReadAt::Latest, keyspace, key, range, &mut out);
            found.expect("get_range").then_some(out)
        };
        assert_eq!(read(b"long", 0..10_000).as_deref(), Some(&value[..]));
        assert_eq!(read(b"long", 17..4_711).as_deref(), Some(&value[17..4_711]));
        assert_eq!(read(b"long", 9_990..20_000).as_deref(), Some(&value[9_990..]), "cut to the length");
        assert_eq!(read(b"long", 20_000..30_000).as_deref(), Some(&[][..]), "past the end: found, and empty");
        assert_eq!(read(b"long", 5..5).as_deref(), Some(&[][..]));
        assert_eq!(read(b"empty", 0..5).as_deref(), Some(&[][..]));
        assert_eq!(read(b"absent", 0..5), None);
    });
}

fn multi_get_order(database: &mut Database) {
    for number in 0..20 {
        database.put(&key(number), &key(number * 2));
    }
    database.everywhere(&mut |database| {
        let numbers = [5, 50, 3, 19, 5, 0, 77];
        let keys: Vec<_> = numbers.iter().map(|number| key(*number)).collect();
        let keys: Vec<_> = keys.iter().map(Vec::as_slice).collect();
        let keyspace = database.keyspace;
        let values = database.db().multi_get(ReadAt::Latest, keyspace, &keys).expect("multi_get");
        let expected: Vec<_> = numbers.iter().map(|number| (*number < 20).then(|| key(number * 2))).collect();
        assert_eq!(values.iter().map(|value| value.map(<[u8]>::to_vec)).collect::<Vec<_>>(), expected);
        assert!(database.db().multi_get(ReadAt::Latest, keyspace, &[]).expect("multi_get").is_empty());
    });
}

fn empty_keys_and_values(database: &mut Database) {
    database.put(b"", b"of the empty key");
    database.put(b"empty value", b"");
    database.put(&[0], b"of the zero key");
    database.everywhere(&mut |database| {
        database.assert_value(ReadAt::Latest, b"", Some(b"of the empty key"));
        database.assert_value(ReadAt::Latest, b"empty value", Some(b""));
        database.assert_value(ReadAt::Latest, &[0], Some(b"of the zero key"));
        database.assert_value(ReadAt::Latest, &[0, 0], None);
    });
    database.delete(b"");
    database.everywhere(&mut |database| database.assert_value(ReadAt::Latest, b"", None));
}

fn prefixes_differ(database: &mut Database) {
    let keys: Vec<Vec<u8>> = (0..40).map(|length| vec![b'x'; length]).collect();
    for (index, key) in keys.iter().enumerate().filter(|(index, _)| index % 3 != 0) {
        database.put(key, &[index as u8]);
    }
    for (index, key) in keys.iter().enumerate() {
        let zeros = [&key[..], &[0, 0][..]].concat();
        database.put(&zeros, &[index as u8, 0]);
    }
    database.everywhere(&mut |database| {
        for (index, key) in keys.iter().enumerate() {
            let value = [index as u8];
            database.assert_value(ReadAt::Latest, key, (index % 3 != 0).then_some(&value[..]));
            let zeros = [&key[..], &[0, 0][..]].concat();
            database.assert_value(ReadAt::Latest, &zeros, Some(&[index as u8, 0]));
        }
    });
}
