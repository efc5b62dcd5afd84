use super::*;
use crate::key::{GRANULE_BYTES, Kind};
use crate::log::scan::{EndReason, scan_frames};
use crate::log::segment::SEGMENT_HEADER_BYTES;

const GENERATION: u64 = 3;
const BASE: Position = Position(2 * GRANULE_BYTES);

fn record<'a>(key: &'a [u8], value: &'a [u8]) -> Record<'a> {
    Record { keyspace: 1, kind: Kind::Put, expires_at_ms: 0, key, value }
}

/// A frame with `records` at `position`, in memory that is not zero.
fn frame(records: &[Record<'_>], position: Position) -> Vec<u8> {
    let bytes = frame_bytes(records.iter().map(Record::bytes).sum());
    let mut out = vec![0xee; bytes];
    let (word, body) = out.split_at_mut(8);
    let mut writer = FrameWriter::new(body);
    let mut offset = FRAME_HEADER_BYTES;
    for record in records {
        assert_eq!(writer.put(record), offset);
        offset += record.bytes();
    }
    let first = writer.finish(Position(64), FrameKind::Batch, position, GENERATION);
    word.copy_from_slice(&first.to_le_bytes());
    out
}

#[test]
fn a_batch_comes_back_whole() {
    let records = [
        record(b"a", b"1"),
        Record { kind: Kind::Delete, ..record(b"b", b"") },
        Record { expires_at_ms: 77, ..record(b"", &[5; 100]) },
        Record { kind: Kind::DeleteRange, keyspace: u32::MAX, ..record(b"c", b"d") },
    ];
    let mut bytes = frame(&records, BASE);
    bytes.extend_from_slice(&[0xff; 16]);
    let decoded = Frame::decode(&bytes, BASE, GENERATION).unwrap();
    assert_eq!((decoded.kind, decoded.durable_through), (FrameKind::Batch, Position(64)));
    assert_eq!(decoded.record_count, 4);
    let found: Vec<_> = decoded.records().map(|(offset, record)| (offset, record.unwrap())).collect();
    assert_eq!(found.iter().map(|(_, record)| *record).collect::<Vec<_>>(), records);
    for (offset, record) in found {
        assert_eq!(Record::at(&bytes[offset..]), Some(record));
    }
}

#[test]
fn a_single_is_the_same_bytes_as_a_batch_of_one() {
    let record = record(b"key", b"value");
    let expected = frame(&[record], BASE);
    let mut out = vec![0x55; single_frame_bytes(3, 5, false)];
    let word = encode_single(&mut out[8..], &record, Position(64), BASE, GENERATION);
    out[..8].copy_from_slice(&word.to_le_bytes());
    assert_eq!(out, expected);
}

#[test]
fn another_place_or_generation_does_not_pass() {
    let bytes = frame(&[record(b"key", b"value")], BASE);
    assert!(Frame::decode(&bytes, BASE, GENERATION).is_ok());
    assert_eq!(Frame::decode(&bytes, Position(BASE.0 + 8), GENERATION).unwrap_err().offset, 4);
    assert_eq!(Frame::decode(&bytes, BASE, GENERATION + 1).unwrap_err().offset, 4);
}

#[test]
fn a_void_hides_whatever_was_written() {
    let mut out = vec![0xaa; 64];
    let mut writer = FrameWriter::new(&mut out[8..]);
    writer.put(&record(b"half", b""));
    let word = writer.finish(Position(0), FrameKind::Void, BASE, GENERATION);
    out[..8].copy_from_slice(&word.to_le_bytes());
    let decoded = Frame::decode(&out, BASE, GENERATION).unwrap();
    assert_eq!((decoded.kind, decoded.records().count()), (FrameKind::Void, 0));
}

#[test]
fn a_large_batch_is_found_by_its_name() {
    let there = Position(9 * GRANULE_BYTES);
    let large = frame(&[record(b"key", &[1; 1000])], Position(there.0 + SEGMENT_HEADER_BYTES as u64));
    let name = LargeBatch::new(there, u64::from_le_bytes(large[..8].try_into().unwrap()));
    let mut out = vec![0xee; FRAME_HEADER_BYTES + LARGE_BATCH_BYTES];
    let mut writer = FrameWriter::new(&mut out[8..]);
    writer.name_large_batch(&name);
    let word = writer.finish(Position(0), FrameKind::LargeBatch, BASE, GENERATION);
    out[..8].copy_from_slice(&word.to_le_bytes());

    let decoded = Frame::decode(&out, BASE, GENERATION).unwrap();
    assert_eq!(decoded.records().count(), 0);
    let found = decoded.large_batch().unwrap();
    assert_eq!(found, name);
    assert_eq!(found.frame(&large, GENERATION).unwrap().records().count(), 1);
    for other in [
        LargeBatch { checksum: name.checksum ^ 1, ..name },
        LargeBatch { bytes: name.bytes - 8, ..name },
        LargeBatch { bytes: name.bytes + 8, ..name },
    ] {
        assert!(other.frame(&large, GENERATION).unwrap_err().expected.contains("checksum"), "{other:?}");
    }
    assert!(Frame::decode(&large, name.frame_position(), GENERATION).unwrap().large_batch().is_err());
}

#[test]
fn a_large_batch_is_a_batch() {
    let there = Position(9 * GRANULE_BYTES);
    let position = Position(there.0 + SEGMENT_HEADER_BYTES as u64);
    let mut void = vec![0; 64];
    let word = FrameWriter::new(&mut void[8..]).finish(Position(0), FrameKind::Void, position, GENERATION);
    void[..8].copy_from_slice(&word.to_le_bytes());
    assert_eq!(LargeBatch::new(there, word).frame(&void, GENERATION).unwrap_err().offset, 20);
}

#[test]
fn names_of_large_batches_that_cannot_be_are_refused() {
    let good = LargeBatch { base: Position(9 * GRANULE_BYTES), bytes: 4096, checksum: 7 }.encode();
    assert!(LargeBatch::decode(&good).is_ok());
    for (at, byte, offset) in [(0, 1, 0), (7, 0xff, 0), (8, 4, 8), (9, 0, 8), (12, 1, 8), (20, 1, 20)] {
        let mut bytes = good;
        bytes[at] = byte;
        assert_eq!(LargeBatch::decode(&bytes).unwrap_err().offset, offset, "byte {at}");
    }
    assert!(LargeBatch::decode(&good[..16]).is_err());
    assert!(LargeBatch::decode(&[good, good].concat()).is_err());
}

/// Makes the checksum of a changed frame right again.
fn seal(bytes: &mut [u8]) {
    let checksum = checksum::frame_checksum(&bytes[8..], bytes.len() as u32, BASE, GENERATION);
    bytes[4..8].copy_from_slice(&checksum.to_le_bytes());
}

#[test]
fn headers_that_cannot_be_are_refused_at_their_field() {
    let good = frame(&[record(b"key", b"value")], BASE);
    for (at, byte, offset) in [(20, 0, 20), (20, 4, 20), (21, 1, 21), (23, 1, 21), (20, 2, 16), (20, 3, 16)] {
        let mut bytes = good.clone();
        bytes[at] = byte;
        seal(&mut bytes);
        assert_eq!(Frame::decode(&bytes, BASE, GENERATION).unwrap_err().offset, offset, "byte {at} = {byte}");
    }
}

#[test]
fn a_count_that_is_wrong_is_an_error_at_the_end() {
    for (count, said) in [(1u32, "more bytes"), (3, "the end of the frame")] {
        let mut bytes = frame(&[record(b"a", b""), record(b"b", b"")], BASE);
        bytes[16..20].copy_from_slice(&count.to_le_bytes());
        seal(&mut bytes);
        let mut records = Frame::decode(&bytes, BASE, GENERATION).unwrap().records();
        let (_, last) = records.by_ref().find(|(_, record)| record.is_err()).unwrap();
        assert_eq!(last.unwrap_err().found, said);
        assert_eq!(records.next(), None);
    }
}

#[test]
fn lengths_that_cannot_be_are_refused() {
    let good = frame(&[record(b"key", b"value")], BASE);
    for length in [0u32, 8, 16, 25, 28, good.len() as u32 + 8, FRAME_BYTES_MAX as u32] {
        let mut bytes = good.clone();
        bytes[..4].copy_from_slice(&length.to_le_bytes());
        assert_eq!(Frame::decode(&bytes, BASE, GENERATION).unwrap_err().offset, 0, "{length}");
    }
    for cut in 0..good.len() {
        assert!(Frame::decode(&good[..cut], BASE, GENERATION).is_err(), "cut at {cut}");
    }
}

#[test]
#[should_panic(expected = "filled to its end")]
fn a_batch_with_room_left_is_a_bug() {
    let mut out = [0; 64];
    FrameWriter::new(&mut out).finish(Position(0), FrameKind::Batch, BASE, GENERATION);
}

#[test]
#[should_panic(expected = "does not fit")]
fn a_record_past_the_end_is_a_bug() {
    let mut out = [0; 24];
    FrameWriter::new(&mut out).put(&record(b"key", b"value"));
}

/// A segment with room for `capacity` bytes and the given number of frames.
fn segment(frames: usize, capacity: usize) -> Vec<u8> {
    let mut bytes = vec![0; SEGMENT_HEADER_BYTES];
    for index in 0..frames {
        let position = Position(BASE.0 + bytes.len() as u64);
        bytes.extend(frame(&[record(b"key", &[index as u8; 9])], position));
    }
    assert!(bytes.len() <= capacity);
    bytes.resize(capacity, 0);
    bytes
}

#[test]
fn a_scan_ends_where_nothing_was_published() {
    let bytes = segment(5, 1024);
    let mut scan = scan_frames(&bytes, BASE, SEGMENT_HEADER_BYTES, GENERATION);
    assert_eq!(scan.end(), None);
    let offsets: Vec<_> = scan.by_ref().map(|(offset, _)| offset).collect();
    assert_eq!(offsets, [64, 120, 176, 232, 288]);
    let end = scan.end().unwrap();
    assert_eq!((end.offset, &end.reason), (344, &EndReason::Zero));
}

#[test]
fn a_scan_ends_with_the_bytes() {
    for tail in [0, 8, 16] {
        let bytes = segment(2, 176 + tail);
        let end = scan_frames(&bytes, BASE, SEGMENT_HEADER_BYTES, GENERATION).into_end();
        assert_eq!((end.offset, end.reason), (176, EndReason::EndOfBytes), "{tail}");
    }
    let end = scan_frames(&[], BASE, SEGMENT_HEADER_BYTES, GENERATION).into_end();
    assert_eq!(end.reason, EndReason::EndOfBytes);
}

#[test]
fn a_scan_ends_at_a_torn_frame_and_names_it() {
    let mut bytes = segment(3, 1024);
    bytes[120 + 40] ^= 1;
    let scan = scan_frames(&bytes, BASE, SEGMENT_HEADER_BYTES, GENERATION);
    assert_eq!(scan.clone().count(), 1);
    let end = scan.into_end();
    assert_eq!(end.offset, 120);
    // Messages show it, in words.
    let message = end.reason.to_string();
    assert!(message.starts_with("expected ") && !message.contains("Error"), "{message}");
    let EndReason::Torn(error) = end.reason else { panic!("{:?}", end.reason) };
    assert_eq!(error.offset, 124);
}
