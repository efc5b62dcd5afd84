use std::sync::Arc;

use firn_format::blob::{Reference, SegmentNumber};
use firn_format::compression::Compression;
use firn_format::filter::filter_hash;
use firn_format::key::{Entry, Kind, Sequence};
use firn_format::manifest::TableMeta;
use firn_format::table::{Expiring, Properties, ReferenceSummary, TableForm};
use firn_format::tombstone::{FragmentList, Span};

use super::*;
use crate::backend::{Local, LocalOptions, Memory};
use crate::file::cache::BlockCache;
use crate::{ErrorKind, Storage};

/// Deterministic numbers (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ word >> 31
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn key(&mut self) -> Vec<u8> {
        let bytes = self.below(12) as usize;
        (0..bytes).map(|_| b"aab\x00"[self.below(4) as usize]).collect()
    }
}

#[derive(Clone, Debug, PartialEq)]
struct Owned {
    key: Vec<u8>,
    sequence: Sequence,
    kind: Kind,
    expires_at_ms: u64,
    value: Vec<u8>,
}

impl Owned {
    fn entry(&self) -> Entry<'_> {
        let Self { key, sequence, kind, expires_at_ms, value } = self;
        Entry { key, sequence: *sequence, kind: *kind, expires_at_ms: *expires_at_ms, value }
    }
}

fn random_entries(random: &mut Random, count: usize) -> Vec<Owned> {
    let mut entries: Vec<Owned> = (0..count)
        .map(|_| Owned {
            key: random.key(),
            sequence: Sequence(random.below(50)),
            kind: [Kind::Put, Kind::Put, Kind::Delete, Kind::Merge][random.below(4) as usize],
            expires_at_ms: random.below(2) * random.below(1000),
            value: {
                let bytes = [0, 5, 40, 900][random.below(4) as usize];
                let byte = random.next() as u8;
                vec![byte; bytes]
            },
        })
        .collect();
    entries.sort_by(|a, b| a.key.cmp(&b.key).then(b.sequence.cmp(&a.sequence)));
    entries.dedup_by(|a, b| a.key == b.key && a.sequence == b.sequence);
    entries
}

fn tombstones() -> FragmentList {
    let span = |start, end, sequence| Span { start, end, sequence: Sequence(sequence) };
    FragmentList::from_spans([span(b"aa", b"ab", 12), span(b"a", b"b", 7)])
}

fn write(
    storage: &dyn Storage,
    name: &str,
    form: TableForm,
    entries: &[Owned],
    list: &FragmentList,
) -> TableMeta {
    let mut builder = TableBuilder::new(name, storage.create(name).unwrap(), form);
    entries.iter().for_each(|entry| builder.add(&entry.entry()).unwrap());
    builder.add_tombstones(list);
    let meta = builder.finish().unwrap();
    storage.sync_dir().unwrap();
    meta
}

fn forms() -> Vec<TableForm> {
    let compressions = [Compression::None, Compression::Lz4, Compression::Zstd];
    let sizes = [128, 4096];
    compressions
        .into_iter()
        .flat_map(|compression| {
            sizes.map(|block_bytes| TableForm { compression, block_bytes, ..TableForm::default() })
        })
        .collect()
}

/// A storage, how its tables are read, and bytes of cache.
type Backend = (Arc<dyn Storage>, ReaderOptions, u64);

/// Memory and disk; mapped and not; with a cache and without one.
fn backends() -> (tempfile::TempDir, Vec<Backend>) {
    let dir = tempfile::tempdir().unwrap();
    let local: Arc<dyn Storage> = Arc::new(Local::open(dir.path(), LocalOptions { create: true }).unwrap());
    let memory: Arc<dyn Storage> = Arc::new(Memory::new());
    let unmapped = ReaderOptions { map: false };
    let backends = vec![
        (Arc::clone(&memory), ReaderOptions::default(), 1 << 20),
        (memory, unmapped, 0),
        (Arc::clone(&local), ReaderOptions::default(), 0),
        (local, unmapped, 1 << 20),
    ];
    (dir, backends)
}

