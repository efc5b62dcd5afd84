//! Merge operators.

use super::Check;
use super::database::{Database, key};
use crate::{Batch, ErrorKind, KeyspaceSettings, ReadAt, WriteOptions};

pub(super) const CHECKS: &[Check] = &[
    ("merges::operands apply in order", false, operands_in_order),
    ("merges::operands apply to what is there, or to nothing", false, bases),
    ("merges::partial and full merges agree", false, spread_over_stages),
    ("merges::refused without an operator", false, refused),
    ("merges::operands that cannot be applied fail the read", false, bad_operands),
    ("merges::concurrent merges are all applied", false, concurrent),
];

fn merging(database: &mut Database, operator: &str) {
    let settings =
        KeyspaceSettings { merge_operator: Some(operator.to_owned()), ..KeyspaceSettings::default() };
    database.keyspace = database.engine().create_keyspace(operator, settings).expect("create");
}

fn operands_in_order(database: &mut Database) {
    merging(database, super::APPEND);
    for round in 0..10_u8 {
        for number in 0..20 {
            database.merge(&key(number), &[b'a' + round]);
        }
    }
    database.everywhere(&mut |database| {
        for number in 0..20 {
            database.assert_value(ReadAt::Latest, &key(number), Some(b"abcdefghij"));
        }
    });
}

fn bases(database: &mut Database) {
    merging(database, super::APPEND);
    let keyspace = database.keyspace;
    database.put(b"put", b"1");
    database.merge(b"put", b"2");
    database.put(b"deleted", b"1");
    database.delete(b"deleted");
    database.merge(b"deleted", b"2");
    database.merge(b"nothing", b"2");
    database.merge(b"put after", b"1");
    database.put(b"put after", b"2");
    database.merge(b"deleted after", b"1");
    database.delete(b"deleted after");
    database.merge(b"empty", b"");
    let mut batch = Batch::new();
    batch.merge(keyspace, b"batch", b"1").merge(keyspace, b"batch", b"2").delete(keyspace, b"batch");
    batch.merge(keyspace, b"batch", b"3").put(keyspace, b"other", b"4").merge(keyspace, b"other", b"5");
    database.write(&batch);
    database.everywhere(&mut |database| {
        database.assert_value(ReadAt::Latest, b"put", Some(b"12"));
        database.assert_value(ReadAt::Latest, b"deleted", Some(b"2"));
        database.assert_value(ReadAt::Latest, b"nothing", Some(b"2"));
        database.assert_value(ReadAt::Latest, b"put after", Some(b"2"));
        database.assert_value(ReadAt::Latest, b"deleted after", None);
        database.assert_value(ReadAt::Latest, b"empty", Some(b""));
        database.assert_value(ReadAt::Latest, b"batch", Some(b"3"));
        database.assert_value(ReadAt::Latest, b"other", Some(b"45"));
    });
}

fn spread_over_stages(database: &mut Database) {
    for operator in [super::APPEND, super::ADD] {
        merging(database, operator);
        let operand = |number: u64| number.to_le_bytes();
        for round in 1..=6_u64 {
            for number in 0..30 {
                database.merge(&key(number), &operand(round));
            }
            match round {
                2 | 4 => database.flush(),
                3 => database.compact(),
                5 => database.reopen(),
                _ => {}
            }
        }
        let expected = match operator {
            super::ADD => operand(21).to_vec(),
            _ => (1..=6).flat_map(operand).collect(),
        };
        database.everywhere(&mut |database| {
            for number in 0..30 {
                database.assert_value(ReadAt::Latest, &key(number), Some(&expected));
            }
        });
    }
}

fn refused(database: &mut Database) {
    let keyspace = database.keyspace;
    let error = database.db().merge(keyspace, b"a", b"1", WriteOptions::default()).expect_err("no operator");
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert_eq!(database.get(b"a"), None);
}

fn bad_operands(database: &mut Database) {
    merging(database, super::ADD);
    database.put(b"good", &1_u64.to_le_bytes());
    database.merge(b"bad", b"not eight");
    let keyspace = database.keyspace;
    database.everywhere(&mut |database| {
        let error = database.db().get(ReadAt::Latest, keyspace, b"bad").expect_err("cannot be merged");
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        database.assert_value(ReadAt::Latest, b"good", Some(&1_u64.to_le_bytes()));
    });
    database.put(b"bad", &2_u64.to_le_bytes());
    database.assert_value(ReadAt::Latest, b"bad", Some(&2_u64.to_le_bytes()));
}

fn concurrent(database: &mut Database) {
    merging(database, super::ADD);
    let keyspace = database.keyspace;
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let mut session = database.session();
            scope.spawn(move || {
                for number in 0..500 {
                    let place = key(number % 5);
                    session
                        .merge(keyspace, &place, &1_u64.to_le_bytes(), WriteOptions::default())
                        .expect("merge");
                }
            });
        }
    });
    database.everywhere(&mut |database| {
        for number in 0..5 {
            database.assert_value(ReadAt::Latest, &key(number), Some(&400_u64.to_le_bytes()));
        }
    });
}
