//! Golden blob segments: what is written to, what is sealed, what a collection made.

use std::fmt::Write as _;

use firn_format::blob::record::{Chunk, HEAD_BYTES_MIN, padding, plain_chunks};
use firn_format::blob::segment::{
    BLOB_FOOTER_BYTES, BLOB_HEADER_BYTES, OrdinalTable, Origin, encode_ordinal_table,
};
use firn_format::blob::{
    BlobFooter, BlobHead, BlobRecord, BlobSegmentHeader, Ordinals, Relocation, SegmentNumber,
};
use firn_format::checksum::xxh3;
use firn_format::compression::Compression;
use firn_format::dump;
use firn_format::{Error, Result};

use crate::samples::Sample;

const NUMBER: SegmentNumber = SegmentNumber(7);

pub(crate) fn samples() -> Vec<Sample> {
    vec![
        segment("blob-segment-v1-open", Origin::Written, &[], false),
        segment("blob-segment-v1-sealed", Origin::Written, &[], true),
        segment("blob-segment-v1-collected", Origin::Collected, &[list(), lines()], true),
    ]
}

/// A relocation of few survivors.
fn list() -> Relocation {
    let survivors: Ordinals = [3, 1700].into_iter().collect();
    Relocation::new(SegmentNumber(2), 2000, &survivors, NUMBER, 0).unwrap()
}

/// A relocation of many.
fn lines() -> Relocation {
    let survivors: Ordinals = (0..600).filter(|ordinal| ordinal % 5 != 0).collect();
    Relocation::new(SegmentNumber(5), 600, &survivors, NUMBER, 2).unwrap()
}

/// Appends a record: an empty value, a value with a short head, or a compressed value.
fn put_record(ordinal: u32, out: &mut Vec<u8>) {
    let start = out.len();
    let (keyspace, key, value): (_, &[u8], Vec<u8>) = match ordinal {
        0 => (300, b"empty", Vec::new()),
        1 => (3, b"short", b"some value".to_vec()),
        _ => (300, b"compressed", vec![b'x'; 1000]),
    };
    let codec = if ordinal < 2 { Compression::None } else { Compression::Lz4 };
    let head = BlobHead {
        segment: NUMBER,
        ordinal,
        value_bytes: value.len() as u32,
        keyspace,
        key_bytes: key.len() as u16,
        codec,
    };
    let stored = if ordinal < 2 { value } else { lz4_block_of_x() };
    let chunk = Chunk { checksum: xxh3(&stored), stored_bytes: stored.len() as u32 };
    match codec {
        Compression::None => head.encode(plain_chunks(&stored), key, out),
        _ => head.encode([chunk].into_iter(), key, out),
    };
    out.extend_from_slice(&stored);
    out.extend_from_slice(padding(out.len() - start));
}

/// A thousand times `x` as an LZ4 block: one literal, a match of 994 at distance 1, five literals.
fn lz4_block_of_x() -> Vec<u8> {
    // 994 = 4 + 15 + 3 * 255 + 210.
    vec![0x1f, b'x', 1, 0, 255, 255, 255, 210, 0x50, b'x', b'x', b'x', b'x', b'x']
}

fn segment(name: &'static str, origin: Origin, relocations: &[Relocation], is_sealed: bool) -> Sample {
    let database = 0x0011_2233_4455_6677_8899_aabb_ccdd_eeff;
    let generation = if origin == Origin::Written { 2 } else { 0 };
    let header = BlobSegmentHeader { database, number: NUMBER, origin, generation };
    let mut bytes = header.encode().to_vec();
    let mut offsets = Vec::new();
    for ordinal in [0, 1, 2] {
        offsets.push(Some(bytes.len() as u64));
        put_record(ordinal, &mut bytes);
    }
    if is_sealed {
        // One more was given up.
        offsets.push(None);
        let records_end = bytes.len();
        encode_ordinal_table(offsets.into_iter(), &mut bytes);
        let (table_checksum, relocations_at) = (xxh3(&bytes[records_end..]), bytes.len());
        relocations.iter().for_each(|relocation| relocation.encode(&mut bytes));
        let footer = BlobFooter {
            number: NUMBER,
            ordinals: 4,
            relocations: relocations.len() as u32,
            records_end: records_end as u64,
            table_checksum,
            relocation_bytes: (bytes.len() - relocations_at) as u64,
            value_bytes: 1010,
        };
        footer.encode(&mut bytes);
    }
    let decode = if is_sealed { decode_sealed } else { decode_open };
    let value = decode(&bytes).unwrap();
    Sample { name, bytes, value, decode, dump }
}

pub(crate) fn dump(bytes: &[u8], out: &mut String) -> dump::Dumped {
    dump::describe("00000007.blobs", bytes, out)
}

/// Everything in a segment that is written to, each checksum compared.
pub(crate) fn decode_open(bytes: &[u8]) -> Result<String> {
    let mut text = format!("{:?}", BlobSegmentHeader::decode(bytes)?);
    let mut at = BLOB_HEADER_BYTES;
    while at < bytes.len() {
        at += record(bytes, at, &mut text)?;
    }
    Ok(text)
}

/// The same of a sealed segment.
pub(crate) fn decode_sealed(bytes: &[u8]) -> Result<String> {
    let mut text = format!("{:?}", BlobSegmentHeader::decode(bytes)?);
    let footer = bytes.last_chunk::<BLOB_FOOTER_BYTES>().ok_or_else(|| Error::new(0, "a footer", "less"))?;
    let footer = BlobFooter::decode(footer, bytes.len() as u64)?;
    let (table_at, mut at) = (footer.records_end as usize, footer.relocations_start() as usize);
    let table = OrdinalTable::check(&bytes[table_at..at], &footer)?;
    for ordinal in 0..table.len() {
        if let Some(offset) = table.offset(ordinal) {
            record(bytes, offset as usize, &mut text)?;
        }
    }
    for _ in 0..footer.relocations {
        let (relocation, taken) = Relocation::decode(&bytes[at..])?;
        let _ = write!(text, " {relocation:?}");
        at += taken;
    }
    Ok(format!("{text} {footer:?}"))
}

/// Appends what the record at `at` holds; how many bytes it has, all of which are compared.
fn record(bytes: &[u8], at: usize, text: &mut String) -> Result<usize> {
    let rest = &bytes[at..];
    let record = BlobRecord::decode(rest)?;
    let mut value = Vec::new();
    for index in 0..record.chunk_count() {
        let stored = rest.get(record.chunk_span(index)).ok_or_else(|| Error::new(at, "a chunk", "less"))?;
        record.decode_chunk(index, stored, &mut value)?;
    }
    let end = record.chunk_span(record.chunk_count() - 1).end;
    if rest.get(end..record.bytes()) != Some(padding(end)) {
        return Err(Error::new(at + end, "padding of zeros", "others"));
    }
    assert!(record.head.encoded_bytes() >= HEAD_BYTES_MIN);
    let _ = write!(text, " {:?} {:?} {}", record.head, record.key, value.len());
    Ok(record.bytes())
}
