//! Blob segments from the first byte to the last read, in memory.

use std::sync::Arc;

use firn_format::blob::record::{BlobHead, CHUNK_BYTES, padding, plain_chunks, plain_record_bytes};
use firn_format::blob::segment::{BLOB_HEADER_BYTES, BlobSegmentHeader, Origin};
use firn_format::blob::{Ordinals, Reference, Relocation, SegmentNumber};
use firn_format::compression::Compression;
use firn_format::manifest::BlobSegmentMeta;

use super::{BlobBuilder, BlobSegment, OpenBlobs, UnsealedBlobs, Wanted};
use crate::backend::{Effect, Fault, Faulty, Memory, Operation, RecycledFiles, When};
use crate::file::table::ReadMode;
use crate::{ErrorKind, Result, Storage};

const NUMBER: SegmentNumber = SegmentNumber(7);
const KEYSPACE: u32 = 0;

fn header(origin: Origin) -> BlobSegmentHeader {
    BlobSegmentHeader { database: 1, number: NUMBER, origin, generation: 0 }
}

/// A record with its padding, and the reference to it at `offset`.
fn record(ordinal: u32, offset: u64, key: &[u8], value: &[u8]) -> (Vec<u8>, Reference) {
    let head = BlobHead {
        segment: NUMBER,
        ordinal,
        value_bytes: value.len() as u32,
        keyspace: KEYSPACE,
        key_bytes: key.len() as u16,
        codec: Compression::None,
    };
    let mut out = Vec::new();
    let checksum = head.encode(plain_chunks(value), key, &mut out);
    out.extend_from_slice(value);
    out.extend_from_slice(padding(out.len()));
    (out, Reference { segment: NUMBER, ordinal, offset, value_bytes: head.value_bytes, checksum })
}

fn values() -> Vec<(Vec<u8>, Vec<u8>)> {
    let text: Vec<u8> = (0..2 * CHUNK_BYTES as u32 + 10).map(|at| (at % 251) as u8).collect();
    let lengths = [0, 1, 100, 4096, CHUNK_BYTES, CHUNK_BYTES + 1, text.len()];
    lengths.into_iter().map(|bytes| (format!("key-{bytes}").into_bytes(), text[..bytes].to_vec())).collect()
}

fn whole<'r>(reference: &'r Reference, key: &[u8]) -> Wanted<'r> {
    Wanted { reference, key_bytes: key.len(), range: 0..usize::MAX }
}

/// A collected segment of all [`values`], with a relocation.
fn sealed(
    storage: &dyn Storage,
) -> (BlobSegmentMeta, Vec<Reference>, Relocation, firn_format::manifest::RelocationTarget) {
    let file = storage.create("gc-1-000000.blobs").unwrap();
    let mut builder = BlobBuilder::new("gc-1-000000.blobs", file, &header(Origin::Collected));
    let mut references = Vec::new();
    for (ordinal, (key, value)) in values().iter().enumerate() {
        let (bytes, reference) = record(ordinal as u32, builder.bytes(), key, value);
        builder.begin(reference.value_bytes).unwrap();
        builder.put(&bytes).unwrap();
        references.push(reference);
    }
    let survivors: Ordinals = [2, 5].into_iter().collect();
    let relocation = Relocation::new(SegmentNumber(3), 9, &survivors, NUMBER, 4).unwrap();
    let (meta, places) = builder.finish(std::slice::from_ref(&relocation)).unwrap();
    (meta, references, relocation, places[0])
}

