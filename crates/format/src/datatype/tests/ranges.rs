//! What ranges hold, against what their members say of themselves.

use std::ops::Bound;

use super::super::field::MEMBER_BYTES_MAX;
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
    let mut keys = Vec::new();
    for (bytes, member) in &texts {
        let collection = random.collection();
        keys.push(random.key(bytes));
        for near in [0, 1, u64::MAX] {
            let generation = Generation(collection.generation.0.wrapping_add(near));
            let collection = CollectionId { generation, ..collection };
            fields.push(FieldKey { collection, field: random.field(member) });
            fields.push(FieldKey { collection, field: random.field(&[]) });
            purges.push(Purge::Collection { collection, tag: Tag::Set, count: 1 });
        }
        purges.push(Purge::Database(collection.database));
    }
    let field_keys: Vec<Vec<u8>> = fields.iter().map(|key| encoded(|out| key.encode(out))).collect();
    for FieldKey { collection, field } in &fields {
        let (database, slot, kind) = (collection.database, collection.slot, field.kind());
        let of_collection = bounds(|start, end| collection.range(start, end));
        let of_kind = bounds(|start, end| collection.kind_range(kind, start, end));
        let of_slot = bounds(|start, end| range::slot(database, slot, start, end));
        let of_database = bounds(|start, end| range::database(database, start, end));
        for (other, key) in fields.iter().zip(&field_keys) {
            let same_database = other.collection.database == database;
            let same_slot = same_database && other.collection.slot == slot;
            let same_collection = other.collection == *collection;
            assert_eq!(contains(&of_collection, key), same_collection, "{collection:?} {other:?}");
            assert_eq!(contains(&of_kind, key), same_collection && other.field.kind() == kind);
            assert_eq!(contains(&of_slot, key), same_slot, "{collection:?} {other:?}");
            assert_eq!(contains(&of_database, key), same_database, "{collection:?} {other:?}");
        }
        for other in &keys {
            let key = encoded(|out| other.encode(out));
            let same_database = other.database() == database;
            assert_eq!(contains(&of_slot, &key), same_database && other.slot() == slot, "{other:?}");
            assert_eq!(contains(&of_database, &key), same_database, "{other:?}");
        }
        for purge in &purges {
            let key = encoded(|out| purge.encode_key(out));
            let (its_database, its_slot) = match purge {
                Purge::Collection { collection, .. } => (collection.database, Some(collection.slot)),
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
                Purge::Database(database) => other.collection.database == *database,
            };
            assert_eq!(contains(&gone, key), expected, "{purge:?} {other:?}");
        }
    }
}