fn found(lookup: Lookup<'_>, key: &[u8]) -> Option<Owned> {
    let Lookup::Found(hit) = lookup else { return None };
    let (sequence, kind, expires_at_ms) = (hit.sequence(), hit.kind(), hit.expires_at_ms());
    Some(Owned { key: key.to_vec(), sequence, kind, expires_at_ms, value: hit.value().to_vec() })
}

#[test]
fn points_answer_as_a_naive_search_does() {
    let (_dir, backends) = backends();
    let mut peeked = 0;
    for (number, (storage, options, cache_bytes)) in backends.iter().enumerate() {
        for (seed, form) in forms().into_iter().enumerate() {
            let mut random = Random(seed as u64);
            let entries = random_entries(&mut random, 600);
            let name = format!("points-{number}-{seed}.table");
            let meta = write(&**storage, &name, form, &entries, &tombstones());
            let cache = Arc::new(BlockCache::new(*cache_bytes));
            let table = TableReader::open(&**storage, &meta, &cache, *options).unwrap();
            assert_eq!(table.tombstones(), &tombstones());
            for _ in 0..600 {
                table.set_may_be_evicted(random.below(3) > 0);
                let (key, before) = (random.key(), Sequence(random.below(55)));
                let expected = entries.iter().find(|entry| entry.key == key && entry.sequence < before);
                let kept = cache.record_count();
                // A lookup that does not wait may get no answer, and keeps nothing for the next
                // one.
                match table.peek(&key, filter_hash(&key), before).unwrap() {
                    Lookup::Miss => {}
                    lookup => {
                        peeked += 1;
                        assert_eq!(found(lookup, &key).as_ref(), expected, "backend {number} seed {seed}");
                    }
                }
                assert_eq!(cache.record_count(), kept);
                let lookup = table.newest(&key, filter_hash(&key), before, ReadMode::Blocking).unwrap();
                assert_eq!(found(lookup, &key).as_ref(), expected, "backend {number} seed {seed}");
            }
            assert!(cache.memory_bytes() <= *cache_bytes);
            assert!(*cache_bytes == 0 || cache.record_count() > 0);
            Arc::new(table).verify(&meta, None).unwrap();
        }
    }
    assert!(peeked > 1000, "{peeked} were told without waiting");
}

#[test]
fn cursors_walk_like_an_array() {
    let (_dir, backends) = backends();
    let uncached =
        CursorOptions { fill_cache: false, verify_always: false, read_ahead_bytes: 0, first_read_bytes: 0 };
    for (number, (storage, options, cache_bytes)) in backends.iter().enumerate() {
        for (seed, form) in forms().into_iter().enumerate() {
            let mut random = Random(seed as u64);
            let entries = random_entries(&mut random, 300);
            let name = format!("walks-{number}-{seed}.table");
            let meta = write(&**storage, &name, form, &entries, &FragmentList::new());
            let cache = Arc::new(BlockCache::new(*cache_bytes));
            let table = Arc::new(TableReader::open(&**storage, &meta, &cache, *options).unwrap());
            let short = CursorOptions { first_read_bytes: 0, ..CursorOptions::SCAN };
            for (number, options) in
                [CursorOptions::SCAN, CursorOptions::JOB, uncached, short].into_iter().enumerate()
            {
                table.set_may_be_evicted(number != 1 && seed % 2 == 0);
                walk_at_random(TableCursor::new(Arc::clone(&table), options), &entries, &mut random, seed);
            }
        }
    }
}

