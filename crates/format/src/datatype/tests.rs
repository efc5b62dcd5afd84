//! Layouts of data types against their promises: there and back, order, limits, what is refused.

use std::cmp::Ordering;

use super::catalog::LAYOUT_VERSION;
use super::key::{KEY_AND_MEMBER_BYTES_MAX, USER_KEY_BYTES_MAX};
use super::slot::SLOT_FUNCTION;
use super::value::{COLLECTION_VALUE_BYTES_MAX, LIST_MIDDLE};
use super::*;
use crate::Error;
use crate::log::KEY_BYTES_MAX;

mod ranges;

const SEED: u64 = 0xda7a_0001;

/// Numbers from a seed (SplitMix64).
struct Random(u64);

impl Random {
    /// Prints the seed, which a failing test then shows.
    fn new(seed: u64) -> Self {
        println!("seed {seed:#x}");
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let word = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    /// Mostly at the edges of bytes and words.
    fn number(&mut self) -> u64 {
        let shift = self.one_of(&[0, 7, 8, 16, 32, 56, 63]);
        let near = (1_u64 << shift).wrapping_add(self.below(3) as u64).wrapping_sub(1);
        let word = self.next();
        self.one_of(&[near, near, 0, u64::MAX, u64::MAX - 1, !0xff, word])
    }

    /// Few different bytes, so that many are alike or begin alike; now and then as long as a length byte counts.
    fn bytes(&mut self) -> Vec<u8> {
        let count = if self.below(16) == 0 { self.one_of(&[255, 256, 257]) } else { self.below(5) };
        let byte = self.one_of(&[0, b'a', 0xff]);
        (0..count)
            .map(|_| if self.below(4) == 0 { self.one_of(&[0, 1, 7, b'a', 0xfe, 0xff]) } else { byte })
            .collect()
    }

    fn database(&mut self) -> DatabaseId {
        let number = self.one_of(&[0, 1, 255, 256, u32::MAX - 2, u32::MAX - 1]);
        DatabaseId::new(number).unwrap()
    }

    fn slot(&mut self) -> Slot {
        Slot::new(self.one_of(&[0, 1, 255, 256, 16_382, 16_383])).unwrap()
    }

    fn key<'a>(&mut self, bytes: &'a [u8]) -> UserKey<'a> {
        UserKey::new(self.database(), self.slot(), bytes).unwrap()
    }

    fn collection<'a>(&mut self, bytes: &'a [u8]) -> CollectionId<'a> {
        CollectionId { key: self.key(bytes), generation: Generation(self.number()) }
    }

    fn score(&mut self) -> Score {
        let bits = f64::from_bits(self.next());
        let number = self.one_of(&[
            bits,
            -1.0,
            0.0,
            -0.0,
            5e-324,
            -5e-324,
            1.0,
            2.5,
            f64::INFINITY,
            f64::NEG_INFINITY,
        ]);
        Score::new(number).unwrap_or(Score::ZERO)
    }

    fn field<'a>(&mut self, member: &'a [u8]) -> Field<'a> {
        match self.below(6) {
            0 => Field::HashField(member),
            1 => Field::SetMember(member),
            2 => Field::ListElement(self.number()),
            3 => Field::ScoredMember(member),
            4 => Field::ByScore(self.score(), member),
            _ => Field::Fragment(self.number() as u32),
        }
    }

    fn value<'a>(&mut self, string: &'a [u8]) -> Value<'a> {
        let generation = Generation(self.number());
        let collection = Collection { generation, count: self.number(), expires_at_ms: self.number() };
        match self.below(6) {
            0 => Value::String(string),
            1 => Value::LongString { collection, fragment_bytes: self.number() as u32 | 1 },
            2 => Value::Hash(collection),
            3 => {
                let (head, more) = (self.number(), self.number());
                let tail = head.saturating_add(more);
                let count = collection.count % (tail - head).max(1);
                Value::List { collection: Collection { count, ..collection }, head, tail }
            }
            4 => Value::Set(collection),
            _ => Value::SortedSet(collection),
        }
    }

    fn purge<'a>(&mut self, bytes: &'a [u8]) -> Purge<'a> {
        if self.below(4) == 0 {
            return Purge::Database(self.database());
        }
        let tag = self.one_of(&[Tag::LongString, Tag::Hash, Tag::List, Tag::Set, Tag::SortedSet]);
        Purge::Collection { collection: self.collection(bytes), tag, count: self.number() }
    }

    fn catalog<'a>(&mut self, name: &'a [u8], text: &'a [u8]) -> CatalogRecord<'a> {
        let database = self.database();
        match self.below(8) {
            0 => CatalogRecord::DatabaseIndex { index: self.number() as u32, database },
            1 => CatalogRecord::NextDatabase(database),
            2 => CatalogRecord::Ceiling(Generation(self.number())),
            3 => CatalogRecord::Bucket { database, bucket: Bucket::of(self.slot(), name) },
            4 => CatalogRecord::Library { name, text },
            5 => CatalogRecord::User { name, rules: text },
            6 => CatalogRecord::SlotFunction(SLOT_FUNCTION),
            _ => CatalogRecord::LayoutVersion(LAYOUT_VERSION),
        }
    }
}