#[test]
fn values_are_read_back_whole_and_in_part_while_they_are_written() {
    let storage = Memory::new();
    let open = OpenBlobs::create(
        &storage,
        &RecycledFiles::default(),
        "00000007.blobs",
        &header(Origin::Written),
        1 << 20,
    )
    .unwrap();
    let mut offset = BLOB_HEADER_BYTES as u64;
    for (ordinal, (key, value)) in values().iter().enumerate() {
        let (bytes, reference) = record(ordinal as u32, offset, key, value);
        assert_eq!(bytes.len(), plain_record_bytes(KEYSPACE, key.len(), value.len()));
        open.write_at(offset, &bytes).unwrap();
        offset += bytes.len() as u64;
        let mut out = b"before".to_vec();
        open.read(&whole(&reference, key), &mut out).unwrap();
        assert_eq!(out, [b"before", &value[..]].concat());
        for range in [0..1, 10..20, CHUNK_BYTES - 1..CHUNK_BYTES + 1, CHUNK_BYTES..usize::MAX, 5..5] {
            // A reader that does not know the key's length gets the value all the same.
            for key_bytes in [key.len(), 0] {
                let wanted = Wanted { reference: &reference, key_bytes, range: range.clone() };
                let mut out = Vec::new();
                open.read(&wanted, &mut out).unwrap();
                let end = range.end.min(value.len());
                assert_eq!(out, value[range.start.min(end)..end], "{range:?} of {}", value.len());
            }
        }
    }
    assert_eq!(open.bytes(), offset);
    assert!(open.sync().unwrap());
    assert!(!open.sync().unwrap(), "nothing was written since");
    let again = OpenBlobs::reopen(&storage, "00000007.blobs", NUMBER).unwrap();
    assert_eq!(again.bytes(), offset);
}

#[test]
fn the_device_is_asked_to_begin_with_what_has_come_once_that_is_much() {
    let storage = Faulty::new(Arc::new(Memory::new()));
    let (on, when) = (Operation::WriteBack, When::Once { after: 1 });
    storage.inject(Fault { on, file: "*".to_owned(), when, effect: Effect::Fail(ErrorKind::Io) });
    let header = header(Origin::Written);
    let open =
        OpenBlobs::create(&storage, &RecycledFiles::default(), "00000007.blobs", &header, 4 << 20).unwrap();
    let asked = || storage.counters().of(Operation::WriteBack).operations;
    let piece = vec![1; 700_000];
    let mut offset = BLOB_HEADER_BYTES as u64;
    let mut put = || {
        open.write_at(offset, &piece).unwrap();
        offset += piece.len() as u64;
    };
    put();
    assert!(!open.is_write_back_due());
    open.begin_write_back().unwrap();
    assert_eq!(asked(), 0);
    put();
    assert!(open.is_write_back_due());
    open.begin_write_back().unwrap();
    assert!(!open.is_write_back_due());
    open.begin_write_back().unwrap();
    assert_eq!(asked(), 1, "with all of it");
    put();
    put();
    assert_eq!(open.begin_write_back().unwrap_err().kind, ErrorKind::Unsynced);
    assert_eq!(asked(), 2);
}

#[test]
fn a_value_that_is_not_whole_is_not_held() {
    for damage in [None, Some(0), Some(CHUNK_BYTES), Some(2 * CHUNK_BYTES)] {
        let storage = Memory::new();
        let file = storage.create("00000007.blobs").unwrap();
        file.write_at(0, &header(Origin::Written).encode()).unwrap();
        let (key, value) = values().pop().unwrap();
        let (bytes, reference) = record(0, BLOB_HEADER_BYTES as u64, &key, &value);
        file.write_at(reference.offset, &bytes).unwrap();
        if let Some(at) = damage {
            let chunks_at = reference.offset + (bytes.len() - value.len()) as u64 / 8 * 8;
            file.write_at(chunks_at + at as u64, &[0xee]).unwrap();
        }
        let unsealed = UnsealedBlobs::open(&storage, "00000007.blobs").unwrap();
        // A key's length is a guess.
        for key_bytes in [key.len(), 0] {
            assert_eq!(unsealed.holds(&reference, key_bytes).unwrap(), damage.is_none(), "{damage:?}");
        }
    }
}