fn walk_at_random(mut cursor: TableCursor, entries: &[Owned], random: &mut Random, seed: usize) {
    let mut at: Option<usize> = None;
    for _ in 0..400 {
        let key = random.key();
        match random.below(14) {
            0 => {
                cursor.seek_first().unwrap();
                at = Some(0);
            }
            1 => {
                cursor.seek_last().unwrap();
                at = entries.len().checked_sub(1);
            }
            2 => {
                cursor.seek(&key).unwrap();
                at = entries.iter().position(|entry| entry.key >= key);
            }
            3 => {
                cursor.seek_before(&key).unwrap();
                at = entries.iter().rposition(|entry| entry.key < key);
            }
            4..9 => {
                cursor.next().unwrap();
                at = at.and_then(|at| (at + 1 < entries.len()).then_some(at + 1));
            }
            _ => {
                cursor.prev().unwrap();
                at = at.and_then(|at| at.checked_sub(1));
            }
        }
        assert_eq!(cursor.entry(), at.map(|at| entries[at].entry()), "seed {seed}");
    }
}

#[test]
fn prefixes_are_filtered() {
    let storage = Memory::new();
    let prefix: firn_format::table::PrefixBytes = Arc::new(|key: &[u8]| (key.len() >= 2).then_some(2));
    let form = TableForm { prefix: Some(("fixed.1:2".into(), prefix)), ..TableForm::default() };
    let mut entries = random_entries(&mut Random(3), 50);
    entries.retain(|entry| entry.key.starts_with(b"aa") || entry.key.starts_with(b"b"));
    let meta = write(&storage, "p.table", form, &entries, &FragmentList::new());
    let table =
        TableReader::open(&storage, &meta, &Arc::new(BlockCache::new(0)), ReaderOptions::default()).unwrap();
    assert_eq!(table.properties().prefix_extractor.as_deref(), Some("fixed.1:2"));
    assert!(table.may_contain_prefix(filter_hash(b"aa")));
    let wrong = (0..=255_u8).filter(|byte| table.may_contain_prefix(filter_hash(&[b'x', *byte]))).count();
    assert!(wrong < 40, "{wrong} of 256 absent prefixes let through");
}

#[test]
fn a_read_that_would_wait_is_a_miss() {
    let storage = Memory::new();
    let entries = random_entries(&mut Random(5), 400);
    let meta = write(&storage, "m.table", TableForm::default(), &entries, &FragmentList::new());
    let cache = Arc::new(BlockCache::new(1 << 20));
    let unmapped = ReaderOptions { map: false };
    let table = TableReader::open(&storage, &meta, &cache, unmapped).unwrap();
    let (key, hash) = (&entries[200].key[..], filter_hash(&entries[200].key));
    let resident = || table.newest(key, hash, Sequence::MAX, ReadMode::ResidentOnly).unwrap();
    assert!(matches!(resident(), Lookup::Miss));
    assert!(table.would_block(key, 1));
    assert!(matches!(table.newest(key, hash, Sequence::MAX, ReadMode::Blocking).unwrap(), Lookup::Found(_)));
    assert!(matches!(resident(), Lookup::Found(_)));
    assert!(!table.would_block(key, 1));
    let mapped = TableReader::open(&storage, &meta, &cache, ReaderOptions::default()).unwrap();
    let lookup = mapped.newest(key, hash, Sequence::MAX, ReadMode::ResidentOnly).unwrap();
    assert!(matches!(lookup, Lookup::Found(_)), "memory is always resident");
}

#[test]
fn the_file_must_be_the_one_meant() {
    let storage = Memory::new();
    let entries = random_entries(&mut Random(6), 40);
    let meta = write(&storage, "a.table", TableForm::default(), &entries, &FragmentList::new());
    let other = write(&storage, "b.table", TableForm::default(), &entries[1..], &FragmentList::new());
    let cache = Arc::new(BlockCache::new(0));
    let open = |meta: &TableMeta| {
        TableReader::open(&storage, meta, &cache, ReaderOptions::default())
            .map(drop)
            .map_err(|error| error.kind)
    };
    assert_eq!(open(&meta), Ok(()));
    assert_eq!(open(&TableMeta { file: "c.table".into(), ..meta.clone() }), Err(ErrorKind::NotFound));
    assert_eq!(open(&TableMeta { file: "b.table".into(), ..meta.clone() }), Err(ErrorKind::Corrupt));
    assert_eq!(open(&TableMeta { content_hash: 1, ..meta.clone() }), Err(ErrorKind::Corrupt));
    assert_eq!(open(&TableMeta { bytes: meta.bytes - 1, ..meta.clone() }), Err(ErrorKind::Corrupt));
    assert_eq!(open(&TableMeta { file: "b.table".into(), ..other }), Ok(()));
    storage.publish("short.table", b"short").unwrap();
    let short = storage.open_read("short.table").unwrap();
    assert!(TableReader::open_file("short.table", short, &cache, ReaderOptions::default()).is_err());
}