/// What `encode` appends, which must not depend on what is there already.
fn encoded(encode: impl Fn(&mut Vec<u8>)) -> Vec<u8> {
    let mut alone = Vec::new();
    encode(&mut alone);
    let mut behind = b"before".to_vec();
    encode(&mut behind);
    assert_eq!(&behind[6..], &alone[..]);
    alone
}

#[test]
fn everything_goes_there_and_back() {
    let mut random = Random::new(SEED);
    for _ in 0..20_000 {
        let (bytes, member) = (random.bytes(), random.bytes());
        let key = random.key(&bytes);
        assert_eq!(UserKey::decode(&encoded(|out| key.encode(out))), Ok(key));
        let field_key = FieldKey { collection: random.collection(&bytes), field: random.field(&member) };
        let whole = encoded(|out| field_key.encode(out));
        assert_eq!(FieldKey::decode(&whole), Ok(field_key));
        let rest = &whole[field_key.collection.encoded_bytes()..];
        assert_eq!(Field::decode(rest), Ok(field_key.field), "what stands behind the collection");
        let value = random.value(&member);
        let whole = encoded(|out| value.encode(out));
        assert_eq!(Value::decode(&whole), Ok(value));
        assert!(whole.len() <= COLLECTION_VALUE_BYTES_MAX.max(1 + member.len()));
        let expires_at_ms = random.number().max(1);
        let expiry = Expiry { expires_at_ms, key, generation: Generation(random.number()) };
        let pair = (encoded(|out| expiry.encode_key(out)), encoded(|out| expiry.encode_value(out)));
        assert_eq!(Expiry::decode(&pair.0, &pair.1), Ok(expiry));
        let purge = random.purge(&bytes);
        let pair = (encoded(|out| purge.encode_key(out)), encoded(|out| purge.encode_value(out)));
        assert_eq!(Purge::decode(&pair.0, &pair.1), Ok(purge));
        let record = random.catalog(&bytes, &member);
        let pair = (encoded(|out| record.encode_key(out)), encoded(|out| record.encode_value(out)));
        assert_eq!(CatalogRecord::decode(&pair.0, &pair.1), Ok(record));
    }
}

/// A byte changed, taken away or added: an error, or a value that has those bytes.
#[test]
fn what_is_accepted_has_one_encoding() {
    let mut random = Random::new(SEED + 1);
    let mut accepted = [0; 6];
    for _ in 0..30_000 {
        let (bytes, member) = (random.bytes(), random.bytes());
        let pair = |key: &dyn Fn(&mut Vec<u8>), value: &dyn Fn(&mut Vec<u8>)| (encoded(key), encoded(value));
        let (key, field) = (random.key(&bytes), random.field(&member));
        let field_key = FieldKey { collection: random.collection(&bytes), field };
        let value = random.value(&member);
        let expiry = Expiry { expires_at_ms: random.number().max(1), key, generation: Generation(7) };
        let (purge, record) = (random.purge(&bytes), random.catalog(&bytes, &member));
        let choice = random.below(accepted.len());
        let (mut key, mut value) = match choice {
            0 => pair(&|out| key.encode(out), &|_| {}),
            1 => pair(&|out| field_key.encode(out), &|_| {}),
            2 => pair(&|_| {}, &|out| value.encode(out)),
            3 => pair(&|out| expiry.encode_key(out), &|out| expiry.encode_value(out)),
            4 => pair(&|out| purge.encode_key(out), &|out| purge.encode_value(out)),
            _ => pair(&|out| record.encode_key(out), &|out| record.encode_value(out)),
        };
        let part =
            if key.is_empty() || random.below(2) == 0 && !value.is_empty() { &mut value } else { &mut key };
        let at = random.below(part.len());
        match random.below(4) {
            0 => part.truncate(at),
            1 => part.push(random.next() as u8),
            2 => part[at] = random.one_of(&[0, 1, 2, 7, 0x7f, 0x80, 0xff]),
            _ => part[at] ^= 1 << random.below(8),
        }
        let again = match choice {
            0 => UserKey::decode(&key).map(|found| pair(&|out| found.encode(out), &|_| {})),
            1 => FieldKey::decode(&key).map(|found| pair(&|out| found.encode(out), &|_| {})),
            2 => Value::decode(&value).map(|found| pair(&|_| {}, &|out| found.encode(out))),
            3 => Expiry::decode(&key, &value)
                .map(|found| pair(&|out| found.encode_key(out), &|out| found.encode_value(out))),
            4 => Purge::decode(&key, &value)
                .map(|found| pair(&|out| found.encode_key(out), &|out| found.encode_value(out))),
            _ => CatalogRecord::decode(&key, &value)
                .map(|found| pair(&|out| found.encode_key(out), &|out| found.encode_value(out))),
        };
        match again {
            Ok(again) => {
                assert_eq!(again, (key, value));
                accepted[choice] += 1;
            }
            Err(error) => assert!(error.offset <= key.len() + value.len(), "{error:?}"),
        }
    }
    assert!(accepted.iter().all(|count| (500..4_990).contains(count)), "{accepted:?}");
}

