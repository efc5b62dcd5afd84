//! Layouts of data types against their promises: there and back, order, limits, what is refused.

use std::cmp::Ordering;

use super::catalog::LAYOUT_VERSION;
use super::field::MEMBER_BYTES_MAX;
use super::key::{COLLECTION_BYTES, KEY_PREFIX_BYTES, USER_KEY_BYTES_MAX};
use super::slot::SLOT_FUNCTION;
use super::value::{COLLECTION_VALUE_BYTES_MAX, LIST_MIDDLE, STRING_PREFIX_BYTES_MAX};
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

    /// Few different bytes, so that many are alike or begin alike; now and then as long as a length
    /// byte counts.
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

    fn collection(&mut self) -> CollectionId {
        CollectionId { database: self.database(), slot: self.slot(), generation: Generation(self.number()) }
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
            0 => Value::String { bytes: string, expires_at_ms: self.number() },
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

    fn purge(&mut self) -> Purge {
        if self.below(4) == 0 {
            return Purge::Database(self.database());
        }
        let tag = self.one_of(&[Tag::LongString, Tag::Hash, Tag::List, Tag::Set, Tag::SortedSet]);
        Purge::Collection { collection: self.collection(), tag, count: self.number() }
    }

    fn catalog<'a>(&mut self, name: &'a [u8], text: &'a [u8]) -> CatalogRecord<'a> {
        let database = self.database();
        match self.below(8) {
            0 => CatalogRecord::DatabaseIndex { index: self.number() as u32, database },
            1 => CatalogRecord::NextDatabase(database),
            2 => CatalogRecord::Ceiling(Generation(self.number())),
            3 => CatalogRecord::Bucket { database, bucket: Bucket::of(&self.key(name)) },
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
        let field_key = FieldKey { collection: random.collection(), field: random.field(&member) };
        let whole = encoded(|out| field_key.encode(out));
        assert_eq!(FieldKey::decode(&whole), Ok(field_key));
        let rest = &whole[COLLECTION_BYTES..];
        assert_eq!(Field::decode(rest), Ok(field_key.field), "what stands behind the collection");
        let value = random.value(&member);
        let whole = encoded(|out| value.encode(out));
        assert_eq!(Value::decode(&whole), Ok(value));
        assert!(whole.len() <= COLLECTION_VALUE_BYTES_MAX.max(STRING_PREFIX_BYTES_MAX + member.len()));
        let expires_at_ms = random.number().max(1);
        let expiry = Expiry { expires_at_ms, key, generation: Generation(random.number()) };
        let pair = (encoded(|out| expiry.encode_key(out)), encoded(|out| expiry.encode_value(out)));
        assert_eq!(Expiry::decode(&pair.0, &pair.1), Ok(expiry));
        let purge = random.purge();
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
        let field_key = FieldKey { collection: random.collection(), field };
        let value = random.value(&member);
        let expiry = Expiry { expires_at_ms: random.number().max(1), key, generation: Generation(7) };
        let (purge, record) = (random.purge(), random.catalog(&bytes, &member));
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
        let CollectionId { database, slot, generation } = key.collection;
        (database.number(), slot.number(), generation.0)
    };
    head(a).cmp(&head(b)).then_with(|| (a.field.kind() as u8).cmp(&(b.field.kind() as u8))).then_with(|| {
        match (a.field, b.field) {
            (Field::ListElement(a), Field::ListElement(b)) => a.cmp(&b),
            (Field::Fragment(a), Field::Fragment(b)) => a.cmp(&b),
            (Field::ByScore(score_a, a), Field::ByScore(score_b, b)) => {
                score_a.get().partial_cmp(&score_b.get()).unwrap().then_with(|| a.cmp(b))
            }
            (a, b) => hash_of(a.member()).cmp(&hash_of(b.member())).then_with(|| a.member().cmp(b.member())),
        }
    })
}

#[test]
fn bytes_order_as_what_they_say() {
    let mut random = Random::new(SEED + 2);
    let texts: Vec<(Vec<u8>, Vec<u8>)> = (0..300).map(|_| (random.bytes(), random.bytes())).collect();
    let (mut keys, mut user_keys): (Vec<FieldKey<'_>>, Vec<UserKey<'_>>) = Default::default();
    for (bytes, member) in &texts {
        user_keys.push(random.key(bytes));
        let collection = random.collection();
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
            let (a, b) = (a.collection, b.collection);
            assert_eq!(encoded(|out| a.encode(out)).cmp(&encoded(|out| b.encode(out))), a.cmp(&b));
        }
    }
    for a in &user_keys {
        let a_bytes = encoded(|out| a.encode(out));
        for b in &user_keys {
            let order = a_bytes.cmp(&encoded(|out| b.encode(out)));
            let said =
                |key: &UserKey<'_>| (key.database(), key.slot(), hash_of(key.bytes()), key.bytes().to_vec());
            assert_eq!(order, said(a).cmp(&said(b)));
            assert_eq!(order, a.cmp(b));
            if a.slot() == b.slot() && a.database() == b.database() {
                let buckets = Bucket::of(a).cmp(&Bucket::of(b));
                assert!(buckets == order || buckets == Ordering::Equal, "a bucket is one range: {a:?} {b:?}");
            }
        }
    }
}