/// Every byte of a file flipped: each read gives the right answer or an error with an offset inside
/// the file.
#[test]
fn every_flipped_byte_is_harmless_or_noticed() {
    for compression in [Compression::None, Compression::Lz4, Compression::Zstd] {
        let storage = Memory::new();
        let entries = random_entries(&mut Random(8), 60);
        let form = TableForm { compression, block_bytes: 512, ..TableForm::default() };
        let meta = write(&storage, "whole.table", form, &entries, &tombstones());
        let file = storage.open_read("whole.table").unwrap();
        let mut bytes = vec![0; file.len() as usize];
        file.read_at(0, &mut bytes).unwrap();
        let (mut noticed, cache) = (0, Arc::new(BlockCache::new(1 << 20)));
        for at in 0..bytes.len() {
            bytes[at] ^= 1 << (at % 8);
            let name = format!("flipped-{at}.table");
            storage.publish(&name, &bytes).unwrap();
            bytes[at] ^= 1 << (at % 8);
            let options = ReaderOptions { map: at % 2 == 0 };
            let meta = TableMeta { file: name.clone(), ..meta.clone() };
            let scanned = scan_beyond_memory(&storage, &meta, &cache, options);
            assert!(
                scanned.is_err_and(|error| error.kind == ErrorKind::Corrupt),
                "byte {at}, larger than memory"
            );
            match read_everything(&storage, &meta, &cache, options) {
                Ok(read) => assert!(read == entries, "byte {at}: wrong entries"),
                Err(error) => {
                    noticed += 1;
                    assert_eq!(error.kind, ErrorKind::Corrupt, "byte {at}: {error}");
                    assert_eq!(error.file, name);
                    assert!(error.offset.is_some_and(|offset| offset <= meta.bytes), "byte {at}: {error}");
                }
            }
            storage.remove(&name).unwrap();
        }
        assert_eq!(noticed, bytes.len(), "every byte is covered by a checksum that is compared");
    }
}

/// Reads all blocks in order as where the table is larger than memory.
fn scan_beyond_memory(
    storage: &dyn Storage,
    meta: &TableMeta,
    cache: &Arc<BlockCache>,
    options: ReaderOptions,
) -> crate::Result<usize> {
    let table = Arc::new(TableReader::open(storage, meta, cache, options)?);
    table.set_may_be_evicted(true);
    let mut cursor = TableCursor::new(table, CursorOptions::SCAN);
    cursor.seek_first()?;
    let mut count = 0;
    while cursor.entry().is_some() {
        count += 1;
        cursor.next()?;
    }
    Ok(count)
}

fn read_everything(
    storage: &dyn Storage,
    meta: &TableMeta,
    cache: &Arc<BlockCache>,
    options: ReaderOptions,
) -> crate::Result<Vec<Owned>> {
    let table = Arc::new(TableReader::open(storage, meta, cache, options)?);
    let mut read = Vec::new();
    let mut cursor = TableCursor::new(Arc::clone(&table), CursorOptions::SCAN);
    cursor.seek_first()?;
    while let Some(entry) = cursor.entry() {
        let Entry { key, sequence, kind, expires_at_ms, value } = entry;
        let before = Sequence(sequence.0 + 1);
        let lookup = table.newest(key, filter_hash(key), before, ReadMode::Blocking)?;
        let entry = Owned { key: key.to_vec(), sequence, kind, expires_at_ms, value: value.to_vec() };
        assert_eq!(found(lookup, &entry.key).as_ref(), Some(&entry));
        read.push(entry);
        cursor.next()?;
    }
    Ok(read)
}