/// How keys of `fields` order by what they say.
fn logical_order(a: &FieldKey<'_>, b: &FieldKey<'_>) -> Ordering {
    let head = |key: &FieldKey<'_>| {
        let key = key.collection.key;
        (key.database().number(), key.slot().number(), key.bytes().len())
    };
    head(a)
        .cmp(&head(b))
        .then_with(|| a.collection.key.bytes().cmp(b.collection.key.bytes()))
        .then_with(|| a.collection.generation.cmp(&b.collection.generation))
        .then_with(|| (a.field.kind() as u8).cmp(&(b.field.kind() as u8)))
        .then_with(|| match (a.field, b.field) {
            (Field::ListElement(a), Field::ListElement(b)) => a.cmp(&b),
            (Field::Fragment(a), Field::Fragment(b)) => a.cmp(&b),
            (Field::ByScore(score_a, a), Field::ByScore(score_b, b)) => {
                score_a.get().partial_cmp(&score_b.get()).unwrap().then_with(|| a.cmp(b))
            }
            (a, b) => a.member().cmp(b.member()),
        })
}

#[test]
fn bytes_order_as_what_they_say() {
    let mut random = Random::new(SEED + 2);
    let texts: Vec<(Vec<u8>, Vec<u8>)> = (0..300).map(|_| (random.bytes(), random.bytes())).collect();
    let mut keys: Vec<FieldKey<'_>> = Vec::new();
    for (bytes, member) in &texts {
        let collection = random.collection(bytes);
        // Neighbours differ in one thing only.
        keys.push(FieldKey { collection, field: random.field(member) });
        keys.push(FieldKey { collection, field: random.field(member) });
        let later =
            CollectionId { generation: Generation(collection.generation.0.wrapping_add(1)), ..collection };
        keys.push(FieldKey { collection: later, field: random.field(member) });
    }
    for (index, a) in keys.iter().enumerate() {
        let a_bytes = encoded(|out| a.encode(out));
        for b in &keys[index..] {
            let b_bytes = encoded(|out| b.encode(out));
            assert_eq!(a_bytes.cmp(&b_bytes), logical_order(a, b), "{a:?} {b:?}");
            let (a, b) = (a.collection.key, b.collection.key);
            let order = encoded(|out| a.encode(out)).cmp(&encoded(|out| b.encode(out)));
            let said = |key: &UserKey<'_>| (key.database(), key.slot(), key.bytes().to_vec());
            assert_eq!(order, said(&a).cmp(&said(&b)));
            assert_eq!(order, a.cmp(&b));
        }
    }
}

