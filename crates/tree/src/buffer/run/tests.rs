//! Runs against a list of versions, and the list itself, which the tests of merges use too.

use std::cmp::Reverse;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use firn_engine::PrefixExtractor;
use firn_format::filter::filter_hash;
use firn_format::key::{Kind, Trailer};
use firn_format::log::{Record, record_bytes};
use firn_format::tombstone::{FragmentList, Span};
use firn_format::{Position, Sequence};
use firn_jobs::Cursor;

use super::{Filtering, FrozenEntries, Run};
use crate::buffer::entry::{RunEntry, prefix_word};
use crate::records::Records;

/// A record that lies at `sequence`.
#[derive(Clone, Debug)]
pub(in crate::buffer) struct Version {
    pub(in crate::buffer) sequence: Sequence,
    pub(in crate::buffer) kind: Kind,
    pub(in crate::buffer) expires_at_ms: u64,
    pub(in crate::buffer) key: Vec<u8>,
    pub(in crate::buffer) value: Vec<u8>,
}

impl Version {
    pub(in crate::buffer) fn bytes(&self) -> u64 {
        record_bytes(self.key.len(), self.value.len(), self.expires_at_ms != 0) as u64
    }
}

/// All records of a test, the oldest first, with sequences 3, 6, 9 and so on.
#[derive(Clone, Debug, Default)]
pub(in crate::buffer) struct Ledger {
    pub(in crate::buffer) versions: Vec<Version>,
    /// Sequences whose records were lost.
    pub(in crate::buffer) lost: Vec<Sequence>,
}

impl Records for Ledger {
    fn record(&self, position: Position) -> Option<Record<'_>> {
        let sequence = position.sequence();
        let version = self.versions.get((sequence.0 / 3).checked_sub(1)? as usize)?;
        assert_eq!(version.sequence, sequence, "no record begins there");
        (!self.lost.contains(&sequence)).then(|| Record {
            keyspace: 1,
            kind: version.kind,
            expires_at_ms: version.expires_at_ms,
            key: &version.key,
            value: &version.value,
        })
    }
}

/// "" to ":" at most.
#[derive(Debug)]
pub(in crate::buffer) struct UpToColon;

impl PrefixExtractor for UpToColon {
    fn name(&self) -> &str {
        "test.colon"
    }

    fn prefix_bytes(&self, key: &[u8]) -> Option<usize> {
        key.iter().position(|byte| *byte == b':').map(|at| at + 1)
    }
}

pub(in crate::buffer) fn filtering() -> Filtering {
    Filtering { bits_per_key: 10, extractor: None }
}

impl Ledger {
    pub(in crate::buffer) fn push(&mut self, kind: Kind, key: &[u8], value: &[u8]) -> Sequence {
        let sequence = Sequence(3 * (self.versions.len() as u64 + 1));
        let expires_at_ms = if sequence.0.is_multiple_of(7) { sequence.0 } else { 0 };
        self.versions.push(Version {
            sequence,
            kind,
            expires_at_ms,
            key: key.to_vec(),
            value: value.to_vec(),
        });
        sequence
    }

    /// `count` records over few keys of one of several shapes.
    pub(in crate::buffer) fn random(random: &mut fastrand::Rng, count: usize) -> Self {
        let mut ledger = Self::default();
        let shape = random.u8(..5);
        let keys = 1 + random.usize(..2 * count.max(1));
        for _ in 0..count {
            let key = key(shape, random.usize(..keys));
            let kind = match random.u8(..20) {
                0..10 => Kind::Put,
                10..13 => Kind::Delete,
                13..19 => Kind::Merge,
                _ => Kind::DeleteRange,
            };
            let mut value: Vec<u8> = (0..random.usize(..20)).map(|_| random.u8(..)).collect();
            if kind == Kind::DeleteRange {
                value = self::key(shape, random.usize(..keys));
            }
            ledger.push(kind, &key, &value);
        }
        ledger
    }

