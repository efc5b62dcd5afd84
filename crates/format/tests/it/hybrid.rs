//! Golden files of the hybrid log, its redo log, and a cold log's index.

use firn_format::dump::{self, Dumped};
use firn_format::filter;
use firn_format::hybrid::cold_run::{
    ColdEntry, ColdPlace, RUN_PAGE_BYTES, RUN_PAGE_ENTRIES, RunHeader, RunPage, RunTail, encode_page,
    filter_hash_of,
};
use firn_format::hybrid::image::{open_record, seal_record, shape_at};
use firn_format::hybrid::redo::{
    ENTRY_HEAD_BYTES, REDO_HEADER_BYTES, RedoChange, RedoEntry, RedoFound, RedoHeader, entry_at, next_change,
};
use firn_format::hybrid::{COLD_MIN, Link, SEGMENT_HEADER_BYTES, SegmentHeader, Shape};
use firn_format::{Error, Result};

use crate::samples::Sample;

const DATABASE: u128 = 0x0011_2233_4455_6677_8899_aabb_ccdd_eeff;
const BASE: u64 = 1 << 23;
const GENERATION: u64 = 3;

/// A record's shape, key, value, expiry and keyspace.
type Parts = (Shape, &'static [u8], Vec<u8>, u64, u32);

/// One record of each form.
fn parts() -> Vec<Parts> {
    let shape = |key: &[u8], value: &[u8], more: Shape| {
        Shape { key_bytes: key.len(), value_bytes: value.len(), ..more }.fitted()
    };
    let none = Shape::default();
    let part = |key: &'static [u8], value: &[u8], more: Shape, expires_at_ms: u64, keyspace: u32| {
        (shape(key, value, more), key, value.to_vec(), expires_at_ms, keyspace)
    };
    vec![
        part(b"eight by", b"te value", none, 0, 0),
        part(b"", b"", none, 0, 0),
        part(b"slack", b"odd length", Shape { slack_words: 2, ..none }, 0, 0),
        part(b"gone", b"", Shape { is_tombstone: true, ..none }, 0, 0),
        part(b"later", b"1", Shape { has_expiry: true, ..none }, 1_700_000_000_000, 0),
        part(b"sum", b"+1", Shape { is_operand: true, has_keyspace: true, ..none }, 0, 7),
        part(b"far", &[9; 24], Shape { is_reference: true, ..none }, 0, 0),
        part(&[b'k'; 300], b"long key", none, 0, 0),
    ]
}

fn words(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(bytes);
    out.resize(out.len().next_multiple_of(8), 0);
}

/// The words of a record as they lie in memory.
fn in_memory((shape, key, value, expires_at_ms, keyspace): &Parts, link: Link) -> Vec<u8> {
    let (state, lengths) = shape.encode(6);
    let mut out = [link.0.to_le_bytes(), state.sealed().0.to_le_bytes()].concat();
    out.extend(lengths.iter().flat_map(|lengths| lengths.to_le_bytes()));
    if shape.has_expiry {
        out.extend_from_slice(&expires_at_ms.to_le_bytes());
    }
    if shape.has_keyspace {
        out.extend_from_slice(&u64::from(*keyspace).to_le_bytes());
    }
    words(key, &mut out);
    words(value, &mut out);
    out.resize(shape.words() * 8, 0);
    out
}

fn header() -> SegmentHeader {
    SegmentHeader { database: DATABASE, base: BASE, words: 1 << 23, generation: GENERATION }
}

fn segment() -> Vec<u8> {
    let mut bytes = header().encode();
    for (index, parts) in parts().iter().enumerate() {
        let address = BASE + (bytes.len() - SEGMENT_HEADER_BYTES) as u64 / 8;
        let link = Link::new(1000 + index as u64);
        let link = if index == 2 { link.invalid() } else { link };
        let mut record = in_memory(parts, link);
        seal_record(address, &mut record);
        bytes.extend_from_slice(&record);
        if index == 3 {
            // The rest of a page that was too short for the next record.
            bytes.extend_from_slice(&[0; 24]);
        }
    }
    bytes
}

fn decode_segment(bytes: &[u8]) -> Result<String> {
    let header = SegmentHeader::decode(bytes)?;
    let mut found = format!("{header:?}");
    let mut at = SEGMENT_HEADER_BYTES;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let Some((link, shape)) = shape_at(rest)? else {
            at += 8;
            continue;
        };
        let length = shape.words() * 8;
        let mut record = rest
            .get(..length)
            .ok_or_else(|| Error::new(at, format!("{length} bytes"), format!("{}", rest.len())))?
            .to_vec();
        open_record(header.base + (at - SEGMENT_HEADER_BYTES) as u64 / 8, &mut record)?;
        found += &format!("\n{link:?} {shape:?} {record:?}");
        at += length;
    }
    Ok(found)
}

fn change<'a>((shape, key, value, expires_at_ms, keyspace): &'a Parts, index: u64) -> RedoChange<'a> {
    let shape = Shape { slack_words: 0, ..*shape };
    let (address, sequence) = (BASE + 8 * index, 2 * index as u32);
    RedoChange { address, sequence, shape, keyspace: *keyspace, expires_at_ms: *expires_at_ms, key, value }
}

