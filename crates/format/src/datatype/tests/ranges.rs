//! What ranges hold, against what their members say of themselves.

use std::ops::Bound;

use super::super::key::USER_KEY_BYTES_MAX;
use super::super::*;
use super::{Random, SEED, encoded};
use crate::log::KEY_BYTES_MAX;

/// Start and end of a range, which must not depend on what is there already.
fn bounds(range: impl Fn(&mut Vec<u8>, &mut Vec<u8>)) -> (Vec<u8>, Vec<u8>) {
    let (mut start, mut end) = (Vec::new(), Vec::new());
    range(&mut start, &mut end);
    let (mut start_behind, mut end_behind) = (vec![0xff; 3], vec![0xff; 9]);
    range(&mut start_behind, &mut end_behind);
    assert_eq!((&start_behind[3..], &end_behind[9..]), (&start[..], &end[..]));
    assert!(start.len() <= KEY_BYTES_MAX && end.len() <= KEY_BYTES_MAX, "{} {}", start.len(), end.len());
    (start, end)
}

fn contains((start, end): &(Vec<u8>, Vec<u8>), key: &[u8]) -> bool {
    &start[..] <= key && key < &end[..]
}

#[test]
fn expiries_order_by_time_and_due_ones_are_a_range() {
    let mut random = Random::new(SEED + 3);
    let bytes = random.bytes();
    let times = [1, 255, 256, 1 << 40, u64::MAX - 1, u64::MAX];
    for time in times {
        let now = bounds(|start, end| range::due(time, start, end));
        for expires_at_ms in times {
            let expiry = Expiry { expires_at_ms, key: random.key(&bytes), generation: Generation(1) };
            let is_due = contains(&now, &encoded(|out| expiry.encode_key(out)));
            // The last of all times is never past.
            assert_eq!(
                is_due,
                expires_at_ms <= time && expires_at_ms != u64::MAX,
                "{expires_at_ms} at {time}"
            );
        }
    }
}

/// No field of one collection lies in the range of another one, of another kind, slot or database.
#[test]
fn ranges_hold_their_own_and_nothing_else() {
    let mut random = Random::new(SEED + 4);
    let texts: Vec<(Vec<u8>, Vec<u8>)> = (0..150).map(|_| (random.bytes(), random.bytes())).collect();
    let mut fields = Vec::new();
    let mut purges = Vec::new();
    for (bytes, member) in &texts {
        let collection = random.collection(bytes);
        for near in [0, 1, u64::MAX] {
            let generation = Generation(collection.generation.0.wrapping_add(near));
            let collection = CollectionId { generation, ..collection };
            fields.push(FieldKey { collection, field: random.field(member) });
            fields.push(FieldKey { collection, field: random.field(&[]) });
            purges.push(Purge::Collection { collection, tag: Tag::Set, count: 1 });
        }
        purges.push(Purge::Database(collection.key.database()));
    }
    let field_keys: Vec<Vec<u8>> = fields.iter().map(|key| encoded(|out| key.encode(out))).collect();
    for FieldKey { collection, field } in &fields {
        let (database, slot, kind) = (collection.key.database(), collection.key.slot(), field.kind());
        let of_collection = bounds(|start, end| collection.range(start, end));
        let of_kind = bounds(|start, end| collection.kind_range(kind, start, end));
        let of_slot = bounds(|start, end| range::slot(database, slot, start, end));
        let of_database = bounds(|start, end| range::database(database, start, end));
        for (other, key) in fields.iter().zip(&field_keys) {
            let user_key = encoded(|out| other.collection.key.encode(out));
            let same_database = other.collection.key.database() == database;
            let same_slot = same_database && other.collection.key.slot() == slot;
            let same_collection = other.collection == *collection;
            assert_eq!(contains(&of_collection, key), same_collection, "{collection:?} {other:?}");
            assert_eq!(contains(&of_kind, key), same_collection && other.field.kind() == kind);
            for key in [key, &user_key] {
                assert_eq!(contains(&of_slot, key), same_slot, "{collection:?} {other:?}");
                assert_eq!(contains(&of_database, key), same_database, "{collection:?} {other:?}");
            }
        }
        for purge in &purges {
            let key = encoded(|out| purge.encode_key(out));
            let (its_database, its_slot) = match purge {
                Purge::Collection { collection, .. } => {
                    (collection.key.database(), Some(collection.key.slot()))
                }
                Purge::Database(database) => (*database, None),
            };
            assert_eq!(contains(&of_database, &key), its_database == database);
            assert_eq!(contains(&of_slot, &key), its_database == database && its_slot == Some(slot));
        }
    }
    for purge in &purges {
        let gone = bounds(|start, end| purge.range(start, end));
        for (other, key) in fields.iter().zip(&field_keys) {
            let expected = match purge {
                Purge::Collection { collection, .. } => other.collection == *collection,
                Purge::Database(database) => other.collection.key.database() == *database,
            };
            assert_eq!(contains(&gone, key), expected, "{purge:?} {other:?}");
        }
    }
}