/// Every key made of the longest user's key or member is one the engine takes.
#[test]
fn what_is_allowed_stays_below_the_limit_of_the_engine() {
    let long = vec![0xff; USER_KEY_BYTES_MAX.max(MEMBER_BYTES_MAX) + 1];
    let (key, member) = (&long[..USER_KEY_BYTES_MAX], &long[..MEMBER_BYTES_MAX]);
    let key = UserKey::of(DatabaseId::MAX, key).unwrap();
    let collection = CollectionId::of(&key, Generation(u64::MAX));
    let expiry = Expiry { expires_at_ms: u64::MAX, key, generation: Generation(1) };
    let mut keys = vec![encoded(|out| key.encode(out)), encoded(|out| expiry.encode_key(out))];
    for field in [
        Field::HashField(member),
        Field::SetMember(member),
        Field::ScoredMember(member),
        Field::ByScore(Score::INFINITY, member),
    ] {
        let whole = encoded(|out| FieldKey { collection, field }.encode(out));
        assert_eq!(FieldKey::decode(&whole), Ok(FieldKey { collection, field }));
        keys.push(whole);
    }
    let longest = keys.iter().map(Vec::len).max().unwrap();
    assert!(longest <= KEY_BYTES_MAX, "{longest} bytes");
    let too_long = &long[..MEMBER_BYTES_MAX + 1];
    assert!(is_member(member) && !is_member(too_long));
    for front in [&[5, 0x80, 0, 0, 0, 0, 0, 0, 0][..], &hashed(1, too_long)[..5]] {
        let field = [front, too_long].concat();
        assert_eq!(refused(Field::decode(&field)), (front.len(), false));
        assert!(Field::decode(&[front, &[]].concat()).is_ok() == (front[0] == 5), "only too long");
    }
    let too_long = &long[..USER_KEY_BYTES_MAX + 1];
    assert_eq!(UserKey::of(DatabaseId::MAX, too_long), None);
    let whole = [&[0; 6], &hashed(0, too_long)[1..]].concat();
    assert_eq!(refused(UserKey::decode(&whole)), (KEY_PREFIX_BYTES, false));
}

/// A kind, the hash of `bytes`, and they.
fn hashed(kind: u8, bytes: &[u8]) -> Vec<u8> {
    [&[kind], &hash_of(bytes).to_be_bytes()[..], bytes].concat()
}

