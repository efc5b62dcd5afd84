//! Keyspaces: created, found, distinguished, dropped.

use super::Check;
use super::database::{Database, key};
use crate::{
    Batch, Compression, ErrorKind, KEYSPACE_DEFAULT, KeyspaceId, KeyspaceSettings, ReadAt, WriteOptions,
};

pub(super) const CHECKS: &[Check] = &[
    ("keyspaces::the default one is there from birth", false, default_one),
    ("keyspaces::equal settings find it, others conflict", false, equal_or_conflict),
    ("keyspaces::names without code are refused", false, names_without_code),
    ("keyspaces::the same key in two is two keys", false, distinguished),
    ("keyspaces::batches cross them", false, batches_cross),
    ("keyspaces::dropped with all its data, id never reused", false, dropped),
    ("keyspaces::survive reopening with their settings", false, reopened),
    ("keyspaces::every compression reads back", false, compressions),
    ("keyspaces::an unknown one is refused", false, unknown),
    ("keyspaces::a filter drops only what it names", true, filtered),
];

fn plain() -> KeyspaceSettings {
    KeyspaceSettings::default()
}

fn default_one(database: &mut Database) {
    let engine = database.engine();
    assert_eq!(engine.keyspace("default"), Some(KEYSPACE_DEFAULT));
    assert_eq!(engine.keyspaces(), [("default".to_owned(), KEYSPACE_DEFAULT)]);
    let error = engine.drop_keyspace(KEYSPACE_DEFAULT).expect_err("the default keyspace stays");
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
}

fn equal_or_conflict(database: &mut Database) {
    let merging = KeyspaceSettings { merge_operator: Some(super::APPEND.to_owned()), ..plain() };
    let zstd = KeyspaceSettings { compression: Some(Compression::Zstd), ..plain() };
    for is_reopened in [false, true] {
        if is_reopened {
            database.reopen();
        }
        let engine = database.engine();
        let first = engine.create_keyspace("first", plain()).expect("create");
        let second = engine.create_keyspace("second", merging.clone()).expect("create");
        assert_ne!(first, second);
        assert_eq!(engine.create_keyspace("first", plain()).expect("equal settings"), first);
        assert_eq!(engine.create_keyspace("second", merging.clone()).expect("equal settings"), second);
        for (name, settings) in [("first", &merging), ("second", &plain()), ("first", &zstd)] {
            let error = engine.create_keyspace(name, settings.clone()).expect_err("other settings");
            assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
        }
        assert_eq!((engine.keyspace("first"), engine.keyspace("none")), (Some(first), None));
        // What a caller does not say is as it is.
        let third = engine.create_keyspace("third", zstd.clone()).expect("create");
        assert_eq!(engine.keyspace_settings(second).expect("it is there"), merging);
        assert_eq!(engine.keyspace_settings(third).expect("it is there"), zstd);
        let unknown = engine.keyspace_settings(KeyspaceId(u32::MAX)).expect_err("there is none");
        assert_eq!(unknown.kind(), ErrorKind::Invalid);
        assert_eq!(engine.create_keyspace("third", plain()).expect("nothing is said"), third);
        let names: Vec<_> = engine.keyspaces().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["default", "first", "second", "third"]);
    }
}

fn names_without_code(database: &mut Database) {
    let name = Some("unregistered.1".to_owned());
    let settings = [
        KeyspaceSettings { merge_operator: name.clone(), ..plain() },
        KeyspaceSettings { compaction_filter: name.clone(), ..plain() },
        KeyspaceSettings { prefix_extractor: name, ..plain() },
    ];
    for settings in settings {
        let error = database.engine().create_keyspace("none", settings).expect_err("no code");
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert_eq!(database.engine().keyspace("none"), None);
    }
}

fn distinguished(database: &mut Database) {
    let spaces: Vec<_> = (0..4)
        .map(|number| database.engine().create_keyspace(&format!("space {number}"), plain()).expect("create"))
        .collect();
    for (number, space) in spaces.iter().enumerate() {
        database.keyspace = *space;
        for index in 0..50 {
            database.put(&key(index), &key(index * 10 + number));
        }
    }
    database.keyspace = spaces[2];
    database.delete(&key(7));
    database.everywhere(&mut |database| {
        for (number, space) in spaces.iter().enumerate() {
            database.keyspace = *space;
            for index in 0..50 {
                let value = (number != 2 || index != 7).then(|| key(index * 10 + number));
                database.assert_value(ReadAt::Latest, &key(index), value.as_deref());
            }
        }
        database.keyspace = KEYSPACE_DEFAULT;
        database.assert_value(ReadAt::Latest, &key(0), None);
    });
}

