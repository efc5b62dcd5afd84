use super::block::{Checked, check};
use super::data::{DataBlock, Find, Walker};
use super::index::Index;
use super::*;
use crate::compression::{Compression, decompress};
use crate::key::{Entry, Kind, Sequence};
use crate::tombstone::{FragmentList, Span};

/// Deterministic numbers for tests (SplitMix64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ word >> 31
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// Short keys over few letters: many repeat, many are prefixes of others.
    pub(crate) fn key(&mut self) -> Vec<u8> {
        let bytes = self.below(14) as usize;
        (0..bytes).map(|_| b"aab\x00"[self.below(4) as usize]).collect()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owned {
    pub(crate) key: Vec<u8>,
    pub(crate) sequence: Sequence,
    pub(crate) kind: Kind,
    pub(crate) expires_at_ms: u64,
    pub(crate) value: Vec<u8>,
}

impl Owned {
    pub(crate) fn entry(&self) -> Entry<'_> {
        let Self { key, sequence, kind, expires_at_ms, value } = self;
        Entry { key, sequence: *sequence, kind: *kind, expires_at_ms: *expires_at_ms, value }
    }
}

/// Up to `count` entries in order.
pub(crate) fn random_entries(random: &mut Random, count: usize) -> Vec<Owned> {
    let mut entries: Vec<Owned> = (0..count)
        .map(|_| {
            let kind = [Kind::Put, Kind::Put, Kind::Delete, Kind::Merge][random.below(4) as usize];
            let bytes = [0, 3, 130, 700][random.below(4) as usize];
            Owned {
                key: random.key(),
                sequence: Sequence(random.below(40)),
                kind,
                expires_at_ms: random.below(3) * random.below(1 << 40),
                value: if kind == Kind::Delete { Vec::new() } else { vec![random.next() as u8; bytes] },
            }
        })
        .collect();
    entries.sort_by(|a, b| a.key.cmp(&b.key).then(b.sequence.cmp(&a.sequence)));
    entries.dedup_by(|a, b| a.key == b.key && a.sequence == b.sequence);
    entries
}

pub(crate) fn tombstones() -> FragmentList {
    let span = |start, end, sequence| Span { start, end, sequence: Sequence(sequence) };
    FragmentList::from_spans([span(b"aa", b"ab", 12), span(b"a", b"b", 7)])
}

fn form(random: &mut Random) -> TableForm {
    TableForm {
        block_bytes: [64, 300, 4096][random.below(3) as usize],
        compression: [Compression::None, Compression::Lz4, Compression::Zstd][random.below(3) as usize],
        filter_bits_per_key: [0, 10][random.below(2) as usize],
        prefix: (random.below(2) == 0).then(|| {
            let prefix: PrefixBytes = std::sync::Arc::new(|key: &[u8]| (key.len() >= 2).then_some(2));
            ("fixed.1:2".to_owned(), prefix)
        }),
    }
}

pub(crate) fn encode(form: TableForm, entries: &[Owned], list: &FragmentList) -> (Vec<u8>, Finished) {
    let mut encoder = TableEncoder::new(form);
    let mut file = Vec::new();
    for (number, entry) in entries.iter().enumerate() {
        encoder.add(&entry.entry()).unwrap();
        if number % 7 == 0 {
            let bytes = encoder.completed().len() * (number % 3) / 2;
            file.extend_from_slice(&encoder.completed()[..bytes]);
            encoder.release(bytes);
        }
    }
    encoder.add_tombstones(list);
    let finished = encoder.finish().unwrap();
    file.extend_from_slice(encoder.completed());
    (file, finished)
}

fn payload(file: &[u8], handle: Handle) -> Vec<u8> {
    let bytes = &file[handle.offset as usize..(handle.offset + handle.bytes) as usize];
    match check(bytes).unwrap() {
        Checked::Raw(payload) => payload.to_vec(),
        Checked::Compressed { codec, stored, raw_bytes } => {
            let mut out = Vec::new();
            decompress(codec, stored, raw_bytes, &mut out).unwrap();
            out
        }
    }
}

fn open(file: &[u8]) -> (Footer, Index, Properties) {
    let footer = Footer::decode(&file[file.len() - FOOTER_BYTES..], file.len() as u64).unwrap();
    let region = &file[footer.index.offset as usize..][..footer.index.bytes as usize];
    let index = Index::decode(&payload(file, footer.top), region, footer.data_bytes).unwrap();
    (footer, index, Properties::decode(&payload(file, footer.properties)).unwrap())
}

