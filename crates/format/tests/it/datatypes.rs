//! Golden records of a served database: every keyspace, tag, kind and property.
//!
//! The records of each file stand in one frame of the log, as a server's batch would. Its keyspaces
//! are numbered as [`KEYSPACES`] lists them, from 1 on; in a database the manifest numbers them.

use firn_format::datatype::catalog::LAYOUT_VERSION;
use firn_format::datatype::slot::SLOT_FUNCTION;
use firn_format::datatype::value::{FRAGMENT_BYTES, LIST_MIDDLE};
use firn_format::datatype::{
    Bucket, CATALOG, CatalogRecord, Collection, CollectionId, DatabaseId, EXPIRY, Expiry, FIELDS, Field,
    FieldKey, Generation, KEYS, KEYSPACES, PURGES, Purge, Score, Tag, UserKey, Value,
};
use firn_format::dump::datatype::{Part, dump_record};
use firn_format::dump::{self, Dumped, Lines};
use firn_format::log::{
    EndReason, Frame, FrameKind, FrameWriter, RECORD_HEADER_BYTES, Record, frame_bytes, scan_frames,
};
use firn_format::{Error, Kind, Position, Result};

use crate::samples::{FRAME_AT, GENERATION, Sample};

/// 2023-11-14, 22:13:20 UTC.
const TIME_MS: u64 = 1_700_000_000_000;

/// A key and a value, the record's own expiry, and what they say as `Debug` shows it.
struct Pair {
    key: Vec<u8>,
    value: Vec<u8>,
    expires_at_ms: u64,
    meaning: String,
}

pub(crate) fn samples() -> Vec<Sample> {
    vec![
        sample("datatype-keys-v1-every-tag", KEYS, keys()),
        sample("datatype-fields-v1-every-kind", FIELDS, fields()),
        sample("datatype-expiry-v1-records", EXPIRY, expiry()),
        sample("datatype-purges-v1-both-forms", PURGES, purges()),
        sample("datatype-catalog-v1-every-kind", CATALOG, catalog()),
    ]
}

fn database(number: u32) -> DatabaseId {
    DatabaseId::new(number).unwrap()
}