/// Every key made of the longest user's key and member that fit is one the engine takes.
#[test]
fn what_fits_stays_below_the_limit_of_the_engine() {
    let database = DatabaseId::MAX;
    for key_bytes in [0, 1, 1000, USER_KEY_BYTES_MAX] {
        let (key, member) = (vec![0xff; key_bytes], vec![0xff; KEY_AND_MEMBER_BYTES_MAX - key_bytes]);
        assert!(fits(&key, &member));
        assert!(!fits(&key, &[&member[..], &[0]].concat()));
        let key = UserKey::of(database, &key).unwrap();
        let collection = CollectionId { key, generation: Generation(u64::MAX) };
        let expiry = Expiry { expires_at_ms: u64::MAX, key, generation: Generation(1) };
        let purge = Purge::Collection { collection, tag: Tag::Set, count: 0 };
        let mut keys = vec![
            encoded(|out| key.encode(out)),
            encoded(|out| expiry.encode_key(out)),
            encoded(|out| purge.encode_key(out)),
        ];
        for field in [
            Field::HashField(&member),
            Field::SetMember(&member),
            Field::ScoredMember(&member),
            Field::ByScore(Score::INFINITY, &member),
            Field::ListElement(u64::MAX),
            Field::Fragment(u32::MAX),
        ] {
            let whole = encoded(|out| FieldKey { collection, field }.encode(out));
            assert_eq!(FieldKey::decode(&whole), Ok(FieldKey { collection, field }));
            keys.push(whole);
        }
        let longest = keys.iter().map(Vec::len).max().unwrap();
        assert!(longest <= KEY_BYTES_MAX, "{longest} bytes");
        let too_long = encoded(|out| {
            collection.encode(out);
            Field::HashField(&[&member[..], &[0]].concat()).encode(out);
        });
        assert!(FieldKey::decode(&too_long).is_err());
    }
    let long = vec![1; USER_KEY_BYTES_MAX + 1];
    assert_eq!(UserKey::of(database, &long), None);
    assert!(UserKey::of(database, &long[1..]).is_some());
    let too_long = [&[0; 6], &long[..]].concat();
    assert_eq!(UserKey::decode(&too_long).unwrap_err().offset, 6);
}

#[test]
fn keys_of_one_name_share_a_slot_and_buckets_follow_it() {
    let [following, followers] = ["{user1000}.following", "{user1000}.followers"]
        .map(|key| UserKey::of(DatabaseId::FIRST, key.as_bytes()).unwrap());
    assert_eq!(following.slot(), followers.slot());
    assert_ne!(
        Bucket::of(following.slot(), following.bytes()),
        Bucket::of(followers.slot(), followers.bytes())
    );
    // Frozen: records of earlier releases name these buckets.
    let buckets =
        ["", "foo", "123456789"].map(|key| Bucket::of(Slot::of(key.as_bytes()), key.as_bytes()).number());
    assert_eq!(buckets, [11, 779_690, 815_324]);
    let mut random = Random::new(SEED + 8);
    let mut hit = [0; 64];
    for _ in 0..64_000 {
        let key = random.next().to_le_bytes();
        let bucket = Bucket::of(Slot::MAX, &key).number();
        assert_eq!(bucket / 64, 16_383);
        assert!(bucket < Bucket::COUNT);
        hit[bucket as usize % 64] += 1;
    }
    assert!(hit.iter().all(|count| (800..1_200).contains(count)), "{hit:?}");
    assert_eq!(
        (Bucket::new(Bucket::COUNT - 1).map(Bucket::number), Bucket::new(1 << 20)),
        (Some((1 << 20) - 1), None)
    );
}

/// Offset of the error and whether only a newer release knows such bytes.
fn refused<T: std::fmt::Debug>(decoded: Result<T, Error>) -> (usize, bool) {
    let error = decoded.unwrap_err();
    (error.offset, error.is_newer)
}

#[test]
fn values_of_no_kind_are_refused_at_their_offset() {
    let collection = Collection { generation: Generation(3), count: 2, expires_at_ms: 0 };
    let hash = encoded(|out| Value::Hash(collection).encode(out));
    let changed = |at: usize, byte: u8| {
        let mut bytes = hash.clone();
        bytes[at] = byte;
        refused(Value::decode(&bytes).map(|value| value.tag()))
    };
    assert_eq!(refused(Value::decode(&[])), (0, false));
    assert_eq!(changed(0, 0), (0, false));
    assert_eq!(changed(0, 7), (0, true), "streams");
    assert_eq!(changed(0, 8), (0, false));
    assert_eq!(changed(1, 0), (1, false));
    assert_eq!(changed(1, 2), (1, true), "parts inside the description");
    assert_eq!(changed(0, Tag::List as u8), (26, false), "a list without ends");
    assert_eq!(refused(Value::decode(&[&hash[..], &[0]].concat())), (26, false));
    let long = |fragment_bytes: u32| {
        let mut bytes = hash.clone();
        bytes[0] = Tag::LongString as u8;
        bytes.extend(fragment_bytes.to_le_bytes());
        Value::decode(&bytes).map(|value| value.tag())
    };
    assert_eq!(long(1), Ok(Tag::LongString));
    assert_eq!(refused(long(0)), (26, false));
    let list = |head: u64, tail: u64| {
        let mut bytes = hash.clone();
        bytes[0] = Tag::List as u8;
        bytes.extend([head.to_le_bytes(), tail.to_le_bytes()].concat());
        Value::decode(&bytes).map(|value| value.tag())
    };
    assert_eq!(list(LIST_MIDDLE - 1, LIST_MIDDLE + 1), Ok(Tag::List));
    assert_eq!(refused(list(LIST_MIDDLE, LIST_MIDDLE + 1)), (26, false), "two elements in one place");
    assert_eq!(refused(list(LIST_MIDDLE + 2, LIST_MIDDLE)), (26, false));
}