    /// The versions of `range`, by key and of one key newest first.
    pub(in crate::buffer) fn sorted(&self, range: std::ops::Range<usize>) -> Vec<&Version> {
        let mut versions: Vec<&Version> =
            self.versions[range].iter().filter(|version| version.kind != Kind::DeleteRange).collect();
        versions.sort_by(|a, b| (&a.key, Reverse(a.sequence)).cmp(&(&b.key, Reverse(b.sequence))));
        versions
    }

    /// What a memtable that took the versions of `range` leaves, having learnt `common`.
    pub(in crate::buffer) fn frozen(&self, range: std::ops::Range<usize>, common: &[u8]) -> FrozenEntries {
        let versions = self.sorted(range.clone());
        let entry = |version: &&Version| RunEntry {
            prefix: prefix_word(&version.key, common),
            trailer: Trailer::new(version.sequence, version.kind),
        };
        let deleted = self.versions[range.clone()].iter().filter(|version| version.kind == Kind::DeleteRange);
        let spans = deleted.map(|version| Span {
            start: &version.key,
            end: &version.value,
            sequence: version.sequence,
        });
        FrozenEntries {
            common: common.to_vec(),
            entries: versions.iter().map(entry).collect(),
            hashes: versions.iter().map(|version| filter_hash(&version.key)).collect(),
            tombstones: Arc::new(FragmentList::from_spans(spans)),
            span: Sequence(3 * range.start as u64).position()..Sequence(3 * range.end as u64 + 1).position(),
            live_bytes: self.versions[range].iter().map(Version::bytes).sum(),
        }
    }

    pub(in crate::buffer) fn run(&self, range: std::ops::Range<usize>, common: &[u8]) -> Arc<Run> {
        Arc::new(Run::build(self.frozen(range, common), &filtering(), self).unwrap())
    }

    /// Keys that occur, their neighbours, and some far away.
    pub(in crate::buffer) fn probes(&self) -> Vec<Vec<u8>> {
        let mut probes = vec![vec![], vec![0], vec![0xff; 40], b"shared/".to_vec(), b"shared0".to_vec()];
        for version in &self.versions {
            let key = &version.key;
            probes.extend([key.clone(), [key.as_slice(), &[0]].concat(), key[..key.len() / 2].to_vec()]);
        }
        probes.sort();
        probes.dedup();
        probes
    }
}

