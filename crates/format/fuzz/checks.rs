//! What must hold for any bytes, one function for each decoder.
//!
//! The fuzz targets call these with bytes that libFuzzer makes up, the tests in
//! `tests/it/damage.rs` with bytes from a seed. Each function panics if the decoder is at fault.
//! What a decoder accepts, encoding gives back byte for byte; where there is a form of an older
//! version, bytes that decode to the same.

use std::ops::Bound;

use firn_format::blob::record::{HEAD_BYTES_MIN, long_head_bytes};
use firn_format::blob::segment::{
    BLOB_FOOTER_BYTES, BLOB_FOOTER_MAGIC, BLOB_HEADER_BYTES, BLOB_SEGMENT_MAGIC,
};
use firn_format::blob::{
    BlobFooter, BlobRecord, BlobSegmentHeader, Ordinals, REFERENCE_BYTES_MAX, Reference, Relocation,
};
use firn_format::bytes::Reader;
use firn_format::checksum;
use firn_format::combiner::{DATA_BYTES, PIECES_MAX, Piece as CombinedPiece, SLOT_BYTES, SlotHead, pieces};
use firn_format::compression::decompress;
use firn_format::datatype::key::{COLLECTION_BYTES, HASH_BYTES, SLOT_PREFIX_BYTES};
use firn_format::datatype::slot::hash_tag;
use firn_format::datatype::{
    CatalogRecord, Expiry, Field, FieldKey, KEYSPACES, Purge, Score, Slot, UserKey, Value, hash_of, range,
};
use firn_format::dump::datatype::{Part, dump_record};
use firn_format::file_name;
use firn_format::log::{
    FRAME_HEADER_BYTES, Frame, FrameKind, FrameWriter, LARGE_BATCH_BYTES, Record, SEGMENT_HEADER_BYTES,
    SegmentHeader, record_span, scan_frames,
};
use firn_format::log_object::{LOG_OBJECT_HEADER_BYTES, LogObject, Piece};
use firn_format::manifest::{EDIT_HEADER_BYTES, ManifestEdit};
use firn_format::table::block::{Checked, check, seal_raw};
use firn_format::table::data::{DataBlock, Walker};
use firn_format::table::index::Index;
use firn_format::table::{FOOTER_BYTES, Properties, ReferenceSet, TABLE_MAGIC};
use firn_format::tombstone::FragmentList;
use firn_format::{FormatVersion, Position, Sequence, dump, varint};

