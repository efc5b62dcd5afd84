use super::*;
use crate::key::{Entry, Kind, Sequence, Trailer};
use crate::table::tests::{Owned, Random, random_entries};

fn encode(entries: &[Owned]) -> Vec<u8> {
    let (mut builder, mut out) = (DataBlockBuilder::default(), Vec::new());
    for entry in entries {
        builder.add(&entry.entry(), &mut out).unwrap();
    }
    let expected = builder.payload_bytes();
    builder.finish(&mut out);
    assert_eq!(out.len(), expected);
    out
}

fn expected_find(entries: &[Owned], key: &[u8], before: Sequence) -> Option<Option<usize>> {
    let index = entries
        .iter()
        .position(|entry| entry.key[..] > *key || (entry.key == key && entry.sequence < before));
    index.map(|index| Some(index).filter(|index| entries[*index].key == key))
}

#[test]
fn finds_what_a_naive_search_finds() {
    for seed in 0..150 {
        let mut random = Random(seed);
        let count = 1 + random.below(80) as usize;
        let entries = random_entries(&mut random, count);
        let payload = encode(&entries);
        let block = DataBlock::new(&payload).unwrap();
        for probe in 0..200 {
            let (key, before) = match probe % 2 {
                0 => {
                    let entry = &entries[random.below(entries.len() as u64) as usize];
                    (entry.key.clone(), Sequence(entry.sequence.0 + random.below(3)))
                }
                _ => (random.key(), Sequence(random.below(40))),
            };
            let found = block.find(&key, before).unwrap();
            match expected_find(&entries, &key, before) {
                None => assert_eq!(found, Find::Beyond, "seed {seed}"),
                Some(None) => assert_eq!(found, Find::Absent, "seed {seed}"),
                Some(Some(index)) => {
                    let Find::Found { trailer, expires_at_ms, value } = found else {
                        panic!("seed {seed} {found:?}")
                    };
                    let entry = &entries[index];
                    assert_eq!(
                        (trailer.sequence(), trailer.kind()),
                        (entry.sequence, Some(entry.kind)),
                        "seed {seed}"
                    );
                    assert_eq!(
                        (expires_at_ms, &payload[value]),
                        (entry.expires_at_ms, &entry.value[..]),
                        "seed {seed}"
                    );
                }
            }
        }
    }
}

#[test]
fn walks_like_an_array() {
    for seed in 0..100 {
        let mut random = Random(seed);
        let count = 1 + random.below(60) as usize;
        let entries = random_entries(&mut random, count);
        let payload = encode(&entries);
        let block = DataBlock::new(&payload).unwrap();
        let mut walker = Walker::default();
        let mut at: Option<usize> = None;
        for _ in 0..300 {
            let key = random.key();
            match random.below(12) {
                0 => (walker.seek_first(&block).unwrap(), at = Some(0)).0,
                1 => (walker.seek_last(&block).unwrap(), at = entries.len().checked_sub(1)).0,
                2 => {
                    walker.seek(&block, &key).unwrap();
                    at = entries.iter().position(|entry| entry.key >= key);
                }
                3 => {
                    walker.seek_before(&block, &key).unwrap();
                    at = entries.iter().rposition(|entry| entry.key < key);
                }
                4..8 => {
                    walker.next(&block).unwrap();
                    at = at.and_then(|at| (at + 1 < entries.len()).then_some(at + 1));
                }
                _ => {
                    walker.prev(&block).unwrap();
                    at = at.and_then(|at| at.checked_sub(1));
                }
            }
            assert_eq!(walker.entry(&payload), at.map(|at| entries[at].entry()), "seed {seed}");
        }
    }
}