#[test]
fn ranges_of_scores_and_elements_are_those_of_numbers() {
    let mut random = Random::new(SEED + 5);
    let (bytes, member) = (random.bytes(), random.bytes());
    let collection = random.collection(&bytes);
    for _ in 0..20_000 {
        let (score, low, high) = (random.score(), random.score(), random.score());
        let bound = |choice: usize, score: Score| match choice {
            0 => Bound::Included(score),
            1 => Bound::Excluded(score),
            _ => Bound::Unbounded,
        };
        let (min, max) = (bound(random.below(3), low), bound(random.below(3), high));
        let found = bounds(|start, end| collection.score_range(min, max, start, end));
        let key = FieldKey {
            collection,
            field: Field::ByScore(score, random.one_of(&[&member[..], &[0xff; 9], &[]])),
        };
        let above = match min {
            Bound::Included(min) => score.get() >= min.get(),
            Bound::Excluded(min) => score.get() > min.get(),
            Bound::Unbounded => true,
        };
        let below = match max {
            Bound::Included(max) => score.get() <= max.get(),
            Bound::Excluded(max) => score.get() < max.get(),
            Bound::Unbounded => true,
        };
        assert_eq!(
            contains(&found, &encoded(|out| key.encode(out))),
            above && below,
            "{score:?} {min:?} {max:?}"
        );
        let by_name = FieldKey { field: Field::ScoredMember(&member), ..key };
        assert!(!contains(&found, &encoded(|out| by_name.encode(out))), "another kind");
        let (from, to, index) = (random.number(), random.number(), random.number());
        let found = bounds(|start, end| collection.element_range(from..to, start, end));
        let key = FieldKey { collection, field: Field::ListElement(index) };
        assert_eq!(contains(&found, &encoded(|out| key.encode(out))), (from..to).contains(&index));
    }
}

#[test]
fn ranges_of_members_are_those_of_bytes() {
    let mut random = Random::new(SEED + 6);
    // So long a key that members have at most three bytes: many bounds are longer.
    let long = vec![b'k'; USER_KEY_BYTES_MAX - 3];
    for round in 0..6_000 {
        let short = random.bytes();
        let collection = random.collection(if round % 8 == 0 { &long } else { &short });
        let (mut member, low, high) = (random.bytes(), random.bytes(), random.bytes());
        member.truncate(USER_KEY_BYTES_MAX - collection.key.bytes().len());
        let kinds = [FieldKind::HashField, FieldKind::SetMember, FieldKind::ScoredMember];
        let kind = random.one_of(&kinds);
        fn bound(choice: usize, member: &[u8]) -> Bound<&[u8]> {
            match choice {
                0 => Bound::Included(member),
                1 => Bound::Excluded(member),
                _ => Bound::Unbounded,
            }
        }
        let (min, max) = (bound(random.below(3), &low), bound(random.below(3), &high));
        let found = bounds(|start, end| collection.member_range(kind, min, max, start, end));
        let above = match min {
            Bound::Included(min) => &member[..] >= min,
            Bound::Excluded(min) => &member[..] > min,
            Bound::Unbounded => true,
        };
        let below = match max {
            Bound::Included(max) => &member[..] <= max,
            Bound::Excluded(max) => &member[..] < max,
            Bound::Unbounded => true,
        };
        let fields = [Field::HashField(&member), Field::SetMember(&member), Field::ScoredMember(&member)];
        for field in fields {
            let key = encoded(|out| FieldKey { collection, field }.encode(out));
            let expected = above && below && field.kind() == kind;
            assert_eq!(contains(&found, &key), expected, "{field:?} {kind:?} {min:?} {max:?}");
        }
    }
}

#[test]
fn ranges_of_the_catalog() {
    let mut random = Random::new(SEED + 7);
    for _ in 0..5_000 {
        let (name, text) = (random.bytes(), random.bytes());
        let record = random.catalog(&name, &text);
        let key = encoded(|out| record.encode_key(out));
        for kind in (0..=u8::MAX).filter_map(CatalogKind::from_u8) {
            let of_kind = bounds(|start, end| range::catalog(kind, start, end));
            assert_eq!(contains(&of_kind, &key), record.kind() == kind, "{record:?} {kind:?}");
        }
        let (database, slot) = (random.database(), random.slot());
        let all = bounds(|start, end| range::buckets(database, None, start, end));
        let of_slot = bounds(|start, end| range::buckets(database, Some(slot), start, end));
        let CatalogRecord::Bucket { database: its_database, bucket } = record else {
            assert!(!contains(&all, &key), "{record:?}");
            continue;
        };
        let its_slot = bucket.number() / 64;
        assert_eq!(contains(&all, &key), its_database == database);
        let expected = its_database == database && its_slot == u32::from(slot.number());
        assert_eq!(contains(&of_slot, &key), expected, "{record:?} {slot:?}");
    }
}