fn user_key(number: u32, key: &'static [u8]) -> UserKey<'static> {
    UserKey::of(database(number), key).unwrap()
}

fn encoded(encode: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    encode(&mut out);
    out
}

fn keys() -> Vec<Pair> {
    let collection = |generation, count, expires_at_ms| Collection {
        generation: Generation(generation),
        count,
        expires_at_ms,
    };
    let (head, tail) = (LIST_MIDDLE - 2, LIST_MIDDLE + 1);
    let pair = |key: UserKey<'static>, value: Value<'static>, expires_at_ms| Pair {
        key: encoded(|out| key.encode(out)),
        value: encoded(|out| value.encode(out)),
        expires_at_ms,
        meaning: format!("{key:?} {value:?}"),
    };
    let string = |bytes, expires_at_ms| Value::String { bytes, expires_at_ms };
    let long = Value::LongString { collection: collection(1, 70_000, 0), fragment_bytes: FRAGMENT_BYTES };
    let list = Value::List { collection: collection(3, 3, 0), head, tail };
    vec![
        pair(user_key(0, b""), string(b"", 0), 0),
        pair(user_key(0, b"foo"), string(b"bar", 0), 0),
        pair(user_key(0, b"session"), string(b"until then", TIME_MS), TIME_MS),
        pair(user_key(0, b"{user1000}.long"), long, 0),
        pair(user_key(1, b"hash"), Value::Hash(collection(2, 10_000_000, TIME_MS)), 0),
        pair(user_key(1, b"list"), list, 0),
        pair(user_key(300, b"set"), Value::Set(collection(0x0102_0304_0506_0708, 1, 0)), 0),
        pair(
            user_key(u32::MAX - 1, b"z\xffset"),
            Value::SortedSet(collection(u64::MAX, u64::MAX, u64::MAX)),
            0,
        ),
    ]
}

fn fields() -> Vec<Pair> {
    let pair = |key: &'static [u8], generation, field: Field<'static>, value: &[u8]| {
        let collection = CollectionId::of(&user_key(1, key), Generation(generation));
        let field_key = FieldKey { collection, field };
        Pair {
            key: encoded(|out| field_key.encode(out)),
            value: value.to_vec(),
            expires_at_ms: 0,
            meaning: format!("{field_key:?} {value:02x?}"),
        }
    };
    let score = |number| Score::new(number).unwrap();
    vec![
        pair(b"hash", 2, Field::HashField(b"field"), b"value"),
        pair(b"hash", 2, Field::HashField(b""), b""),
        pair(b"set", 0x0102_0304_0506_0708, Field::SetMember(b"member"), b""),
        pair(b"list", 3, Field::ListElement(LIST_MIDDLE - 1), b"in front"),
        pair(b"list", 3, Field::ListElement(LIST_MIDDLE), b"first"),
        pair(b"zset", u64::MAX, Field::ScoredMember(b"one"), &score(1.0).to_bytes()),
        pair(b"zset", u64::MAX, Field::ByScore(score(f64::NEG_INFINITY), b"least"), b""),
        pair(b"zset", u64::MAX, Field::ByScore(score(-1.5), b"less"), b""),
        pair(b"zset", u64::MAX, Field::ByScore(score(-0.0), b"zero"), b""),
        pair(b"zset", u64::MAX, Field::ByScore(score(1.0), b"one"), b""),
        pair(b"zset", u64::MAX, Field::ByScore(score(f64::INFINITY), b"most"), b""),
        pair(b"{user1000}.long", 1, Field::Fragment(4), b"the end of a long string"),
    ]
}

fn expiry() -> Vec<Pair> {
    [(1, "hash", 2), (TIME_MS, "hash", 2), (u64::MAX, "", u64::MAX)]
        .map(|(expires_at_ms, key, generation)| {
            let key = UserKey::of(database(1), key.as_bytes()).unwrap();
            let expiry = Expiry { expires_at_ms, key, generation: Generation(generation) };
            Pair {
                key: encoded(|out| expiry.encode_key(out)),
                value: encoded(|out| expiry.encode_value(out)),
                expires_at_ms: 0,
                meaning: format!("{expiry:?}"),
            }
        })
        .into()
}

fn purges() -> Vec<Pair> {
    let collection = |key, generation| CollectionId::of(&user_key(1, key), Generation(generation));
    [
        Purge::Database(database(0)),
        Purge::Database(DatabaseId::MAX),
        Purge::Collection { collection: collection(b"hash", 2), tag: Tag::Hash, count: 10_000_000 },
        Purge::Collection { collection: collection(b"hash", 9), tag: Tag::LongString, count: 70_000 },
    ]
    .map(|purge| Pair {
        key: encoded(|out| purge.encode_key(out)),
        value: encoded(|out| purge.encode_value(out)),
        expires_at_ms: 0,
        meaning: format!("{purge:?}"),
    })
    .into()
}

fn catalog() -> Vec<Pair> {
    [
        CatalogRecord::DatabaseIndex { index: 0, database: database(17) },
        CatalogRecord::DatabaseIndex { index: 15, database: DatabaseId::MAX },
        CatalogRecord::NextDatabase(database(18)),
        CatalogRecord::Ceiling(Generation(1 << 20)),
        CatalogRecord::Bucket { database: database(17), bucket: Bucket::of(&user_key(17, b"foo")) },
        CatalogRecord::Library { name: b"mylib", text: b"#!lua name=mylib\nreturn 1" },
        CatalogRecord::User { name: b"default", rules: b"on nopass ~* &* +@all" },
        CatalogRecord::SlotFunction(SLOT_FUNCTION),
        CatalogRecord::LayoutVersion(LAYOUT_VERSION),
    ]
    .map(|record| Pair {
        key: encoded(|out| record.encode_key(out)),
        value: encoded(|out| record.encode_value(out)),
        expires_at_ms: 0,
        meaning: format!("{record:?}"),
    })
    .into()
}

fn sample(name: &'static str, keyspace: &str, pairs: Vec<Pair>) -> Sample {
    let number = KEYSPACES.iter().position(|name| *name == keyspace).unwrap() as u32 + 1;
    let records = pairs.iter().map(|pair| Record {
        keyspace: number,
        kind: Kind::Put,
        expires_at_ms: pair.expires_at_ms,
        key: &pair.key,
        value: &pair.value,
    });
    let records: Vec<Record<'_>> = records.collect();
    let mut bytes = vec![0; frame_bytes(records.iter().map(Record::bytes).sum())];
    let mut writer = FrameWriter::new(&mut bytes[8..]);
    for record in &records {
        writer.put(record);
    }
    let word = writer.finish(Position(0), FrameKind::Batch, FRAME_AT, GENERATION);
    bytes[..8].copy_from_slice(&word.to_le_bytes());
    let meanings: Vec<String> =
        pairs.into_iter().map(|pair| format!("{} {}", pair.meaning, pair.expires_at_ms)).collect();
    Sample { name, bytes, value: meanings.join("\n"), decode, dump: dump_pairs }
}

/// The one frame that is all of `bytes`.
fn frame(bytes: &[u8]) -> Result<Frame<'_>> {
    let mut scan = scan_frames(bytes, FRAME_AT, 0, GENERATION);
    let first = scan.next();
    match (first, scan.next(), scan.into_end().reason) {
        (Some((_, frame)), None, EndReason::EndOfBytes) => Ok(frame),
        (_, _, EndReason::Torn(error)) => Err(error),
        (_, _, reason) => Err(Error::new(0, "one frame", format!("{reason:?}"))),
    }
}