fn batches_cross(database: &mut Database) {
    let other = database.engine().create_keyspace("other", plain()).expect("create");
    let mut batch = Batch::new();
    for number in 0..100 {
        let space = if number % 2 == 0 { KEYSPACE_DEFAULT } else { other };
        batch.put(space, &key(number), b"1");
    }
    batch.delete(other, &key(1)).delete(KEYSPACE_DEFAULT, &key(3));
    database.write(&batch);
    database.everywhere(&mut |database| {
        for number in 0..100 {
            let (even, odd) = (number % 2 == 0, number % 2 == 1 && number != 1);
            database.keyspace = KEYSPACE_DEFAULT;
            database.assert_value(ReadAt::Latest, &key(number), even.then_some(b"1"));
            database.keyspace = other;
            database.assert_value(ReadAt::Latest, &key(number), odd.then_some(b"1"));
        }
    });
}

fn dropped(database: &mut Database) {
    let first = database.engine().create_keyspace("gone", plain()).expect("create");
    let kept = database.engine().create_keyspace("kept", plain()).expect("create");
    for space in [first, kept] {
        database.keyspace = space;
        for number in 0..100 {
            database.put(&key(number), b"1");
        }
    }
    database.flush();
    database.keyspace = first;
    database.put(b"in memory", b"1");
    database.engine().drop_keyspace(first).expect("drop");
    let error = database.db().get(ReadAt::Latest, first, &key(1)).expect_err("dropped");
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    let error = database.db().put(first, b"a", b"1", WriteOptions::default()).expect_err("dropped");
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(database.engine().drop_keyspace(first).is_err(), "a keyspace is dropped once");
    let second = database.engine().create_keyspace("gone", plain()).expect("create again");
    assert_ne!(first, second, "an id is never reused");
    database.keyspace = second;
    database.everywhere(&mut |database| {
        let names: Vec<_> = database.engine().keyspaces().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["default", "kept", "gone"]);
        database.keyspace = second;
        database.assert_value(ReadAt::Latest, &key(1), None);
        database.assert_value(ReadAt::Latest, b"in memory", None);
        database.keyspace = kept;
        database.assert_value(ReadAt::Latest, &key(1), Some(b"1"));
    });
}

fn reopened(database: &mut Database) {
    let merging = KeyspaceSettings { merge_operator: Some(super::APPEND.to_owned()), ..plain() };
    let id = database.engine().create_keyspace("merging", merging).expect("create");
    database.keyspace = id;
    database.merge(b"a", b"1");
    database.reopen();
    assert_eq!(database.engine().keyspace("merging"), Some(id));
    database.merge(b"a", b"2");
    database.everywhere(&mut |database| database.assert_value(ReadAt::Latest, b"a", Some(b"12")));
}

fn compressions(database: &mut Database) {
    for compression in [Compression::None, Compression::Lz4, Compression::Zstd] {
        let settings = KeyspaceSettings { compression: Some(compression), ..plain() };
        database.keyspace = database.engine().create_keyspace(compression.name(), settings).expect("create");
        for number in 0..500 {
            database.put(&key(number), &key(number).repeat(10));
        }
        database.everywhere(&mut |database| {
            for number in (0..500).step_by(7) {
                database.assert_value(ReadAt::Latest, &key(number), Some(&key(number).repeat(10)));
            }
        });
    }
}

fn unknown(database: &mut Database) {
    let unknown = crate::KeyspaceId(77);
    let kinds = [
        database.db().get(ReadAt::Latest, unknown, b"a").expect_err("unknown").kind(),
        database.db().multi_get(ReadAt::Latest, unknown, &[b"a"]).expect_err("unknown").kind(),
        database.db().put(unknown, b"a", b"1", WriteOptions::default()).expect_err("unknown").kind(),
        database.db().delete(unknown, b"a", WriteOptions::default()).expect_err("unknown").kind(),
        database.engine().drop_keyspace(unknown).expect_err("unknown").kind(),
    ];
    assert_eq!(kinds, [ErrorKind::Invalid; 5]);
}

fn filtered(database: &mut Database) {
    let settings = KeyspaceSettings { compaction_filter: Some(super::FILTER_DROP.to_owned()), ..plain() };
    database.keyspace = database.engine().create_keyspace("filtered", settings).expect("create");
    for number in 0..100 {
        let value: &[u8] = if number % 2 == 0 { b"drop me" } else { b"keep me" };
        database.put(&key(number), value);
    }
    database.everywhere(&mut |database| {
        for number in 0..100 {
            match database.get(&key(number)).as_deref() {
                Some(b"keep me") => assert_eq!(number % 2, 1),
                Some(b"drop me") | None => assert_eq!(number % 2, 0, "the filter dropped what it must keep"),
                other => panic!("a value that was never written: {other:?}"),
            }
        }
    });
}