#[test]
fn equal_entries_make_equal_files_whatever_their_name() {
    let storage = Memory::new();
    let entries = random_entries(&mut Random(11), 300);
    let metas = ["x.table", "y.table"]
        .map(|name| write(&storage, name, TableForm::default(), &entries, &tombstones()));
    let same = TableMeta { file: metas[1].file.clone(), ..metas[0].clone() };
    assert_eq!(same, metas[1]);
}

#[test]
fn a_prefix_that_its_filter_does_not_know_is_found() {
    let storage = Memory::new();
    let entries = random_entries(&mut Random(5), 50);
    let prefix = |bytes: usize| move |key: &[u8]| (key.len() > bytes).then_some(bytes);
    let form = TableForm { prefix: Some(("first".to_owned(), Arc::new(prefix(2)))), ..TableForm::default() };
    let meta = write(&storage, "prefixes.table", form, &entries, &tombstones());
    let cache = Arc::new(BlockCache::new(0));
    let table = Arc::new(TableReader::open(&storage, &meta, &cache, ReaderOptions::default()).unwrap());
    table.verify(&meta, Some(&prefix(2))).unwrap();
    let error = table.verify(&meta, Some(&prefix(3))).unwrap_err();
    assert!(error.message.contains("every prefix") && error.offset.is_some(), "{error}");
}

#[test]
fn range_tombstones_outside_of_what_the_table_claims_are_found() {
    let storage = Memory::new();
    let entries = random_entries(&mut Random(6), 20);
    let meta = write(&storage, "ranges.table", TableForm::default(), &entries, &tombstones());
    let (oldest, newest) = tombstones().sequence_range().unwrap();
    let wrongs: [&dyn Fn(&mut Properties); 5] = [
        &|p| p.range_tombstone_count += 1,
        &|p| p.smallest = [tombstones().smallest().unwrap(), b"+"].concat(),
        &|p| p.largest = tombstones().smallest().unwrap().to_vec(),
        &|p| p.sequence_min = Sequence(oldest.0 + 1),
        &|p| p.sequence_max = Sequence(newest.0 - 1),
    ];
    let cache = Arc::new(BlockCache::new(0));
    for (index, wrong) in wrongs.into_iter().enumerate() {
        let mut table = TableReader::open(&storage, &meta, &cache, ReaderOptions::default()).unwrap();
        wrong(table.properties_mut());
        let error = Arc::new(table).verify(&meta, None).unwrap_err();
        assert!(error.message.contains("range tombstones"), "{index}: {error}");
    }
}

#[test]
fn operands_and_short_values_that_a_table_does_not_tell_of_are_found() {
    let storage = Memory::new();
    let reference =
        Reference { segment: SegmentNumber(3), ordinal: 1, offset: 64, value_bytes: 900, checksum: 5 };
    let owned = |key: &[u8], kind, value: &[u8]| Owned {
        key: key.to_vec(),
        sequence: Sequence(9),
        kind,
        expires_at_ms: 0,
        value: value.to_vec(),
    };
    let entries =
        [owned(b"a", Kind::Merge, b"operand"), owned(b"b", Kind::PutReference, &reference.encode())];
    let meta = write(&storage, "told.table", TableForm::default(), &entries, &FragmentList::new());
    let cache = Arc::new(BlockCache::new(0));
    let verified = |change: &dyn Fn(&mut ReferenceSummary)| {
        let mut table = TableReader::open(&storage, &meta, &cache, ReaderOptions::default()).unwrap();
        change(table.properties_mut().references.as_mut().unwrap());
        Arc::new(table).verify(&meta, None)
    };
    verified(&|summary| assert_eq!((summary.operand_count, summary.value_bytes_min), (1, 900))).unwrap();
    let error = verified(&|summary| summary.operand_count = 0).unwrap_err();
    assert!(error.message.contains("operands"), "{error}");
    let error = verified(&|summary| summary.value_bytes_min = 901).unwrap_err();
    assert!(error.message.contains("shorter than the table says"), "{error}");
}