/// An entry with one change, one with several, as of a batch.
fn redo() -> Vec<u8> {
    let mut bytes =
        RedoHeader { database: DATABASE, generation: GENERATION, index: 1, boot: 5 << 100 }.encode().to_vec();
    let parts = parts();
    let mut entry = RedoEntry::default();
    for range in [0..1, 1..parts.len()] {
        entry.begin();
        for index in range {
            entry.push(&change(&parts[index], index as u64));
        }
        let at = bytes.len() as u64;
        bytes.extend_from_slice(entry.finish(GENERATION, at));
    }
    bytes
}

fn decode_redo(bytes: &[u8]) -> Result<String> {
    let header = RedoHeader::decode(bytes)?;
    let mut found = format!("{header:?}");
    let mut at = REDO_HEADER_BYTES;
    while at < bytes.len() {
        let RedoFound::Entry(body) = entry_at(&bytes[at..], header.generation, at as u64) else {
            return Err(Error::new(at, "an entry", "none"));
        };
        let mut rest = body;
        while let Some(change) = next_change(&mut rest)? {
            found += &format!("\n{change:?}");
        }
        at += ENTRY_HEAD_BYTES + body.len();
    }
    Ok(found)
}

/// A run of three entries, two of them of one order, of which one is dead.
fn run() -> Vec<u8> {
    let entry = |order, address, words| ColdEntry { order, place: ColdPlace::new(COLD_MIN + address, words) };
    let entries = [entry(3, 40, 7), entry(1 << 60, 90, 5), entry(1 << 60, 8, 0)];
    let hashes: Vec<u32> = entries.iter().map(|entry| filter_hash_of(entry.order)).collect();
    let tail = RunTail {
        fences: vec![3],
        values: vec![(COLD_MIN + 40, 12)],
        segments: vec![(COLD_MIN, 12)],
        filter: filter::build(&hashes, 10),
    };
    let tail = tail.encode();
    let header = RunHeader {
        database: DATABASE,
        number: 5,
        entries: 3,
        tail_bytes: tail.len() as u64,
        tail_checksum: firn_format::checksum::xxh3(&tail),
    };
    [header.encode(), encode_page(0, &entries), tail].concat()
}

fn decode_run(bytes: &[u8]) -> Result<String> {
    let header = RunHeader::decode(bytes)?;
    let mut found = format!("{header:?}");
    for page in 0..header.pages() {
        let at = (1 + page as usize) * RUN_PAGE_BYTES;
        let bytes = bytes.get(at..at + RUN_PAGE_BYTES).unwrap_or_default();
        let page = RunPage::decode(page, bytes.to_vec())?;
        found += &format!("\n{:?}", page.entries().collect::<Vec<_>>());
    }
    let tail = bytes.get(header.tail_at() as usize..).unwrap_or_default();
    found += &format!("\n{:?}", RunTail::decode(&header, tail)?);
    Ok(found)
}

#[test]
fn a_full_page_of_a_run_comes_back() {
    let entry =
        |at: usize| ColdEntry { order: at as u64, place: ColdPlace::new(COLD_MIN + at as u64, 1 << 19) };
    let entries: Vec<ColdEntry> = (0..RUN_PAGE_ENTRIES).map(entry).collect();
    let page = encode_page(7, &entries);
    assert_eq!(page.len(), RUN_PAGE_BYTES);
    assert!(RunPage::decode(8, page.clone()).is_err(), "another page");
    let page = RunPage::decode(7, page).expect("a page");
    assert!(page.entries().eq(entries.iter().copied()));
    assert!(page.between(17, 19).eq(entries[17..20].iter().copied()));
    assert_eq!(page.between(u64::MAX, u64::MAX).count(), 0);
    assert_eq!(ColdPlace::new(COLD_MIN, 1 << 19).words(), 0, "too long to say");
}

pub(crate) fn samples() -> [Sample; 3] {
    let shown = |name: &'static str, bytes: Vec<u8>, decode: fn(&[u8]) -> Result<String>, dump| Sample {
        name,
        value: decode(&bytes).expect("what was encoded"),
        bytes,
        decode,
        dump,
    };
    let dump_segment: fn(&[u8], &mut String) -> Dumped =
        |bytes, out| dump::describe("0000000000800000.hybrid", bytes, out);
    let dump_redo: fn(&[u8], &mut String) -> Dumped =
        |bytes, out| dump::describe("0000000000000003-0000000000000001.redo", bytes, out);
    let dump_run: fn(&[u8], &mut String) -> Dumped =
        |bytes, out| dump::describe("0000000000000005.coldrun", bytes, out);
    [
        shown("hybrid-segment-v1-records", segment(), decode_segment, dump_segment),
        shown("redo-v1-entries", redo(), decode_redo, dump_redo),
        shown("cold-run-v1-entries", run(), decode_run, dump_run),
    ]
}

#[test]
fn a_record_that_lies_elsewhere_is_refused() {
    let mut record = in_memory(&parts()[0], Link::new(0));
    seal_record(4096, &mut record);
    assert!(open_record(4097, &mut record.clone()).is_err(), "another address");
    open_record(4096, &mut record).expect("its own address");
}

#[test]
fn an_entry_of_another_place_or_generation_is_torn() {
    let bytes = redo();
    let entry = &bytes[REDO_HEADER_BYTES..];
    let at = REDO_HEADER_BYTES as u64;
    assert!(matches!(entry_at(entry, GENERATION, at), RedoFound::Entry(_)));
    assert_eq!(entry_at(entry, GENERATION + 1, at), RedoFound::Torn);
    assert_eq!(entry_at(entry, GENERATION, at + 8), RedoFound::Torn);
    assert_eq!(entry_at(&[0; 64], GENERATION, at), RedoFound::End);
}
