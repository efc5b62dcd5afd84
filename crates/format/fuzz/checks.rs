//! What must hold for any bytes, one function for each decoder.
//!
//! The fuzz targets call these with bytes that libFuzzer makes up, the tests in `tests/it/damage.rs` with bytes from
//! a seed. Each function panics if the decoder is at fault. Formats are canonical: what a decoder accepts, encoding
//! gives back byte for byte.

use firn_format::checksum;
use firn_format::file_name;
use firn_format::log::{
    FRAME_HEADER_BYTES, Frame, FrameKind, FrameWriter, LARGE_BATCH_BYTES, Record, SEGMENT_HEADER_BYTES,
    SegmentHeader, record_span, scan_frames,
};
use firn_format::manifest::{EDIT_HEADER_BYTES, ManifestEdit};
use firn_format::table::block::{Checked, check, decompress, seal_raw};
use firn_format::table::data::{DataBlock, Walker};
use firn_format::table::index::Index;
use firn_format::table::{FOOTER_BYTES, Properties, TABLE_MAGIC};
use firn_format::tombstone::FragmentList;
use firn_format::{Position, Sequence, dump, varint};

/// The name of a fuzz target and what it checks.
pub(crate) type Check = (&'static str, fn(&[u8]));

/// Every check.
pub(crate) const ALL: &[Check] = &[
    ("segment_header", segment_header),
    ("frame", frame),
    ("record", record),
    ("manifest", manifest),
    ("varint", number),
    ("file_name", name),
    ("dump", text),
    ("block", block),
    ("data_block", data_block),
    ("index", index),
    ("tombstones", tombstones),
    ("properties", properties),
    ("table", table),
];

/// Runs the check `target` on `bytes`.
pub(crate) fn run(target: &str, bytes: &[u8]) {
    let check = ALL.iter().find(|(name, _)| *name == target);
    let (_, check) = check.expect("a target has a check of its name");
    check(bytes);
}

/// A segment's header, as it stands and with its checksum made right.
fn segment_header(bytes: &[u8]) {
    let check = |bytes: &[u8]| {
        if let Ok(header) = SegmentHeader::decode(bytes) {
            assert_eq!(&header.encode()[..], &bytes[..SEGMENT_HEADER_BYTES]);
        }
    };
    check(bytes);
    let mut sealed = bytes.to_vec();
    seal_segment(&mut sealed);
    check(&sealed);
}

/// A frame with all its records, as it stands and with length and checksum made right.
fn frame(bytes: &[u8]) {
    check_frames(bytes);
    let mut sealed = bytes.to_vec();
    seal_frame(&mut sealed);
    check_frames(&sealed);
}

fn check_frames(bytes: &[u8]) {
    let base = Position(0);
    let mut end = 0;
    for (offset, frame) in scan_frames(bytes, base, 0, 0) {
        assert_eq!(offset, end);
        end = offset + frame.bytes();
        assert_eq!(Frame::decode(&bytes[offset..end], Position(offset as u64), 0), Ok(frame));
        let whole = &bytes[offset..end];
        if let Ok(large) = frame.large_batch() {
            let mut again = vec![0xaa; FRAME_HEADER_BYTES + LARGE_BATCH_BYTES];
            let mut writer = FrameWriter::new(&mut again[8..]);
            writer.name_large_batch(&large);
            let word = writer.finish(frame.durable_through, frame.kind, Position(offset as u64), 0);
            again[..8].copy_from_slice(&word.to_le_bytes());
            assert_eq!(again, whole);
        }
        let records: Result<Vec<_>, _> = frame.records().map(|(_, record)| record).collect();
        if let (FrameKind::Batch, Ok(records)) = (frame.kind, records) {
            let mut again = vec![0xaa; whole.len()];
            let mut writer = FrameWriter::new(&mut again[8..]);
            for record in &records {
                writer.put(record);
            }
            let word = writer.finish(frame.durable_through, frame.kind, Position(offset as u64), 0);
            again[..8].copy_from_slice(&word.to_le_bytes());
            assert_eq!(again, whole);
        }
    }
}

/// A record: the trusting way and the strict way agree wherever the strict way accepts.
fn record(bytes: &[u8]) {
    let trusted = Record::at(bytes);
    let _ = record_span(bytes);
    if let Ok(record) = Record::decode(bytes) {
        assert_eq!(trusted, Some(record));
        let mut again = vec![0xaa; record.bytes()];
        assert_eq!(record.encode(&mut again), Some(again.len()));
        assert_eq!(&again[..], &bytes[..again.len()]);
    }
}

/// A manifest edit, as it stands and with length and checksum made right.
fn manifest(bytes: &[u8]) {
    let check = |bytes: &[u8]| {
        if let Ok(edit) = ManifestEdit::decode(bytes) {
            assert_eq!(edit.encode(), bytes);
        }
    };
    check(bytes);
    let mut sealed = bytes.to_vec();
    seal_edit(&mut sealed);
    check(&sealed);
}

/// A varint.
fn number(bytes: &[u8]) {
    if let Ok((number, taken)) = varint::decode(bytes) {
        let mut again = Vec::new();
        varint::encode(number, &mut again);
        assert_eq!(again, &bytes[..taken]);
    }
}

/// A file's name: one that parses is written in one way only and leads out of no directory.
fn name(bytes: &[u8]) {
    let Ok(name) = std::str::from_utf8(bytes) else { return };
    if let Some(parsed) = file_name::parse(name) {
        assert_eq!(parsed.to_string(), name);
        assert!(!name.contains(['/', '\\']) && !name.starts_with('.'));
    }
}

/// Dumps under each kind's name: they end, say where an error is, and it is inside the file.
fn text(bytes: &[u8]) {
    for name in ["0000000000000000.log", "manifest-0000000000000001", "drain-1-000000.table", "LOCK", "?"] {
        let mut out = String::new();
        let error = dump::describe(name, bytes, &mut out).expect("a string takes any text");
        if let Some(error) = error {
            assert!(error.offset <= bytes.len(), "{error:?}");
            assert!(out.lines().last().is_some_and(|line| line.contains("ERROR")));
        }
    }
}

/// A block of a table, as it stands and with its checksum made right: decompression ends and is in proportion.
fn block(bytes: &[u8]) {
    let check_block = |bytes: &[u8]| {
        if let Ok(Checked::Compressed { codec, stored, raw_bytes }) = check(bytes) {
            let mut out = Vec::new();
            if decompress(codec, stored, raw_bytes, &mut out).is_ok() {
                assert_eq!(out.len(), raw_bytes);
            }
        }
    };
    check_block(bytes);
    if let Some(body) = bytes.len().checked_sub(8) {
        let mut sealed = bytes.to_vec();
        let checksum = checksum::xxh3(&bytes[..body]);
        sealed[body..].copy_from_slice(&checksum.to_le_bytes());
        check_block(&sealed);
    }
}

/// The payload of a data block: searches and walks end and agree with one another as far as they go.
fn data_block(bytes: &[u8]) {
    let Ok(block) = DataBlock::new(bytes) else { return };
    let key = &bytes[..bytes.len().min(3)];
    let _ = block.find(key, Sequence::MAX);
    let mut walker = Walker::default();
    let mut forward = 0;
    let mut moved = walker.seek_first(&block);
    while moved.is_ok() && walker.entry(bytes).is_some() {
        forward += 1;
        assert!(forward <= bytes.len(), "a walk takes bytes with every step");
        moved = walker.next(&block);
    }
    let _ = walker.seek(&block, key).and_then(|()| walker.prev(&block));
    let mut backward = 0;
    let mut moved = walker.seek_last(&block);
    while moved.is_ok() && walker.entry(bytes).is_some() && backward <= bytes.len() {
        backward += 1;
        moved = walker.prev(&block);
    }
    let _ = walker.seek_before(&block, key);
}

/// Both levels of an index: the first byte says where the top level ends; the rest is one index block.
fn index(bytes: &[u8]) {
    let Some((at, rest)) = bytes.split_first() else { return };
    let (top, region) = rest.split_at(usize::from(*at).min(rest.len()));
    let mut region = region.to_vec();
    seal_raw(&mut region, 0);
    if let Ok(index) = Index::decode(top, &region, 4096) {
        assert!(index.find(top) <= index.block_count());
        assert!(index.memory_bytes() <= 64 * bytes.len() + (1 << 18));
    }
}

/// Range tombstones.
fn tombstones(bytes: &[u8]) {
    if let Ok(list) = FragmentList::decode(bytes) {
        let mut again = Vec::new();
        list.encode(&mut again);
        assert_eq!(again, bytes);
        assert_eq!(FragmentList::from_spans(list.spans()), list, "canonical");
    }
}

/// A table's properties: what is skipped is not kept, so only values go there and back.
fn properties(bytes: &[u8]) {
    if let Ok(properties) = Properties::decode(bytes) {
        let mut again = Vec::new();
        properties.encode(&mut again);
        assert_eq!(Properties::decode(&again), Ok(properties));
    }
}

/// A whole table with its footer made right, as far as its dump goes.
fn table(bytes: &[u8]) {
    let Some(at) = bytes.len().checked_sub(FOOTER_BYTES) else { return };
    let mut sealed = bytes.to_vec();
    sealed[at..at + 8].copy_from_slice(&TABLE_MAGIC);
    sealed[at + 8..at + 16].copy_from_slice(&1_u64.to_le_bytes());
    let checksum = checksum::xxh3(&sealed[at..at + 120]);
    sealed[at + 120..].copy_from_slice(&checksum.to_le_bytes());
    let mut out = String::new();
    let error = dump::describe("drain-1-000000.table", &sealed, &mut out).expect("a string takes any text");
    assert!(error.is_none_or(|error| error.offset <= sealed.len()));
}

/// Gives a segment's header the right checksum, if there is room for one.
fn seal_segment(bytes: &mut [u8]) {
    if let Some(header) = bytes.first_chunk_mut::<SEGMENT_HEADER_BYTES>() {
        header[12..16].fill(0);
        let checksum = checksum::crc32c(header);
        header[12..16].copy_from_slice(&checksum.to_le_bytes());
    }
}

/// Makes `bytes` one frame with the right length and checksum, if it is long enough.
fn seal_frame(bytes: &mut Vec<u8>) {
    bytes.truncate(bytes.len() & !7);
    if bytes.len() >= FRAME_HEADER_BYTES {
        let length = bytes.len() as u32;
        let checksum = checksum::frame_checksum(&bytes[8..], length, Position(0), 0);
        bytes[..4].copy_from_slice(&length.to_le_bytes());
        bytes[4..8].copy_from_slice(&checksum.to_le_bytes());
    }
}

/// Gives a manifest edit the right length and checksum, if there is room for them.
pub(crate) fn seal_edit(bytes: &mut [u8]) {
    if let Some((header, changes)) = bytes.split_at_mut_checked(EDIT_HEADER_BYTES) {
        header[32..40].copy_from_slice(&(changes.len() as u64).to_le_bytes());
        let checksum = checksum::xxh3_of_two(&header[..40], changes);
        header[40..48].copy_from_slice(&checksum.to_le_bytes());
    }
}