#[test]
fn puts_that_expire_when_a_table_does_not_tell_are_found() {
    let storage = Memory::new();
    let owned = |key: &[u8], expires_at_ms, kind| Owned {
        key: key.to_vec(),
        sequence: Sequence(9),
        kind,
        expires_at_ms,
        value: b"value".to_vec(),
    };
    let entries = [owned(b"a", 70, Kind::Put), owned(b"b", 0, Kind::Put), owned(b"c", 80, Kind::Put)];
    let meta = write(&storage, "told.table", TableForm::default(), &entries, &FragmentList::new());
    let cache = Arc::new(BlockCache::new(0));
    let verified = |change: &dyn Fn(&mut Expiring)| {
        let mut table = TableReader::open(&storage, &meta, &cache, ReaderOptions::default()).unwrap();
        change(&mut table.properties_mut().expiring);
        Arc::new(table).verify(&meta, None)
    };
    verified(&|expiring| assert_eq!(expiring.points(), [(70, 6), (80, 6)])).unwrap();
    let wrongs: [&dyn Fn(&mut Expiring); 2] =
        [&|expiring| *expiring = Expiring::default(), &|expiring| expiring.add_entry(&entries[0].entry())];
    for wrong in wrongs {
        let error = verified(wrong).unwrap_err();
        assert!(error.message.contains("(ms, bytes) that expire"), "{error}");
    }
}

#[test]
fn a_table_without_sequences_has_the_one_that_the_manifest_says() {
    let (_dir, backends) = backends();
    for (number, (storage, options, cache_bytes)) in backends.iter().enumerate() {
        let entries: Vec<Owned> = (0..300_u32)
            .map(|key| Owned {
                key: (2 * key).to_be_bytes().to_vec(),
                sequence: Sequence(0),
                kind: Kind::Put,
                expires_at_ms: 0,
                value: vec![key as u8; 100],
            })
            .collect();
        let name = format!("{number}.table");
        let meta = write(&**storage, &name, TableForm::default(), &entries, &FragmentList::new());
        let cache = Arc::new(BlockCache::new(*cache_bytes));
        let given = Sequence(77);
        let meta = TableMeta { sequence_min: given, sequence_max: given, ..meta };
        for is_evicted in [false, true] {
            let table = Arc::new(TableReader::open(&**storage, &meta, &cache, *options).unwrap());
            table.may_be_evicted.store(is_evicted, std::sync::atomic::Ordering::Relaxed);
            let mut cursor = TableCursor::new(Arc::clone(&table), CursorOptions::SCAN);
            cursor.seek_first().unwrap();
            for entry in &entries {
                let entry = &Owned { sequence: given, ..entry.clone() };
                let hash = filter_hash(&entry.key);
                // Twice, of which the second may find it in the cache.
                for _ in 0..2 {
                    let newest = |before| table.newest(&entry.key, hash, before, ReadMode::Blocking).unwrap();
                    for before in [Sequence(78), Sequence::MAX] {
                        assert_eq!(found(newest(before), &entry.key).as_ref(), Some(entry));
                    }
                    for before in [Sequence(0), Sequence(1), Sequence(77)] {
                        assert!(matches!(newest(before), Lookup::Absent), "before {before}");
                        let peeked = table.peek(&entry.key, hash, before).unwrap();
                        assert!(matches!(peeked, Lookup::Absent), "before {before}");
                    }
                }
                assert_eq!(cursor.entry(), Some(entry.entry()));
                cursor.next().unwrap();
            }
            assert!(cursor.has_given_sequence() && !cursor.is_positioned());
            table.verify(&meta, None).unwrap();
        }
        // It has one for all.
        let wrong = TableMeta { sequence_max: Sequence(78), ..meta };
        let error = TableReader::open(&**storage, &wrong, &cache, *options).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Corrupt, "{error}");
    }
}