/// Key `number` of a shape.
fn key(shape: u8, number: usize) -> Vec<u8> {
    match shape {
        // Few bytes, zeros among them, the empty key.
        0 => format!("{number:b}").bytes().map(|digit| digit - b'0').skip(1).collect(),
        1 => format!("shared/prefix/of/all/{number:06}").into_bytes(),
        // Equal in their first 8 bytes after the common prefix, then long.
        2 => format!("shared/{}:{}-{number:04}-{}", number % 3, "x".repeat(20), "y".repeat(30)).into_bytes(),
        3 => (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes().to_vec(),
        _ => format!("{}:{number}", number % 7).into_bytes(),
    }
}

/// A prefix a memtable may have learnt: right, too short, too long, wrong.
pub(in crate::buffer) fn learnt(random: &mut fastrand::Rng, ledger: &Ledger) -> Vec<u8> {
    let Some(version) = random.choice(&ledger.versions) else { return Vec::new() };
    let key = &version.key;
    match random.u8(..4) {
        0 => Vec::new(),
        1 => key.iter().copied().take(7).collect(),
        2 => b"shared/zzz".to_vec(),
        _ => key[..random.usize(..=key.len())].to_vec(),
    }
}

type Seen = (Vec<u8>, Sequence, Kind, u64, Vec<u8>);

pub(in crate::buffer) fn seen(version: &Version) -> Seen {
    let Version { sequence, kind, expires_at_ms, key, value } = version.clone();
    (key, sequence, kind, expires_at_ms, value)
}

pub(in crate::buffer) fn standing(cursor: &impl Cursor) -> Option<Seen> {
    cursor.entry().map(|entry| {
        (entry.key.to_vec(), entry.sequence, entry.kind, entry.expires_at_ms, entry.value.to_vec())
    })
}

/// Holds `run` against `versions` (sorted), for points, both directions and every kind of seek.
pub(in crate::buffer) fn check_run(run: &Arc<Run>, versions: &[&Version], ledger: &Ledger, before: Sequence) {
    let visible: Vec<&Version> =
        versions.iter().copied().filter(|version| version.sequence < before).collect();
    for key in ledger.probes() {
        let expected = visible.iter().find(|version| version.key == key);
        let found = run.newest(filter_hash(&key), &key, before, ledger);
        let expected_trailer = expected.map(|version| Trailer::new(version.sequence, version.kind));
        assert_eq!(found.map(|(trailer, _)| trailer), expected_trailer, "{key:?} before {before}");
        assert_eq!(found.map(|(_, record)| record.value), expected.map(|version| version.value.as_slice()));
        assert!(expected.is_none() || run.may_contain(filter_hash(&key)));

        let mut cursor = run.cursor(before, ledger);
        assert_eq!(standing(&cursor), None);
        let start = visible.partition_point(|version| version.key < key);
        cursor.seek(&key).unwrap();
        assert_eq!(standing(&cursor), visible.get(start).copied().map(seen), "seek {key:?} before {before}");
        cursor.prev().unwrap();
        let previous = start.checked_sub(1).map(|index| seen(visible[index]));
        let expected = if start == visible.len() { None } else { previous.clone() };
        assert_eq!(standing(&cursor), expected, "prev from {key:?}");
        cursor.seek_before(&key).unwrap();
        assert_eq!(standing(&cursor), previous, "seek_before {key:?} before {before}");
        cursor.next().unwrap();
        let expected = if start == 0 { None } else { visible.get(start).copied().map(seen) };
        assert_eq!(standing(&cursor), expected, "next from {key:?}");
    }
    let expected: Vec<Seen> = visible.into_iter().map(seen).collect();
    let mut cursor = run.cursor(before, ledger);
    cursor.seek_first().unwrap();
    let mut forward = Vec::new();
    while let Some(entry) = standing(&cursor) {
        forward.push(entry);
        cursor.next().unwrap();
    }
    assert_eq!(forward, expected);
    cursor.seek_last().unwrap();
    let mut backward = Vec::new();
    while let Some(entry) = standing(&cursor) {
        backward.push(entry);
        cursor.prev().unwrap();
    }
    backward.reverse();
    assert_eq!(backward, expected);
}

#[test]
fn a_run_answers_like_a_list() {
    for seed in 0..150 {
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let count = if seed < 10 { seed as usize } else { random.usize(..250) };
        let ledger = Ledger::random(&mut random, count);
        let run = ledger.run(0..count, &learnt(&mut random, &ledger));
        let versions = ledger.sorted(0..count);
        for before in [Sequence(0), Sequence(random.u64(..3 * count as u64 + 4)), Sequence::MAX] {
            check_run(&run, &versions, &ledger, before);
        }
        for key in ledger.probes() {
            let deleted = ledger.versions.iter().filter(|version| version.kind == Kind::DeleteRange);
            let over = deleted.filter(|version| version.key <= key && key < version.value);
            let newest = over.map(|version| version.sequence).max();
            assert_eq!(run.newest_covering_range_delete(&key, Sequence::MAX), newest);
        }
        assert_eq!(run.len(), versions.len());
        assert_eq!(run.live_bytes(), ledger.versions.iter().map(Version::bytes).sum());
        let keys = versions.first().zip(versions.last());
        assert_eq!(run.keys(), keys.map(|(first, last)| (first.key.as_slice(), last.key.as_slice())));
    }
}

#[test]
fn an_empty_run_holds_nothing() {
    let ledger = Ledger::default();
    let run = ledger.run(0..0, b"");
    check_run(&run, &[], &ledger, Sequence::MAX);
    assert!(run.is_empty() && !run.may_contain(0) && !run.may_contain_prefix(0));
    assert_eq!((run.len(), run.keys(), run.sequence_range(), run.level()), (0, None, None, 0));
}

#[test]
fn one_entry_is_found_and_its_neighbours_are_not() {
    let mut ledger = Ledger::default();
    let sequence = ledger.push(Kind::Put, b"a key of some length", b"value");
    let run = ledger.run(0..1, b"");
    check_run(&run, &ledger.sorted(0..1), &ledger, Sequence::MAX);
    check_run(&run, &ledger.sorted(0..1), &ledger, sequence);
    assert_eq!(run.sequence_range(), Some((sequence, sequence)));
    assert_eq!(run.common, b"a key of some length");
}

#[test]
fn a_key_with_thousands_of_versions_is_halved_not_walked() {
    let mut ledger = Ledger::default();
    for number in 0..5_000_u32 {
        let key = if number % 5 == 0 { b"commonplace-b".as_slice() } else { b"commonplace-a" };
        ledger.push(Kind::Put, key, &number.to_le_bytes());
    }
    ledger.push(Kind::Put, b"c", b"");
    let run = ledger.run(0..5_001, b"");
    let versions = ledger.sorted(0..5_001);
    for before in (0..15_010).step_by(613).map(Sequence) {
        for key in [b"commonplace-a".as_slice(), b"commonplace-b", b"commonplace-", b"commonplace-c", b"c"] {
            let expected = versions.iter().find(|version| version.key == key && version.sequence < before);
            let found = run.newest(filter_hash(key), key, before, &ledger);
            assert_eq!(
                found.map(|(trailer, _)| trailer.sequence()),
                expected.map(|version| version.sequence)
            );
        }
    }
}

#[test]
fn prefixes_are_filtered_where_there_is_an_extractor() {
    let mut ledger = Ledger::default();
    for number in 0..2_000 {
        ledger.push(Kind::Put, format!("group{}:{number}", number % 50).as_bytes(), b"");
        ledger.push(Kind::Put, format!("without {number}").as_bytes(), b"");
    }
    let filtering = Filtering { extractor: Some(Arc::new(UpToColon)), ..filtering() };
    let run = Run::build(ledger.frozen(0..4_000, b""), &filtering, &ledger).unwrap();
    assert_eq!(run.prefixes.hashes.len(), 50);
    assert!((0..50).all(|group| run.may_contain_prefix(filter_hash(format!("group{group}:").as_bytes()))));
    let wrong =
        (50..1_050).filter(|group| run.may_contain_prefix(filter_hash(format!("group{group}:").as_bytes())));
    assert!(wrong.count() < 50);
    let unfiltered = ledger.run(0..4_000, b"");
    assert!(unfiltered.may_contain_prefix(filter_hash(b"group51:")));
}

#[test]
fn a_lost_record_is_an_error_not_an_answer() {
    let mut ledger = Ledger::default();
    for key in [b"a", b"b", b"c"] {
        ledger.push(Kind::Put, key, b"value");
    }
    let run = ledger.run(0..3, b"");
    ledger.lost.push(Sequence(6));
    let mut cursor = run.cursor(Sequence::MAX, &ledger);
    cursor.seek_first().unwrap();
    assert!(cursor.next().unwrap_err().message.contains("48"));
    assert_eq!(standing(&cursor), None);
    assert!(cursor.seek(b"b").is_err());
    let read = || run.newest(filter_hash(b"b"), b"b", Sequence::MAX, &ledger).is_some();
    assert!(catch_unwind(AssertUnwindSafe(read)).is_err());
    assert!(Run::build(ledger.frozen(0..2, b""), &filtering(), &ledger).is_err());
}

#[test]
fn a_million_entries_are_all_found() {
    let mut ledger = Ledger::default();
    for number in 0..1_000_000_u64 {
        ledger.push(Kind::Put, &number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes(), b"");
    }
    let run = ledger.run(0..1_000_000, b"");
    for version in &ledger.versions {
        let found = run.newest(filter_hash(&version.key), &version.key, Sequence::MAX, &ledger);
        assert_eq!(found.map(|(trailer, _)| trailer.sequence()), Some(version.sequence));
    }
    let per_entry = run.memory_bytes() as f64 / 1e6;
    assert!(per_entry < 22.5, "{per_entry} bytes an entry");
}