/// The name of a fuzz target and what it checks.
pub(crate) type Check = (&'static str, fn(&[u8]));

/// Every check.
pub(crate) const ALL: &[Check] = &[
    ("segment_header", segment_header),
    ("frame", frame),
    ("record", record),
    ("manifest", manifest),
    ("log_object", log_object),
    ("combiner", combiner),
    ("varint", number),
    ("file_name", name),
    ("dump", text),
    ("block", block),
    ("data_block", data_block),
    ("index", index),
    ("tombstones", tombstones),
    ("properties", properties),
    ("table", table),
    ("reference", reference),
    ("blob_record", blob_record),
    ("blob_segment", blob_segment),
    ("relocation", relocation),
    ("ordinals", ordinals),
    ("references", references),
    ("datatype_key", datatype_key),
    ("datatype_field", datatype_field),
    ("datatype_value", datatype_value),
    ("datatype_score", datatype_score),
    ("datatype_expiry", datatype_expiry),
    ("datatype_purge", datatype_purge),
    ("datatype_catalog", datatype_catalog),
    ("datatype_slot", datatype_slot),
    ("datatype_dump", datatype_dump),
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

/// A log object, as it stands and with length and checksum made right.
fn log_object(bytes: &[u8]) {
    let check = |bytes: &[u8]| {
        let Ok(object) = LogObject::decode(bytes) else { return };
        let mut again = Vec::new();
        object.pieces.iter().for_each(|piece: &Piece<'_>| piece.encode(&mut again));
        // The same but for the version: headers of blob segments in it get today's.
        let again = object.id.encode(object.kind, &again);
        assert_eq!(again.len(), bytes.len());
        assert_eq!(LogObject::decode(&again).as_ref(), Ok(&object));
    };
    check(bytes);
    let mut sealed = bytes.to_vec();
    if let Some((header, pieces)) = sealed.split_at_mut_checked(LOG_OBJECT_HEADER_BYTES) {
        header[48..56].copy_from_slice(&(pieces.len() as u64).to_le_bytes());
        let (signed, checksum) = header.split_at_mut(56);
        checksum.copy_from_slice(&checksum::xxh3_of_two(signed, pieces).to_le_bytes());
        check(&sealed);
    }
}

/// A slot of a combiner: as it stands, and with an entry whose checksum is made right.
fn combiner(bytes: &[u8]) {
    if let Some(head) = SlotHead::read(bytes) {
        let mut again = bytes.to_vec();
        head.write(&mut again);
        assert_eq!(SlotHead::read(&again), Some(head));
    }
    let head = SlotHead { salt: 7, name: "a.log".to_owned() };
    let mut slot = vec![0; SLOT_BYTES];
    head.write(&mut slot);
    let entries = &mut slot[4096..];
    entries[..bytes.len()].copy_from_slice(bytes);
    assert!(pieces(&slot, &head).all(|(piece, found)| found.len() == piece.bytes as usize));
    let fields: Vec<u8> = bytes.iter().copied().cycle().take(12).chain([0; 12]).take(12).collect();
    let mut fields = Reader::new(&fields, 0);
    let (Ok(offset), Ok(at)) = (fields.u64(), fields.u32()) else { return };
    let at = at as usize % DATA_BYTES;
    let piece = &bytes[..bytes.len().min(DATA_BYTES - at)];
    if !piece.is_empty() {
        let written = CombinedPiece::write(&mut slot, head.salt, PIECES_MAX - 1, (offset, at), piece);
        assert_eq!(pieces(&slot, &head).last(), Some((written, piece)));
    }
}

/// A varint.
fn number(bytes: &[u8]) {
    if let Ok((number, taken)) = varint::decode(bytes) {
        let mut again = Vec::new();
        varint::encode(number, &mut again);
        assert_eq!(again, &bytes[..taken]);
    }
}

/// A file's name: if it parses, it is written in one way only and leads out of no directory.
fn name(bytes: &[u8]) {
    let Ok(name) = std::str::from_utf8(bytes) else { return };
    if let Some(parsed) = file_name::parse(name) {
        assert_eq!(parsed.to_string(), name);
        assert!(!name.contains(['/', '\\']) && !name.starts_with('.'));
    }
}

/// Dumps under each kind's name: they end, say where an error is, and it is inside the file.
fn text(bytes: &[u8]) {
    for name in [
        "0000000000000000.log",
        "manifest-0000000000000001",
        "flush-1-000000.table",
        "00000001.blobs",
        "LOCK",
        "?",
    ] {
        let mut out = String::new();
        let error = dump::describe(name, bytes, &mut out).expect("a string takes any text");
        if let Some(error) = error {
            assert!(error.offset <= bytes.len(), "{error:?}");
            assert!(out.lines().last().is_some_and(|line| line.contains("ERROR")));
        }
    }
}

/// A block of a table, as it stands and with its checksum made right: decompression ends and is in
/// proportion.
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

/// The payload of a data block: searches and walks end and agree with one another as far as they
/// go.
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

/// Both levels of an index: the first byte says where the top level ends; the rest is one index
/// block.
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
    let error = dump::describe("flush-1-000000.table", &sealed, &mut out).expect("a string takes any text");
    assert!(error.is_none_or(|error| error.offset <= sealed.len()));
}

/// A reference to a value.
fn reference(bytes: &[u8]) {
    if let Ok(reference) = Reference::decode(bytes) {
        let again = reference.encode();
        assert_eq!(Reference::decode(&again), Ok(reference));
        // One of before is given a shorter form where it can have one: of 24 bytes, or with all 8
        // bytes of the checksum.
        let has_all = again.len() < REFERENCE_BYTES_MAX && bytes.len() == again.len() + 4;
        assert!(bytes.len() == REFERENCE_BYTES_MAX || has_all || bytes == &*again);
    }
}

/// A value's record: its head, and its chunks as far as they are there.
fn blob_record(bytes: &[u8]) {
    for bytes in [bytes, &seal_value(bytes)] {
        let Ok(record) = BlobRecord::decode(bytes) else { continue };
        let chunks = (0..record.chunk_count()).map(|index| record.chunk(index));
        let mut again = Vec::new();
        let checksum = record.head.encode(chunks, record.key, &mut again);
        // What has a long head is given a short one today where it can have one.
        if again.len() == record.chunk_span(0).start {
            assert_eq!((checksum, &again[..]), (record.reference_checksum(), &bytes[..again.len()]));
        }
        let mut value = Vec::new();
        for index in 0..record.chunk_count() {
            let Some(stored) = bytes.get(record.chunk_span(index)) else { return };
            if record.decode_chunk(index, stored, &mut value).is_err() {
                return;
            }
        }
        assert_eq!(value.len(), record.head.value_bytes as usize);
    }
}

/// Header and footer of a blob segment, as they stand and with their checksums made right; and its
/// dump.
fn blob_segment(bytes: &[u8]) {
    let mut sealed = bytes.to_vec();
    if let Some(header) = sealed.first_chunk_mut::<BLOB_HEADER_BYTES>() {
        header[..8].copy_from_slice(&BLOB_SEGMENT_MAGIC);
        header[12..16].fill(0);
        let checksum = checksum::crc32c(header);
        header[12..16].copy_from_slice(&checksum.to_le_bytes());
    }
    if let Some(footer) = sealed.last_chunk_mut::<BLOB_FOOTER_BYTES>() {
        footer[..8].copy_from_slice(&BLOB_FOOTER_MAGIC);
        let checksum = checksum::xxh3(&footer[..BLOB_FOOTER_BYTES - 8]);
        footer[BLOB_FOOTER_BYTES - 8..].copy_from_slice(&checksum.to_le_bytes());
    }
    for bytes in [bytes, &sealed] {
        let is_current = |bytes: &[u8]| bytes[8..12] == (FormatVersion::CURRENT as u32).to_le_bytes();
        if let Ok(header) = BlobSegmentHeader::decode(bytes) {
            assert_eq!(BlobSegmentHeader::decode(&header.encode()), Ok(header));
            assert!(!is_current(bytes) || bytes.starts_with(&header.encode()));
        }
        let footer = bytes.last_chunk::<BLOB_FOOTER_BYTES>();
        if let Some(Ok(footer)) = footer.map(|footer| BlobFooter::decode(footer, bytes.len() as u64)) {
            let again = encoded(|out| footer.encode(out));
            assert_eq!(BlobFooter::decode(&again, bytes.len() as u64), Ok(footer));
            let found = &bytes[bytes.len() - again.len()..];
            assert!(!is_current(found) || found == again);
        }
        let mut out = String::new();
        let error = dump::describe("00000001.blobs", bytes, &mut out).expect("a string takes any text");
        assert!(error.is_none_or(|error| error.offset <= bytes.len()));
    }
}

/// A relocation, as it stands and with its checksum made right.
fn relocation(bytes: &[u8]) {
    let mut sealed = bytes.to_vec();
    if let Some(body) = bytes.len().checked_sub(8) {
        let checksum = checksum::xxh3(&bytes[..body]);
        sealed[body..].copy_from_slice(&checksum.to_le_bytes());
    }
    for bytes in [bytes, &sealed] {
        if let Ok((relocation, taken)) = Relocation::decode(bytes) {
            assert_eq!(encoded(|out| relocation.encode(out)), &bytes[..taken]);
            assert_eq!(relocation.survivors().len(), u64::from(relocation.survivor_count()));
        }
    }
}

/// A set of ordinals.
fn ordinals(bytes: &[u8]) {
    let mut input = Reader::new(bytes, 0);
    if let Ok(set) = Ordinals::decode(&mut input) {
        assert_eq!(encoded(|out| set.encode(out)), &bytes[..input.offset()]);
    }
}

/// A table's reference set.
fn references(bytes: &[u8]) {
    if let Ok(set) = ReferenceSet::decode(bytes) {
        assert_eq!(encoded(|out| set.encode(out)), bytes);
    }
}

/// `bytes` with the right checksum of the head and key at their front, as far as they are there.
fn seal_value(bytes: &[u8]) -> Vec<u8> {
    let mut sealed = bytes.to_vec();
    let Some(fields) = bytes.first_chunk::<HEAD_BYTES_MIN>() else { return sealed };
    let end = if fields[23] == 0 {
        let value_bytes = u32::from_le_bytes([fields[12], fields[13], fields[14], fields[15]]) as usize;
        let key_bytes = usize::from(u16::from_le_bytes([fields[20], fields[21]]));
        long_head_bytes(value_bytes, fields[22] != 0) + key_bytes
    } else {
        HEAD_BYTES_MIN + usize::from(fields[14])
    };
    if let Some(body) = bytes.get(4..end) {
        let checksum = checksum::crc32c(body);
        sealed[..4].copy_from_slice(&checksum.to_le_bytes());
    }
    sealed
}

/// What `encode` appends.
fn encoded(encode: impl Fn(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    encode(&mut out);
    out
}

/// A key and a value: the first byte says how long the key is.
fn key_and_value(bytes: &[u8]) -> (&[u8], &[u8]) {
    let (at, rest) = bytes.split_first().unwrap_or((&0, &[]));
    rest.split_at(usize::from(*at).min(rest.len()))
}

/// `bytes` with the right hash at offset `at`, of what stands behind it, if there is room for one.
fn hashed(bytes: &[u8], at: usize) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let hash = bytes.get(at + HASH_BYTES..).map(hash_of);
    if let (Some(hash), Some(place)) = (hash, bytes.get_mut(at..at + HASH_BYTES)) {
        place.copy_from_slice(&hash.to_be_bytes());
    }
    bytes
}

/// A key of `keys`: it lies in the range from its own place on.
fn datatype_key(bytes: &[u8]) {
    for bytes in [bytes, &hashed(bytes, SLOT_PREFIX_BYTES)] {
        let Ok(key) = UserKey::decode(bytes) else { continue };
        assert_eq!(encoded(|out| key.encode(out)), bytes);
        let (mut start, mut end) = (Vec::new(), Vec::new());
        range::keys_from(key.database(), key.slot(), key.hash(), &mut start, &mut end);
        assert!(&start[..] <= bytes && bytes < &end[..] && bytes.starts_with(&start));
    }
}

/// A key of `fields`: it lies in the ranges of what it belongs to.
fn datatype_field(bytes: &[u8]) {
    for bytes in [bytes, &hashed(bytes, COLLECTION_BYTES + 1)] {
        field_key(bytes);
    }
}

fn field_key(bytes: &[u8]) {
    let Ok(key) = FieldKey::decode(bytes) else { return };
    assert_eq!(encoded(|out| key.encode(out)), bytes);
    let FieldKey { collection, field } = key;
    assert_eq!(Field::decode(&bytes[COLLECTION_BYTES..]), Ok(field));
    let (mut start, mut end) = (Vec::new(), Vec::new());
    collection.kind_range(field.kind(), &mut start, &mut end);
    assert!(&start[..] <= bytes && bytes < &end[..]);
    let (mut start, mut end) = (Vec::new(), Vec::new());
    if field.kind().is_by_hash() {
        collection.hash_range(field.kind(), hash_of(field.member()), &mut start, &mut end);
        assert!(bytes.starts_with(&start) && bytes < &end[..]);
    }
    if let Field::ByScore(score, member) = field {
        let only = Bound::Included(member);
        collection.lex_range(score, only, only, &mut start, &mut end);
        assert!(start == bytes && bytes < &end[..]);
    }
}

/// A value of `keys`.
fn datatype_value(bytes: &[u8]) {
    if let Ok(value) = Value::decode(bytes) {
        assert_eq!(encoded(|out| value.encode(out)), bytes);
    }
}

/// A score: its first 8 bytes, and they order as it does against the next 8.
fn datatype_score(bytes: &[u8]) {
    let (first, rest) = bytes.split_at(bytes.len().min(8));
    let Ok(score) = Score::decode(first) else { return };
    assert_eq!(score.to_bytes(), first);
    assert_eq!(Score::new(score.get()), Some(score));
    if let Ok(other) = Score::decode(&rest[..rest.len().min(8)]) {
        assert_eq!(score.get().partial_cmp(&other.get()), Some(first.cmp(&other.to_bytes())));
    }
}

/// A record of `expiry`.
fn datatype_expiry(bytes: &[u8]) {
    let (key, value) = key_and_value(bytes);
    let key = &hashed(key, 8 + SLOT_PREFIX_BYTES)[..];
    if let Ok(expiry) = Expiry::decode(key, value) {
        assert_eq!(encoded(|out| expiry.encode_key(out)), key);
        assert_eq!(encoded(|out| expiry.encode_value(out)), value);
    }
}

/// A record of `purges`.
fn datatype_purge(bytes: &[u8]) {
    let (key, value) = key_and_value(bytes);
    if let Ok(purge) = Purge::decode(key, value) {
        assert_eq!(encoded(|out| purge.encode_key(out)), key);
        assert_eq!(encoded(|out| purge.encode_value(out)), value);
    }
}

/// A record of `catalog`.
fn datatype_catalog(bytes: &[u8]) {
    let (key, value) = key_and_value(bytes);
    if let Ok(record) = CatalogRecord::decode(key, value) {
        assert_eq!(encoded(|out| record.encode_key(out)), key);
        assert_eq!(encoded(|out| record.encode_value(out)), value);
    }
}

/// A key's slot: that of its tag, if it has one.
fn datatype_slot(bytes: &[u8]) {
    let tag = hash_tag(bytes);
    assert!(tag.len() == bytes.len() || !tag.is_empty() && !tag.contains(&b'}'));
    let same = [b"{", tag, b"}more{of}it"].concat();
    if !tag.is_empty() && !tag.contains(&b'}') {
        assert_eq!(Slot::of(bytes), Slot::of(&same));
    }
}

/// Dumps in each keyspace: they end, and an error is inside the record.
fn datatype_dump(bytes: &[u8]) {
    let (key, value) = key_and_value(bytes);
    for keyspace in KEYSPACES.into_iter().chain(["another"]) {
        let mut out = String::new();
        let parts = [Part { offset: 100, bytes: key }, Part { offset: 100 + key.len(), bytes: value }];
        let error = dump_record(keyspace, parts[0], parts[1], &mut dump::Lines::new(&mut out));
        if let Some(error) = error.expect("a string takes any text") {
            assert!((100..=100 + key.len() + value.len()).contains(&error.offset), "{error:?}");
        }
    }
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