#[test]
fn keys_of_no_kind_are_refused_at_their_offset() {
    assert_eq!(refused(UserKey::decode(&[0xff; 8])), (0, false), "no database");
    assert_eq!(refused(UserKey::decode(&[0, 0, 0, 0, 0x40, 0])), (4, false), "no slot");
    assert_eq!(refused(UserKey::decode(&[0; 5])), (4, false));
    let key = UserKey::of(DatabaseId::FIRST, b"k").unwrap();
    let collection = CollectionId { key, generation: Generation(1) };
    let front = encoded(|out| collection.encode(out));
    assert_eq!(front.len(), collection.encoded_bytes());
    let after =
        |rest: &[u8]| refused(FieldKey::decode(&[&front[..], rest].concat()).map(|key| key.field.kind()));
    assert_eq!(after(&[]), (17, false));
    assert_eq!(after(&[0]), (17, false));
    assert_eq!(after(&[7]), (17, false));
    assert_eq!(after(&[3, 0, 0, 0, 0, 0, 0, 0]), (18, false), "half an index");
    assert_eq!(after(&[6, 0, 0, 0, 0, 0]), (22, false), "more than an index");
    assert_eq!(after(&[5, 0, 0, 0, 0, 0, 0, 0, 0]), (18, false), "a score that is none");
    assert!(Field::SetMember(b"m").check_value(b"").is_ok());
    assert!(Field::SetMember(b"m").check_value(b"v").is_err());
    assert!(Field::ByScore(Score::ZERO, b"m").check_value(b"v").is_err());
    assert!(Field::ScoredMember(b"m").check_value(&Score::ZERO.to_bytes()).is_ok());
    assert!(Field::ScoredMember(b"m").check_value(&[0; 8]).is_err());
    assert!(Field::HashField(b"m").check_value(b"v").is_ok());
    let purge_key = encoded(|out| Purge::Database(DatabaseId::MAX).encode_key(out));
    assert_eq!(refused(Purge::decode(&purge_key, &[3])), (4, false));
    assert_eq!(refused(Purge::decode(&front, &[0, 1, 0, 0, 0, 0, 0, 0, 0])), (17, false));
    assert_eq!(refused(Purge::decode(&front, &[7, 1, 0, 0, 0, 0, 0, 0, 0])), (17, true));
    assert_eq!(refused(Purge::decode(&front, &[1, 1, 0, 0, 0, 0, 0, 0, 0])), (17, false), "a string");
    assert_eq!(refused(Purge::decode(&front, &[3, 1])), (18, false));
    assert_eq!(refused(Expiry::decode(&[0; 15], &[0; 8])), (0, false), "never");
    assert_eq!(refused(Expiry::decode(&[1; 15], &[0; 7])), (15, false));
    assert_eq!(refused(CatalogRecord::decode(&[8], &[])), (0, false));
    let name = vec![5; KEY_BYTES_MAX + 1];
    assert!(CatalogRecord::decode(&name[1..], &[]).is_ok());
    assert_eq!(refused(CatalogRecord::decode(&name, &[])), (1, false), "too long a name");
    assert_eq!(refused(CatalogRecord::decode(&[4, 0, 0, 0, 0, 0, 0x10, 0, 0], &[])), (5, false), "no bucket");
    assert_eq!(refused(CatalogRecord::decode(&[4, 0, 0, 0, 0, 0, 0, 0, 0], &[1])), (9, false));
    assert_eq!(refused(CatalogRecord::decode(&[2], &[0xff; 4])), (1, false), "no database");
    assert_eq!(refused(CatalogRecord::decode(&[7, 2], &[2, 0, 0, 0])), (2, true), "a newer layout");
    assert_eq!(refused(CatalogRecord::decode(&[7, 2], &[0; 4])), (2, false));
    assert_eq!(refused(CatalogRecord::decode(&[7, 1], b"ab\xff")), (4, false));
}
