//! Named changes of a value: exact, atomic, and what they answer.

use std::collections::BTreeSet;

use super::Check;
use super::database::Database;
use super::outcomes::settle;
use crate::{Completion, ErrorKind, Outcome, ReadAt, Rmw, RmwAnswer, WriteOptions};

pub(super) const CHECKS: &[Check] = &[
    ("rmw::sums, appended bytes and ranges are what they are told to be", false, changes),
    ("rmw::what is compared is set or left", false, compared),
    ("rmw::a refused change writes nothing", false, refused),
    ("rmw::an expired value counts as none", false, expired),
    ("rmw::sums of many threads are exact", false, threads),
    ("rmw::pending changes complete with their answers", false, pending),
];

const O: WriteOptions = WriteOptions { durability: None, expires_at_ms: 0 };

#[track_caller]
fn rmw(database: &mut Database, key: &[u8], rmw: Rmw<'_>) -> RmwAnswer {
    let keyspace = database.keyspace;
    database.db().rmw(keyspace, key, rmw, O).expect("rmw")
}

fn changes(database: &mut Database) {
    assert_eq!(rmw(database, b"sum", Rmw::Add(7)), RmwAnswer::Sum(7));
    assert_eq!(rmw(database, b"sum", Rmw::Add(-10)), RmwAnswer::Sum(-3));
    assert_eq!(rmw(database, b"text", Rmw::Append(b"ab")), RmwAnswer::Length(2));
    assert_eq!(rmw(database, b"text", Rmw::Append(b"cd")), RmwAnswer::Length(4));
    let range = |offset, bytes| Rmw::SetRange { offset, bytes };
    assert_eq!(rmw(database, b"text", range(1, b"XY")), RmwAnswer::Length(4));
    assert_eq!(rmw(database, b"holes", range(2, b"z")), RmwAnswer::Length(3));
    assert_eq!(rmw(database, b"none", range(2, b"")), RmwAnswer::Length(0));
    database.everywhere(&mut |database| {
        database.assert_value(ReadAt::Latest, b"sum", Some(&(-3_i64).to_le_bytes()));
        database.assert_value(ReadAt::Latest, b"text", Some(b"aXYd"));
        database.assert_value(ReadAt::Latest, b"holes", Some(b"\0\0z"));
        database.assert_value(ReadAt::Latest, b"none", None);
    });
}

fn compared(database: &mut Database) {
    let swap = |expected, new| Rmw::CompareAndSet { expected, new };
    let (a, b) = (Some(&b"a"[..]), Some(&b"b"[..]));
    assert_eq!(rmw(database, b"key", swap(b, a)), RmwAnswer::Swapped(false));
    database.assert_value(ReadAt::Latest, b"key", None);
    assert_eq!(rmw(database, b"key", swap(None, a)), RmwAnswer::Swapped(true));
    assert_eq!(rmw(database, b"key", swap(None, b)), RmwAnswer::Swapped(false));
    database.everywhere(&mut |database| database.assert_value(ReadAt::Latest, b"key", a));
    assert_eq!(rmw(database, b"key", swap(a, b)), RmwAnswer::Swapped(true));
    database.assert_value(ReadAt::Latest, b"key", b);
    assert_eq!(rmw(database, b"key", swap(b, None)), RmwAnswer::Swapped(true));
    database.everywhere(&mut |database| database.assert_value(ReadAt::Latest, b"key", None));
}

fn refused(database: &mut Database) {
    let keyspace = database.keyspace;
    database.put(b"text", b"12");
    database.put(b"most", &i64::MAX.to_le_bytes());
    for key in [&b"text"[..], b"most"] {
        let error = database.db().rmw(keyspace, key, Rmw::Add(1), O).expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    }
    let far = Rmw::SetRange { offset: 1 << 45, bytes: b"far" };
    let error = database.db().rmw(keyspace, b"text", far, O).expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    database.everywhere(&mut |database| {
        database.assert_value(ReadAt::Latest, b"text", Some(b"12"));
        database.assert_value(ReadAt::Latest, b"most", Some(&i64::MAX.to_le_bytes()));
    });
}

fn expired(database: &mut Database) {
    let (keyspace, now) = (database.keyspace, database.harness.now_ms());
    let soon = WriteOptions { expires_at_ms: now + 1000, ..O };
    database.db().rmw(keyspace, b"sum", Rmw::Add(5), soon).expect("rmw");
    assert_eq!(database.db().rmw(keyspace, b"sum", Rmw::Add(5), soon).expect("rmw"), RmwAnswer::Sum(10));
    database.harness.advance_ms(1000);
    database.assert_value(ReadAt::Latest, b"sum", None);
    assert_eq!(rmw(database, b"sum", Rmw::Add(5)), RmwAnswer::Sum(5));
    database.everywhere(&mut |database| {
        database.assert_value(ReadAt::Latest, b"sum", Some(&5_i64.to_le_bytes()));
    });
}

fn threads(database: &mut Database) {
    const TIMES: i64 = 200;
    let keyspace = database.keyspace;
    std::thread::scope(|scope| {
        for by in 1..=4_i64 {
            let mut session = database.session();
            scope.spawn(move || {
                for _ in 0..TIMES {
                    session.rmw(keyspace, b"sum", Rmw::Add(by), O).expect("rmw");
                }
            });
        }
    });
    let sum = TIMES * (1 + 2 + 3 + 4);
    database.everywhere(&mut |database| {
        database.assert_value(ReadAt::Latest, b"sum", Some(&sum.to_le_bytes()));
    });
}

fn pending(database: &mut Database) {
    let keyspace = database.keyspace;
    let mut session = database.engine().session();
    database.put(b"text", b"no number");
    for number in 1..=20 {
        for (key, sum) in [(&b"sum"[..], Some(number)), (b"text", None)] {
            let answer = match session.rmw(keyspace, key, Rmw::Add(1), O) {
                Ok(Outcome::Done((_, answer))) => Ok(answer),
                Ok(Outcome::Pending(ticket)) => {
                    match settle(&mut *session, BTreeSet::from([ticket])).remove(&ticket) {
                        Some(Completion::Modified(_, answer)) => Ok(answer),
                        Some(Completion::Failed(error)) => Err(error),
                        other => panic!("a named change completed as {other:?}"),
                    }
                }
                Err(error) => Err(error),
            };
            match sum {
                Some(sum) => assert_eq!(answer.expect("rmw"), RmwAnswer::Sum(sum)),
                None => assert_eq!(answer.expect_err("refused").kind(), ErrorKind::Invalid),
            }
        }
    }
}
