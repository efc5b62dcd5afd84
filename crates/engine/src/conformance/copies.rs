//! Copies: databases of their own.

use super::Check;
use super::database::{Database, key};
use crate::blocking::Blocking;
use crate::{KeyspaceSettings, ReadAt, WriteOptions};

pub(super) const CHECKS: &[Check] = &[
    ("copies::open with everything acknowledged before", false, opens_whole),
    ("copies::are frozen", false, frozen),
    ("copies::can be written without touching their origin", false, independent),
    ("copies::are not put where something is", false, taken_place),
];

fn opens_whole(database: &mut Database) {
    let other = database.engine().create_keyspace("other", KeyspaceSettings::default()).expect("create");
    for number in 0..300 {
        database.put(&key(number), &key(number + 1));
        if number == 100 {
            database.flush();
        }
    }
    database.db().put(other, b"a", b"1", WriteOptions::default()).expect("put");
    let last = database.delete(&key(5));
    let path = database.harness.copy_path("whole");
    let copy = database.engine().copy_to(&path).expect("copy");
    assert_eq!(copy.path, path);
    assert!(copy.position >= last, "it covers what was acknowledged");
    let engine = database.harness.open_copy(&path).expect("a copy opens");
    let mut session = Blocking::new(engine.session());
    for number in 0..300 {
        let value = (number != 5).then(|| key(number + 1));
        assert_eq!(session.get(ReadAt::Latest, database.keyspace, &key(number)).expect("get"), value);
    }
    let id = engine.keyspace("other").expect("its keyspaces are there");
    assert_eq!(session.get(ReadAt::Latest, id, b"a").expect("get").as_deref(), Some(&b"1"[..]));
}

fn frozen(database: &mut Database) {
    for number in 0..100 {
        database.put(&key(number), b"before");
    }
    let path = database.harness.copy_path("frozen");
    database.engine().copy_to(&path).expect("copy");
    for number in 0..200 {
        database.put(&key(number), b"after");
    }
    database.flush();
    database.compact();
    let engine = database.harness.open_copy(&path).expect("a copy opens");
    let mut session = Blocking::new(engine.session());
    for number in 0..200 {
        let value = session.get(ReadAt::Latest, database.keyspace, &key(number)).expect("get");
        assert_eq!(value, (number < 100).then(|| b"before".to_vec()), "key {number} of the copy");
    }
    database.assert_value(ReadAt::Latest, &key(1), Some(b"after"));
}

fn independent(database: &mut Database) {
    for number in 0..100 {
        database.put(&key(number), b"origin");
    }
    let path = database.harness.copy_path("independent");
    database.engine().copy_to(&path).expect("copy");
    {
        let engine = database.harness.open_copy(&path).expect("a copy opens");
        let mut session = Blocking::new(engine.session());
        for number in 0..100 {
            session.put(database.keyspace, &key(number), b"copy", WriteOptions::default()).expect("put");
        }
        engine.flush().expect("flush");
        engine.close().expect("close");
    }
    database.everywhere(&mut |database| {
        for number in 0..100 {
            database.assert_value(ReadAt::Latest, &key(number), Some(b"origin"));
        }
    });
    let engine = database.harness.open_copy(&path).expect("it opens again");
    let mut session = Blocking::new(engine.session());
    let value = session.get(ReadAt::Latest, database.keyspace, &key(1)).expect("get");
    assert_eq!(value.as_deref(), Some(&b"copy"[..]));
}

fn taken_place(database: &mut Database) {
    database.put(b"a", b"1");
    let path = database.harness.copy_path("taken");
    database.engine().copy_to(&path).expect("copy");
    database.engine().copy_to(&path).expect_err("the place is taken");
    let engine = database.harness.open_copy(&path).expect("the first copy is whole");
    let mut session = Blocking::new(engine.session());
    let value = session.get(ReadAt::Latest, database.keyspace, b"a").expect("get");
    assert_eq!(value.as_deref(), Some(&b"1"[..]));
}