#[test]
fn a_sealed_segment_is_read_by_place_and_by_ordinal() {
    let storage: Arc<dyn Storage> = Arc::new(Memory::new());
    let (meta, references, relocation, place) = sealed(&*storage);
    for map in [true, false] {
        let segment = BlobSegment::open(&*storage, &meta, map).unwrap();
        assert_eq!((segment.number(), segment.ordinals().len()), (NUMBER, meta.ordinals));
        for (reference, (key, value)) in references.iter().zip(values()) {
            let mut out = Vec::new();
            assert!(segment.read(&whole(reference, &key), ReadMode::Blocking, &mut out).unwrap());
            assert_eq!(out, value);
            out.clear();
            // What moved here from elsewhere is found by its number, wherever it was before.
            let moved = Reference { offset: 8, ..*reference };
            let wanted = whole(&moved, &key);
            assert!(segment.read_ordinal(reference.ordinal, &wanted, ReadMode::Blocking, &mut out).unwrap());
            assert_eq!(out, value);
            assert_eq!(
                segment.read(&wanted, ReadMode::Blocking, &mut out).unwrap_err().kind,
                ErrorKind::Corrupt
            );
            let resident = segment.read(&whole(reference, &key), ReadMode::ResidentOnly, &mut out).unwrap();
            assert_eq!(resident, map, "what is not mapped may wait");
        }
        assert_eq!(segment.relocation(&place).unwrap(), relocation);
        let beyond = firn_format::manifest::RelocationTarget { offset: place.offset + 1, ..place };
        assert_eq!(segment.relocation(&beyond).unwrap_err().kind, ErrorKind::Corrupt);
    }
}

#[test]
fn every_flip_is_noticed_by_who_opens_or_reads_all() {
    let storage = Memory::new();
    let (meta, references, _, place) = sealed(&storage);
    let bytes = content(&storage, &meta.file);
    let read_all = |storage: &dyn Storage| -> Result<()> {
        let segment = BlobSegment::open(storage, &meta, true)?;
        segment.relocation(&place)?;
        references.iter().zip(values()).try_for_each(|(reference, (key, _))| {
            segment.read(&whole(reference, &key), ReadMode::Blocking, &mut Vec::new()).map(drop)
        })
    };
    read_all(&storage).unwrap();
    // Every byte of what is not a value, and some of the values'; padding, which is not read,
    // apart.
    let records_end = meta.bytes as usize - 64 - place.bytes as usize - 4 * meta.ordinals as usize;
    let is_padding = |at: usize| {
        references.iter().zip(values()).any(|(reference, (key, value))| {
            let start = reference.offset as usize;
            let end = start + plain_record_bytes(KEYSPACE, key.len(), value.len());
            let checksums =
                if value.len() <= usize::from(u16::MAX) { 0 } else { value.len().div_ceil(CHUNK_BYTES) };
            let unpadded = start + 24 + 8 * checksums + key.len() + value.len();
            (unpadded..end).contains(&at)
        })
    };
    let some = (0..records_end).step_by(4099).chain(0..300).chain(records_end..bytes.len());
    for at in some.filter(|at| !is_padding(*at)) {
        let damaged = Memory::new();
        let file = damaged.create(&meta.file).unwrap();
        file.write_at(0, &bytes).unwrap();
        file.write_at(at as u64, &[bytes[at] ^ 1]).unwrap();
        let error = read_all(&damaged).expect_err(&format!("byte {at}"));
        assert_eq!((error.kind, error.file.as_str()), (ErrorKind::Corrupt, meta.file.as_str()));
    }
}

fn content(storage: &dyn Storage, name: &str) -> Vec<u8> {
    let file = storage.open_read(name).unwrap();
    let mut bytes = vec![0; file.len() as usize];
    file.read_at(0, &mut bytes).unwrap();
    bytes
}

#[test]
fn another_file_is_not_taken_for_it() {
    let storage = Memory::new();
    let (meta, ..) = sealed(&storage);
    for other in [
        BlobSegmentMeta { number: SegmentNumber(8), ..meta.clone() },
        BlobSegmentMeta { bytes: meta.bytes + 8, ..meta.clone() },
        BlobSegmentMeta { ordinals: 1, ..meta.clone() },
        BlobSegmentMeta { checksum: 1, ..meta.clone() },
    ] {
        assert_eq!(BlobSegment::open(&storage, &other, true).unwrap_err().kind, ErrorKind::Corrupt);
    }
    let missing = BlobSegmentMeta { file: "gc-2-000000.blobs".to_owned(), ..meta };
    assert_eq!(BlobSegment::open(&storage, &missing, true).unwrap_err().kind, ErrorKind::NotFound);
}