#[test]
fn ranges_of_scores_and_elements_are_those_of_numbers() {
    let mut random = Random::new(SEED + 5);
    let (member, collection) = (random.bytes(), random.collection());
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

/// A bound at `member`, or none.
fn bound(choice: usize, member: &[u8]) -> Bound<&[u8]> {
    match choice {
        0 => Bound::Included(member),
        1 => Bound::Excluded(member),
        _ => Bound::Unbounded,
    }
}

fn lies_between(member: &[u8], min: Bound<&[u8]>, max: Bound<&[u8]>) -> bool {
    let above = match min {
        Bound::Included(min) => member >= min,
        Bound::Excluded(min) => member > min,
        Bound::Unbounded => true,
    };
    let below = match max {
        Bound::Included(max) => member <= max,
        Bound::Excluded(max) => member < max,
        Bound::Unbounded => true,
    };
    above && below
}

#[test]
fn ranges_of_members_of_a_score_are_those_of_bytes() {
    let mut random = Random::new(SEED + 6);
    fn found_in(
        collection: &CollectionId,
        score: Score,
        min: Bound<&[u8]>,
        max: Bound<&[u8]>,
    ) -> (Vec<u8>, Vec<u8>) {
        bounds(|start, end| collection.lex_range(score, min, max, start, end))
    }
    let mut inside = 0;
    for _ in 0..20_000 {
        let (collection, score, other) = (random.collection(), random.score(), random.score());
        let (member, low, high) = (random.bytes(), random.bytes(), random.bytes());
        let (min, max) = (bound(random.below(3), &low), bound(random.below(3), &high));
        let found = found_in(&collection, score, min, max);
        for (field, same_score) in [
            (Field::ByScore(score, &member), true),
            (Field::ByScore(other, &member), other == score),
            (Field::ScoredMember(&member), false),
        ] {
            let key = encoded(|out| FieldKey { collection, field }.encode(out));
            let expected = same_score && lies_between(&member, min, max);
            assert_eq!(contains(&found, &key), expected, "{field:?} in {score:?} {min:?} {max:?}");
            inside += usize::from(expected);
        }
    }
    assert!((1_000..20_000).contains(&inside), "{inside}");
    // Bounds that are longer than members, which differ only where no member reaches.
    let collection = random.collection();
    let long = vec![b'm'; 2 * MEMBER_BYTES_MAX];
    for bytes in [MEMBER_BYTES_MAX - 1, MEMBER_BYTES_MAX] {
        let field = Field::ByScore(Score::ZERO, &long[..bytes]);
        let key = encoded(|out| FieldKey { collection, field }.encode(out));
        for (bound_bytes, choice) in [(bytes, 0), (bytes, 1), (bytes + 1, 0), (bytes + 1, 1), (long.len(), 0)]
        {
            let bound = bound(choice, &long[..bound_bytes]);
            let above = found_in(&collection, Score::ZERO, bound, Bound::Unbounded);
            let below = found_in(&collection, Score::ZERO, Bound::Unbounded, bound);
            let is_bound = bound_bytes == bytes && choice == 0;
            assert_eq!(contains(&above, &key), is_bound, "{bytes} {bound_bytes} {choice}");
            assert_eq!(contains(&below, &key), bound_bytes > bytes || is_bound, "{bytes} {bound_bytes}");
        }
    }
}

#[test]
fn ranges_from_a_hash_are_those_of_hashes() {
    let mut random = Random::new(SEED + 9);
    let mut inside = [0; 2];
    for _ in 0..20_000 {
        let (bytes, member, other) = (random.bytes(), random.bytes(), random.bytes());
        let near = random.one_of(&[hash_of(&bytes), hash_of(&member), hash_of(&other), 0, u32::MAX]);
        let hash = random.one_of(&[near, near.wrapping_add(1), near.wrapping_sub(1)]);
        let (key, database, slot) = (random.key(&bytes), random.database(), random.slot());
        let found = bounds(|start, end| range::keys_from(database, slot, hash, start, end));
        let expected = key.database() == database && (key.slot(), key.hash()) >= (slot, hash);
        assert_eq!(contains(&found, &encoded(|out| key.encode(out))), expected, "{key:?} {slot:?} {hash}");
        inside[0] += usize::from(expected);
        let (collection, later) = (random.collection(), random.collection());
        let kind = random.one_of(&[FieldKind::HashField, FieldKind::SetMember, FieldKind::ScoredMember]);
        let found = bounds(|start, end| collection.hash_range(kind, hash, start, end));
        for field in [Field::HashField(&member), Field::SetMember(&member), Field::ScoredMember(&member)] {
            let key = encoded(|out| FieldKey { collection, field }.encode(out));
            let expected = field.kind() == kind && hash_of(&member) >= hash;
            assert_eq!(contains(&found, &key), expected, "{field:?} in {kind:?} from {hash}");
            inside[1] += usize::from(expected);
            let key = encoded(|out| FieldKey { collection: later, field }.encode(out));
            assert!(later == collection || !contains(&found, &key), "another collection");
        }
        let field = random.field(&member);
        let key = encoded(|out| FieldKey { collection, field }.encode(out));
        assert!(field.kind() == kind || !contains(&found, &key), "another kind");
    }
    assert!(inside.iter().all(|count| (500..19_500).contains(count)), "{inside:?}");
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