fn keyspace_of(record: &Record<'_>) -> Result<&'static str> {
    let index = (record.keyspace as usize).wrapping_sub(1);
    let found = || Error::new(0, "a keyspace of a served database", format!("{}", record.keyspace));
    KEYSPACES.get(index).copied().ok_or_else(found)
}

fn decode(bytes: &[u8]) -> Result<String> {
    let mut meanings = Vec::new();
    for (_, record) in frame(bytes)?.records() {
        let record = record?;
        let Record { key, value, expires_at_ms, .. } = record;
        let meaning = match keyspace_of(&record)? {
            KEYS => format!("{:?} {:?}", UserKey::decode(key)?, Value::decode(value)?),
            FIELDS => {
                let field_key = FieldKey::decode(key)?;
                field_key.field.check_value(value)?;
                format!("{field_key:?} {value:02x?}")
            }
            EXPIRY => format!("{:?}", Expiry::decode(key, value)?),
            PURGES => format!("{:?}", Purge::decode(key, value)?),
            _ => format!("{:?}", CatalogRecord::decode(key, value)?),
        };
        meanings.push(format!("{meaning} {expires_at_ms}"));
    }
    Ok(meanings.join("\n"))
}

/// The frame as logs are dumped, then each record's fields.
fn dump_pairs(bytes: &[u8], out: &mut String) -> Dumped {
    let mut lines = Lines::new(out);
    if let Some(error) = dump::log::dump_frames(bytes, FRAME_AT, 0, GENERATION, &mut lines)? {
        return Ok(Some(error));
    }
    for (offset, record) in frame(bytes).into_iter().flat_map(|frame| frame.records().collect::<Vec<_>>()) {
        let record = record.unwrap();
        let key_at = offset + RECORD_HEADER_BYTES + if record.expires_at_ms == 0 { 0 } else { 8 };
        let key = Part { offset: key_at, bytes: record.key };
        let value = Part { offset: key_at + record.key.len(), bytes: record.value };
        assert_eq!(
            (&bytes[key.offset..value.offset], &bytes[value.offset..][..value.bytes.len()]),
            (key.bytes, value.bytes)
        );
        if let Some(error) = dump_record(keyspace_of(&record).unwrap(), key, value, &mut lines)? {
            return Ok(Some(error));
        }
    }
    Ok(None)
}

#[test]
fn a_malformed_record_ends_its_dump_where_it_is() {
    let key = encoded(|out| user_key(0, b"foo").encode(out));
    let mut out = String::new();
    let mut dump = |keyspace: &str, key: &[u8], value: &[u8]| {
        let parts = [Part { offset: 10, bytes: key }, Part { offset: 50, bytes: value }];
        let error = dump_record(keyspace, parts[0], parts[1], &mut Lines::new(&mut out)).unwrap();
        error.map(|error| error.offset)
    };
    assert_eq!(dump(KEYS, &key, &[1]), None);
    assert_eq!(dump(KEYS, &key[..5], &[1]), Some(14));
    assert_eq!(dump(KEYS, &key, &[3, 9]), Some(51));
    assert_eq!(dump(FIELDS, &key, &[]), Some(16));
    assert_eq!(dump(EXPIRY, &key, &[]), Some(22));
    assert_eq!(dump(PURGES, &key[..4], &[1]), Some(50));
    assert_eq!(dump(CATALOG, &[7, 2], &[9, 0, 0, 0]), Some(50));
    assert_eq!(dump(CATALOG, &[9], &[]), Some(10));
    assert_eq!(dump("another", &key, &[9]), None);
    assert!(out.contains("database") && out.contains("slot               12182"), "{out}");
}
