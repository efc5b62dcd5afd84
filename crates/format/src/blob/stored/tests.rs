use super::*;
use crate::blob::BlobRecord;

fn text(bytes: usize) -> Vec<u8> {
    (0_u32..).flat_map(|n| format!("line {n} ").into_bytes()).take(bytes).collect()
}

fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 7_u64;
    let next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    std::iter::repeat_with(next).take(bytes).collect()
}

/// The codec of its record, once that was decoded again.
fn there_and_back(value: &[u8], stored: &Stored<'_>) -> Compression {
    let mut bytes = Vec::new();
    stored.encode_head((SegmentNumber(1), 2), (0, b"key"), &mut bytes);
    bytes.extend_from_slice(stored.bytes());
    let record = BlobRecord::decode(&bytes).unwrap();
    assert_eq!(record.bytes(), stored.record_bytes(0, 3));
    let mut out = Vec::new();
    for index in 0..record.chunk_count() {
        record.decode_chunk(index, &bytes[record.chunk_span(index)], &mut out).unwrap();
    }
    assert!(out == value);
    record.head.codec
}

#[test]
fn what_shrinks_is_compressed_chunk_by_chunk() {
    let compressor = &mut Compressor::default();
    let (long, mixed) = (text(3 * CHUNK_BYTES + 5), [text(CHUNK_BYTES), noise(CHUNK_BYTES)].concat());
    for codec in [Compression::Lz4, Compression::Zstd] {
        for value in [&long[..100], &long[..CHUNK_BYTES], &long, &mixed, &vec![0; CHUNK_BYTES]] {
            let stored = Stored::new(value, codec, compressor).unwrap();
            let is_constant = value.iter().all(|byte| *byte == 0);
            let expected = if is_constant { Compression::Lz4 } else { codec };
            assert_eq!(there_and_back(value, &stored), expected);
            assert!(stored.bytes().len() < value.len() - value.len() / 16);
        }
    }
    let stored = Stored::new(&mixed, Compression::Zstd, compressor).unwrap();
    let packed = stored.packed.unwrap();
    assert!((packed.chunks[0].stored_bytes as usize) < CHUNK_BYTES / 2);
    assert_eq!(packed.chunks[1].stored_bytes as usize, CHUNK_BYTES);
}

#[test]
fn chunks_of_a_codec_that_is_settled_come_back_whatever_they_are() {
    let key = b"key";
    let raws = [text(CHUNK_BYTES), noise(CHUNK_BYTES), vec![0; CHUNK_BYTES], vec![0; 3000]];
    let value = raws.concat();
    for codec in [Compression::Lz4, Compression::Zstd] {
        let (compressor, mut chunks, mut bytes) = (&mut Compressor::default(), Vec::new(), Vec::new());
        for raw in value.chunks(CHUNK_BYTES) {
            let (chunk, stored) = stored_chunk(raw, codec, compressor).unwrap();
            chunks.push(chunk);
            bytes.extend_from_slice(stored);
        }
        let lengths: Vec<u32> = chunks.iter().map(|chunk| chunk.stored_bytes).collect();
        assert!(lengths[0] < CHUNK_BYTES as u32 / 2 && lengths[1] == CHUNK_BYTES as u32, "{lengths:?}");
        assert!(lengths[2] < 5000 && lengths[3] < 100, "{codec:?}: {lengths:?}");
        let head = BlobHead {
            segment: SegmentNumber(1),
            ordinal: 0,
            value_bytes: value.len() as u32,
            keyspace: 0,
            key_bytes: key.len() as u16,
            codec,
        };
        let mut record = Vec::new();
        head.encode(chunks.into_iter(), key, &mut record);
        record.extend_from_slice(&bytes);
        let decoded = BlobRecord::decode(&record).unwrap();
        let mut out = Vec::new();
        for index in 0..decoded.chunk_count() {
            decoded.decode_chunk(index, &record[decoded.chunk_span(index)], &mut out).unwrap();
        }
        assert!(out == value, "{codec:?}");
    }
}

#[test]
fn what_does_not_shrink_is_not() {
    let compressor = &mut Compressor::default();
    for codec in [Compression::None, Compression::Lz4, Compression::Zstd] {
        let end = [noise(4 * CHUNK_BYTES), vec![7; 24]].concat();
        for value in [&noise(5000)[..], b"", b"short", &end] {
            let stored = Stored::new(value, codec, compressor).unwrap();
            assert!(stored == Stored::plain(value), "{codec:?}");
            assert_eq!(there_and_back(value, &stored), Compression::None);
        }
    }
    let text = text(100);
    assert_eq!(Stored::new(&text, Compression::None, compressor), Ok(Stored::plain(&text)));
}