#[test]
fn keys_of_one_name_share_a_slot_and_buckets_follow_it() {
    let [following, followers] = ["{user1000}.following", "{user1000}.followers"]
        .map(|key| UserKey::of(DatabaseId::FIRST, key.as_bytes()).unwrap());
    assert_eq!(following.slot(), followers.slot());
    assert_ne!(Bucket::of(&following), Bucket::of(&followers));
    // Frozen: keys of earlier releases have these hashes, records name these buckets.
    let keys = ["", "foo", "123456789"].map(|key| UserKey::of(DatabaseId::FIRST, key.as_bytes()).unwrap());
    assert_eq!(keys.map(|key| key.hash()), [0x2d06_8005, 0xab6e_5f64, 0x72dc_b18b]);
    assert_eq!(keys.map(|key| Bucket::of(&key).number()), [11, 779_690, 815_324]);
    let mut random = Random::new(SEED + 8);
    let mut hit = [0; 64];
    for _ in 0..64_000 {
        let key = random.next().to_le_bytes();
        let bucket = Bucket::of(&UserKey::new(DatabaseId::FIRST, Slot::MAX, &key).unwrap()).number();
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

#[test]
fn a_value_is_live_until_its_time() {
    let bytes = b"string";
    let collection = |expires_at_ms| Collection { generation: Generation(1), count: 1, expires_at_ms };
    let values = |expires_at_ms| {
        let (collection, fragment_bytes) = (collection(expires_at_ms), 1);
        [
            Value::String { bytes, expires_at_ms },
            Value::LongString { collection, fragment_bytes },
            Value::Hash(collection),
            Value::List { collection, head: 0, tail: 1 },
            Value::Set(collection),
            Value::SortedSet(collection),
        ]
    };
    for value in values(0) {
        assert_eq!(value.expires_at_ms(), 0);
        assert!(value.is_live(0) && value.is_live(u64::MAX), "{value:?} never expires");
    }
    for value in values(1_000) {
        assert_eq!(value.expires_at_ms(), 1_000);
        assert!(value.is_live(999) && !value.is_live(1_000) && !value.is_live(1_001), "{value:?}");
        assert_eq!(value.tag().is_collection(), value.collection().is_some(), "{value:?}");
    }
    let [forever, expiring] = [0, 1_000].map(|expires_at_ms| Value::String { bytes, expires_at_ms });
    assert_eq!(encoded(|out| forever.encode(out)), b"\x01string");
    assert_eq!(encoded(|out| expiring.encode(out)), b"\x08\xe8\x03\0\0\0\0\0\0string");
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
    assert_eq!(changed(0, 9), (0, false));
    assert_eq!(refused(Value::decode(&[8, 0, 0, 0, 0, 0, 0, 0, 0, b'a'])), (1, false), "expires at no time");
    assert_eq!(refused(Value::decode(&[8, 1, 0, 0])), (1, false));
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
    assert_eq!(refused(UserKey::decode(&[0; 9])), (6, false), "half a hash");
    assert_eq!(refused(UserKey::decode(&[0; 11])), (6, false), "another key's hash");
    let key = UserKey::of(DatabaseId::FIRST, b"k").unwrap();
    let front = encoded(|out| CollectionId::of(&key, Generation(1)).encode(out));
    assert_eq!(front.len(), COLLECTION_BYTES);
    let after =
        |rest: &[u8]| refused(FieldKey::decode(&[&front[..], rest].concat()).map(|key| key.field.kind()));
    assert_eq!(after(&[]), (14, false));
    assert_eq!(after(&[0]), (14, false));
    assert_eq!(after(&[7]), (14, false));
    assert_eq!(after(&[3, 0, 0, 0, 0, 0, 0, 0]), (15, false), "half an index");
    assert_eq!(after(&[6, 0, 0, 0, 0, 0]), (19, false), "more than an index");
    assert_eq!(after(&[5, 0, 0, 0, 0, 0, 0, 0, 0]), (15, false), "a score that is none");
    for kind in [1, 2, 4] {
        assert_eq!(Field::decode(&hashed(kind, b"m")).map(|field| field.member()), Ok(&b"m"[..]));
        assert_eq!(after(&[kind, 0, 0, 0]), (15, false), "half a hash");
        assert_eq!(after(&[&hashed(kind, b"m")[..5], b"n"].concat()), (15, false), "another member's hash");
    }
    assert!(Field::SetMember(b"m").check_value(b"").is_ok());
    assert!(Field::SetMember(b"m").check_value(b"v").is_err());
    assert!(Field::ByScore(Score::ZERO, b"m").check_value(b"v").is_err());
    assert!(Field::ScoredMember(b"m").check_value(&Score::ZERO.to_bytes()).is_ok());
    assert!(Field::ScoredMember(b"m").check_value(&[0; 8]).is_err());
    assert!(Field::HashField(b"m").check_value(b"v").is_ok());
    let purge_key = encoded(|out| Purge::Database(DatabaseId::MAX).encode_key(out));
    assert_eq!(refused(Purge::decode(&purge_key, &[3])), (4, false));
    assert_eq!(refused(Purge::decode(&front, &[0, 1, 0, 0, 0, 0, 0, 0, 0])), (14, false));
    assert_eq!(refused(Purge::decode(&front, &[7, 1, 0, 0, 0, 0, 0, 0, 0])), (14, true));
    assert_eq!(refused(Purge::decode(&front, &[1, 1, 0, 0, 0, 0, 0, 0, 0])), (14, false), "a string");
    assert_eq!(refused(Purge::decode(&front, &[8, 1, 0, 0, 0, 0, 0, 0, 0])), (14, false), "it expires");
    assert_eq!(refused(Purge::decode(&front, &[3, 1])), (15, false));
    assert_eq!(refused(Purge::decode(&[&front[..], &[0]].concat(), &[3; 9])), (14, false), "a longer key");
    let expiry = [&[1; 8], &encoded(|out| key.encode(out))[..]].concat();
    assert_eq!(refused(Expiry::decode(&[0; 19], &[0; 8])), (0, false), "never");
    assert_eq!(refused(Expiry::decode(&[1; 18], &[0; 8])), (14, false), "another key's hash");
    assert_eq!(refused(Expiry::decode(&expiry, &[0; 7])), (19, false));
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