#[test]
fn refuses_disorder_and_foreign_kinds() {
    let entry = |key, sequence, kind| Entry {
        key,
        sequence: Sequence(sequence),
        kind,
        expires_at_ms: 0,
        value: b"v",
    };
    let first = entry(b"m", 5, Kind::Put);
    for bad in [
        entry(b"m", 5, Kind::Put),
        entry(b"m", 6, Kind::Put),
        entry(b"l", 1, Kind::Put),
        entry(b"", 1, Kind::Put),
        entry(b"n", 1, Kind::DeleteRange),
        entry(b"n", 1 << 60, Kind::Put),
    ] {
        let (mut builder, mut out) = (DataBlockBuilder::default(), Vec::new());
        builder.add(&first, &mut out).unwrap();
        let before = (builder.payload_bytes(), out.clone());
        assert!(builder.add(&bad, &mut out).is_err(), "{bad:?}");
        assert_eq!((builder.payload_bytes(), out.clone()), before);
        assert_eq!(builder.add(&entry(b"m", 4, Kind::Delete), &mut out), Ok(Added { same_key: true }));
        assert_eq!(builder.add(&entry(b"ma", 9, Kind::Merge), &mut out), Ok(Added { same_key: false }));
    }
    let long = vec![0; KEY_BYTES_MAX + 1];
    assert!(DataBlockBuilder::default().add(&entry(&long, 1, Kind::Put), &mut Vec::new()).is_err());
}

#[test]
fn arbitrary_bytes_never_panic() {
    for seed in 0..3_000 {
        let mut random = Random(seed);
        let count = 1 + random.below(40) as usize;
        let mut payload = encode(&random_entries(&mut random, count));
        for _ in 0..1 + random.below(6) {
            let at = match random.below(2) {
                0 => payload.len() - 1 - random.below(payload.len().min(40) as u64) as usize,
                _ => random.below(payload.len() as u64) as usize,
            };
            payload[at] = random.next() as u8;
        }
        let Ok(block) = DataBlock::new(&payload) else { continue };
        let _ = block.find(&random.key(), Sequence(random.below(40)));
        let mut walker = Walker::default();
        let _ = walker.seek_first(&block);
        for step in 0..100 {
            let key = random.key();
            let _ = match step % 5 {
                0 => walker.seek(&block, &key),
                1 => walker.seek_before(&block, &key),
                2 => walker.seek_last(&block),
                3 => walker.next(&block),
                _ => walker.prev(&block),
            };
            let _ = walker.entry(&payload);
        }
    }
}

#[test]
fn sequences_of_every_length_come_back() {
    let mut sequences: Vec<u64> = (0..56).flat_map(|bits| [(1 << bits) - 1, 1 << bits]).collect();
    sequences.push(Sequence::MAX.0);
    let kinds = [Kind::Put, Kind::Delete, Kind::Merge, Kind::PutReference];
    for expires_at_ms in [0, 1 << 40] {
        let entries: Vec<Owned> = sequences
            .iter()
            .enumerate()
            .map(|(index, sequence)| Owned {
                key: format!("{index:03}").into_bytes(),
                sequence: Sequence(*sequence),
                kind: kinds[index % 4],
                expires_at_ms,
                value: Vec::new(),
            })
            .collect();
        let payload = encode(&entries);
        let block = DataBlock::new(&payload).unwrap();
        let mut walker = Walker::default();
        walker.seek_first(&block).unwrap();
        for entry in &entries {
            assert_eq!(walker.entry(&payload), Some(entry.entry()));
            walker.next(&block).unwrap();
            let before = Sequence(entry.sequence.0 + 1);
            let found = block.find(&entry.key, before).unwrap();
            let trailer = Trailer::new(entry.sequence, entry.kind);
            assert!(matches!(found, Find::Found { trailer: found, .. } if found == trailer), "{found:?}");
        }
        assert!(!walker.is_positioned());
    }
}

#[test]
fn a_trailer_takes_no_more_bytes_than_its_sequence_has() {
    let bytes = |sequence| {
        let entry = Owned {
            key: vec![],
            sequence: Sequence(sequence),
            kind: Kind::Put,
            expires_at_ms: 0,
            value: vec![],
        };
        // Three numbers, a restart and the tail.
        encode(&[entry]).len() - 3 - 16
    };
    let lengths = [0, 255, 256, (1 << 48) - 1, 1 << 48, Sequence::MAX.0].map(bytes);
    assert_eq!(lengths, [1, 2, 3, 7, 8, 8]);
}

#[test]
fn common_bytes_counts_to_the_first_difference() {
    let base = b"0123456789abcdefghij";
    for length in 0..=base.len() {
        for at in 0..length {
            let mut other = base[..length].to_vec();
            other[at] ^= 0x80;
            assert_eq!(common_bytes(base, &other), at);
            assert_eq!(common_bytes(&other, base), at);
        }
        assert_eq!(common_bytes(base, &base[..length]), length);
    }
}