#[test]
fn a_file_holds_what_was_added() {
    for seed in 0..120 {
        let mut random = Random(seed);
        let count = 1 + random.below(300) as usize;
        let entries = random_entries(&mut random, count);
        let form = form(&mut random);
        let list = if random.below(2) == 0 { tombstones() } else { FragmentList::new() };
        let (file, finished) = encode(form.clone(), &entries, &list);
        assert_eq!(finished.file_bytes, file.len() as u64);
        assert_eq!(finished.file_checksum, crate::checksum::xxh3(&file), "seed {seed}");
        let (footer, index, properties) = open(&file);
        assert_eq!(properties, finished.properties);
        let mut read = Vec::new();
        let mut walker = Walker::default();
        for number in 0..index.block_count() {
            let (offset, bytes) = index.block(number).unwrap();
            let payload = payload(&file, Handle { offset, bytes });
            let block = DataBlock::new(&payload).unwrap();
            walker.seek_first(&block).unwrap();
            while let Some(entry) = walker.entry(&payload) {
                let Entry { key, sequence, kind, expires_at_ms, value } = entry;
                read.push(Owned { key: key.to_vec(), sequence, kind, expires_at_ms, value: value.to_vec() });
                walker.next(&block).unwrap();
            }
        }
        assert!(read == entries, "seed {seed}");
        let sum = entries.iter().fold(list.content_hash(), |sum, entry| {
            sum.wrapping_add(super::content::entry_hash(&entry.entry()))
        });
        assert_eq!(properties.content_hash, sum);
        check_points(&file, &index, &entries, &mut random);
        if footer.filter.bytes > 0 {
            let filter = payload(&file, footer.filter);
            assert!(
                entries.iter().all(|e| crate::filter::contains(&filter, crate::filter::filter_hash(&e.key)))
            );
        }
        assert_eq!(footer.filter.bytes > 0, form.filter_bits_per_key > 0);
        let tombstones = (footer.tombstones.bytes > 0).then(|| payload(&file, footer.tombstones));
        assert_eq!(tombstones.map(|bytes| FragmentList::decode(&bytes).unwrap()).unwrap_or_default(), list);
    }
}

fn check_points(file: &[u8], index: &Index, entries: &[Owned], random: &mut Random) {
    for _ in 0..100 {
        let (key, before) = (random.key(), Sequence(random.below(45)));
        let expected = entries.iter().find(|entry| entry.key == key && entry.sequence < before);
        let mut block = index.find(&key);
        let found = loop {
            let Some((offset, bytes)) = index.block(block) else { break None };
            let payload = payload(file, Handle { offset, bytes });
            match DataBlock::new(&payload).unwrap().find(&key, before).unwrap() {
                Find::Found { trailer, value, .. } => {
                    break Some((trailer.sequence(), payload[value].to_vec()));
                }
                Find::Beyond if index.is_separator(block, &key) => block += 1,
                _ => break None,
            }
        };
        assert_eq!(found, expected.map(|entry| (entry.sequence, entry.value.clone())));
    }
}

#[test]
fn the_same_entries_make_the_same_bytes_however_they_are_released() {
    let entries = random_entries(&mut Random(9), 500);
    for compression in [Compression::None, Compression::Lz4, Compression::Zstd] {
        let form = TableForm { compression, block_bytes: 512, ..TableForm::default() };
        let (file, finished) = encode(form.clone(), &entries, &tombstones());
        let mut encoder = TableEncoder::new(form);
        encoder.add_tombstones(&tombstones());
        entries.iter().for_each(|entry| encoder.add(&entry.entry()).unwrap());
        let estimate = encoder.estimated_bytes();
        assert_eq!(encoder.finish().unwrap(), finished);
        assert_eq!(encoder.completed(), file);
        assert!(
            estimate.abs_diff(file.len() as u64) < file.len() as u64 / 10,
            "{estimate} for {}",
            file.len()
        );
    }
}

#[test]
fn a_large_value_has_a_block_of_its_own() {
    let entry = |key: &str, bytes| Owned {
        key: key.as_bytes().to_vec(),
        sequence: Sequence(1),
        kind: Kind::Put,
        expires_at_ms: 0,
        value: vec![7; bytes],
    };
    let entries = [entry("a", 100), entry("b", 5_000_000), entry("c", 100), entry("d", 100)];
    let (file, finished) = encode(TableForm::default(), &entries, &FragmentList::new());
    assert_eq!(finished.properties.block_count, 3);
    let (_, index, _) = open(&file);
    assert_eq!(
        (index.separator(0), index.separator(1), index.separator(2)),
        (b"a".into(), b"b".into(), b"d".into())
    );
}

#[test]
fn an_empty_table_is_refused_and_tombstones_alone_are_not() {
    assert!(TableEncoder::new(TableForm::default()).finish().is_err());
    let (file, finished) = encode(TableForm::default(), &[], &tombstones());
    assert_eq!((&finished.properties.smallest[..], &finished.properties.largest[..]), (&b"a"[..], &b"b"[..]));
    assert_eq!(
        (finished.properties.sequence_min, finished.properties.sequence_max),
        (Sequence(7), Sequence(12))
    );
    let (_, index, properties) = open(&file);
    assert_eq!((index.block_count(), properties.range_tombstone_count), (0, 2));
    assert_eq!(index.find(b"anything"), 0);
    assert_eq!(index.block(0), None);
}
