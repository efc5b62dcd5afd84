//! Values that sources bring.

use std::io::{self, Read};

use super::Check;
use super::database::{Database, noise};
use crate::{Error, ErrorKind, KeyspaceId, KeyspaceSettings, ReadAt, WriteOptions};

pub(super) const CHECKS: &[Check] = &[
    ("sources::values of all lengths are what their sources brought", false, of_all_lengths),
    ("sources::a source that fails, ends early or has more leaves nothing", false, broken),
    ("sources::a value is written when its source has ended", false, at_the_end),
    ("sources::values expire as others do", false, expiring),
    ("sources::keys and keyspaces are checked", false, checked),
];

/// A keyspace that takes values of any length from sources.
fn beside(database: &mut Database) -> KeyspaceId {
    let settings = KeyspaceSettings { separate_bytes: Some(1000), ..KeyspaceSettings::default() };
    database.engine().create_keyspace("beside", settings).expect("create_keyspace")
}

fn put_from(
    database: &Database,
    key: &[u8],
    value_bytes: usize,
    source: &mut dyn Read,
    options: WriteOptions,
) -> Result<(), Error> {
    let put = database.engine().put_from(database.keyspace, key, value_bytes as u64, source, options);
    put.map(drop)
}

/// The value of `key`, read in pieces.
fn in_pieces(database: &mut Database, key: &[u8]) -> Option<Vec<u8>> {
    let (snapshot, keyspace) = (database.engine().snapshot().expect("snapshot"), database.keyspace);
    let mut out = Vec::new();
    let bytes = database.db().read_into(&snapshot, keyspace, key, &mut out).expect("read_into");
    assert_eq!(bytes.unwrap_or_default(), out.len() as u64, "the length that was read");
    bytes.map(|_| out)
}

const MIB: usize = 1 << 20;
/// More than any engine takes into memory for a value that a source brings.
const LONG: usize = 4 * MIB + 1;
const LENGTHS: [usize; 5] = [0, 1, MIB, MIB + 1, LONG];

fn of_all_lengths(database: &mut Database) {
    database.keyspace = beside(database);
    for bytes in LENGTHS {
        let value = noise(bytes as u64, bytes);
        put_from(database, &bytes.to_be_bytes(), bytes, &mut &value[..], WriteOptions::default())
            .expect("put_from");
    }
    database.everywhere(&mut |database| {
        for bytes in LENGTHS {
            let (key, value) = (bytes.to_be_bytes(), noise(bytes as u64, bytes));
            assert!(database.get(&key).as_ref() == Some(&value), "a value of {bytes} bytes");
            assert!(in_pieces(database, &key) == Some(value), "a value of {bytes} bytes in pieces");
        }
        assert_eq!(in_pieces(database, b"none"), None);
    });
}

fn broken(database: &mut Database) {
    database.keyspace = beside(database);
    database.put(b"a", b"before");
    for bytes in [100, LONG] {
        let value = noise(1, bytes);
        let failing = Failing;
        let sources: [(usize, &mut dyn Read); 3] = [
            (bytes + 1, &mut &value[..]),
            (bytes - 1, &mut &value[..]),
            (bytes + 1, &mut value.chain(failing)),
        ];
        for (said, source) in sources {
            let refused = put_from(database, b"a", said, source, WriteOptions::default());
            assert_eq!(refused.expect_err("a broken source").kind(), ErrorKind::Invalid);
            database.assert_value(ReadAt::Latest, b"a", Some(b"before"));
        }
    }
    database.everywhere(&mut |database| database.assert_value(ReadAt::Latest, b"a", Some(b"before")));
}

/// A source that has nothing but an error.
struct Failing;

impl Read for Failing {
    fn read(&mut self, _out: &mut [u8]) -> io::Result<usize> {
        Err(io::Error::other("the source is gone"))
    }
}

/// A source that does something before it brings its bytes.
struct Doing<'d>(Option<&'d mut dyn FnMut()>, &'d [u8]);

impl Read for Doing<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.0.take().into_iter().for_each(|act| act());
        self.1.read(out)
    }
}

fn at_the_end(database: &mut Database) {
    database.keyspace = beside(database);
    let (value, keyspace) = (noise(2, LONG), database.keyspace);
    for bytes in [100, value.len()] {
        let mut session = database.session();
        let mut act = || {
            let found = session.get(ReadAt::Latest, keyspace, b"a").expect("get");
            assert!(found.is_none_or(|found| found == value[..100]), "a value before its source has ended");
            session.put(keyspace, b"a", b"meanwhile", WriteOptions::default()).expect("put");
        };
        let mut source = Doing(Some(&mut act), &value[..bytes]);
        put_from(database, b"a", bytes, &mut source, WriteOptions::default()).expect("put_from");
        assert!(database.get(b"a").as_deref() == Some(&value[..bytes]), "the later write of {bytes} bytes");
    }
}

fn expiring(database: &mut Database) {
    database.keyspace = beside(database);
    let options = WriteOptions { expires_at_ms: database.harness.now_ms() + 1000, ..WriteOptions::default() };
    for (key, bytes) in [(b"a", 100), (b"b", LONG)] {
        put_from(database, key, bytes, &mut &noise(3, bytes)[..], options).expect("put_from");
        assert!(database.get(key) == Some(noise(3, bytes)));
    }
    database.harness.advance_ms(1000);
    database.everywhere(&mut |database| {
        assert_eq!((database.get(b"a"), database.get(b"b")), (None, None));
        assert_eq!(in_pieces(database, b"b"), None);
    });
}

fn checked(database: &mut Database) {
    let options = WriteOptions::default();
    let long = vec![b'x'; 1 << 16];
    let refused = put_from(database, &long, 3, &mut &b"abc"[..], options);
    assert_eq!(refused.expect_err("a long key").kind(), ErrorKind::Invalid);
    let engine = database.engine();
    let refused = engine.put_from(KeyspaceId(77), b"a", 3, &mut &b"abc"[..], options);
    assert_eq!(refused.expect_err("no keyspace").kind(), ErrorKind::Invalid);
    engine.close().expect("close");
    let refused = put_from(database, b"a", 3, &mut &b"abc"[..], options);
    assert_eq!(refused.expect_err("closed").kind(), ErrorKind::Closed);
}
