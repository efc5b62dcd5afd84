//! Heads, chunks, and what may not pass.

use super::*;

fn head(value: &[u8], key: &[u8]) -> BlobHead {
    BlobHead {
        segment: SegmentNumber(3),
        ordinal: 17,
        value_bytes: value.len() as u32,
        keyspace: 2,
        key_bytes: key.len() as u16,
        codec: Compression::None,
    }
}

/// A whole record, and the reference to it.
fn plain(key: &[u8], value: &[u8]) -> (Vec<u8>, Reference) {
    let head = head(value, key);
    let mut out = Vec::new();
    let checksum = head.encode(plain_chunks(value), key, &mut out);
    assert_eq!(out.len(), head.encoded_bytes() + key.len());
    out.extend_from_slice(value);
    out.extend_from_slice(padding(out.len()));
    assert_eq!(out.len(), plain_record_bytes(head.keyspace, key.len(), value.len()));
    let BlobHead { segment, ordinal, value_bytes, .. } = head;
    (out, Reference { segment, ordinal, offset: 64, value_bytes, checksum })
}

fn read(bytes: &[u8], reference: &Reference) -> Result<Vec<u8>> {
    let record = BlobRecord::decode(bytes)?;
    record.check(reference)?;
    let mut value = Vec::new();
    for index in 0..record.chunk_count() {
        let stored = bytes.get(record.chunk_span(index)).ok_or_else(|| Error::new(0, "a chunk", "less"))?;
        record.decode_chunk(index, stored, &mut value)?;
    }
    assert_eq!(record.bytes(), bytes.len());
    Ok(value)
}

#[test]
fn values_of_all_lengths_come_back() {
    let text: Vec<u8> = (0..3 * CHUNK_BYTES as u32).map(|at| (at % 251) as u8).collect();
    for value_bytes in (0..40).chain([CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 3 * CHUNK_BYTES]) {
        for key_bytes in [0, 1, 7, 16] {
            let (bytes, reference) = plain(&text[..key_bytes], &text[..value_bytes]);
            assert_eq!(read(&bytes, &reference), Ok(text[..value_bytes].to_vec()));
            assert_eq!(BlobRecord::decode(&bytes).map(|record| record.key), Ok(&text[..key_bytes]));
        }
    }
}

#[test]
fn heads_are_short_where_every_field_has_room() {
    let text: Vec<u8> = (0..1_u32 << 16).map(|at| (at % 251) as u8).collect();
    let longest = usize::from(u16::MAX);
    for (keyspace, key_bytes, value_bytes, expected) in [
        (0, 0, 0, 24),
        (254, 255, longest, 24),
        (255, 255, longest, 32),
        (u32::MAX, 1, 1, 32),
        (254, 256, longest, 32),
        (254, 255, longest + 1, 32),
    ] {
        let (key, value) = (&text[..key_bytes], &text[..value_bytes]);
        let head = BlobHead { keyspace, ..head(value, key) };
        let mut bytes = Vec::new();
        let checksum = head.encode(plain_chunks(value), key, &mut bytes);
        assert_eq!((bytes.len(), head.encoded_bytes()), (expected + key_bytes, expected), "{head:?}");
        let record = BlobRecord::decode(&bytes).unwrap();
        assert_eq!((record.head, record.key, record.reference_checksum()), (head, key, checksum));
        assert_eq!(record.chunk_span(0), expected + key_bytes..expected + key_bytes + value_bytes);
        record.check_chunk(0, value).unwrap();
        let whole = record.bytes();
        assert_eq!(whole, plain_record_bytes(keyspace, key_bytes, value_bytes));
    }
}

#[test]
fn a_long_head_is_read_where_a_short_one_would_do() {
    let mut bytes = vec![0; 4];
    [3_u32, 17, 10, 2].iter().for_each(|field| bytes.extend_from_slice(&field.to_le_bytes()));
    bytes.extend_from_slice(&[3, 0, 0, 0]);
    bytes.extend_from_slice(&xxh3(b"some value").to_le_bytes());
    bytes.extend_from_slice(b"key");
    let checksum = crc32c(&bytes[4..]);
    bytes[..4].copy_from_slice(&checksum.to_le_bytes());
    let checksum = xxh3(&bytes[..32]) as u32;
    bytes.extend_from_slice(b"some value");
    bytes.extend_from_slice(padding(bytes.len()));
    let (short, reference) = plain(b"key", b"some value");
    assert_eq!((bytes.len(), short.len()), (48, 40));
    assert_eq!(read(&bytes, &Reference { checksum, ..reference }), Ok(b"some value".to_vec()));
    let heads = [&bytes, &short].map(|bytes| BlobRecord::decode(bytes).map(|record| record.head));
    assert_eq!(heads[0], heads[1]);
}

#[test]
fn every_flip_is_noticed_by_who_reads_all() {
    let (mut bytes, reference) = plain(b"key", b"some value");
    let unpadded = HEAD_BYTES_MIN + 3 + 10;
    for at in 0..unpadded {
        for bit in 0..8 {
            bytes[at] ^= 1 << bit;
            assert!(read(&bytes, &reference).is_err(), "bit {bit} of byte {at}");
            bytes[at] ^= 1 << bit;
        }
    }
    for cut in 0..unpadded {
        assert!(read(&bytes[..cut], &reference).is_err(), "cut at {cut}");
    }
}

#[test]
fn another_value_at_the_place_is_noticed() {
    let (bytes, reference) = plain(b"key", b"some value");
    for other in [
        Reference { segment: SegmentNumber(4), ..reference },
        Reference { ordinal: 18, ..reference },
        Reference { value_bytes: 11, ..reference },
        Reference { checksum: 1, ..reference },
    ] {
        assert!(read(&bytes, &other).is_err(), "{other}");
    }
    // The same key and length, another value: the head's checksum covers the chunks'.
    let (other, _) = plain(b"key", b"same value");
    assert!(read(&other, &reference).is_err());
}

#[test]
fn a_part_is_read_and_checked_without_the_rest() {
    let mut value = vec![1; 2 * CHUNK_BYTES + 5];
    value[CHUNK_BYTES] = 2;
    let (mut bytes, reference) = plain(b"key", &value);
    let record = BlobRecord::decode(&bytes).unwrap();
    let (first, second) = (record.chunk_span(0), record.chunk_span(1));
    bytes[first.start] ^= 1;
    let record = BlobRecord::decode(&bytes).unwrap();
    record.check(&reference).unwrap();
    let mut out = Vec::new();
    record.decode_chunk(1, &bytes[second], &mut out).unwrap();
    assert_eq!(out, value[CHUNK_BYTES..2 * CHUNK_BYTES]);
    assert!(record.decode_chunk(0, &bytes[first], &mut out).is_err());
}

#[test]
fn compressed_chunks_come_back_and_lengths_that_cannot_be_are_refused() {
    let value = vec![7; CHUNK_BYTES + 1000];
    let head = BlobHead { codec: Compression::Lz4, ..head(&value, b"k") };
    let small = lz4_flex::block::compress(&value[..CHUNK_BYTES]);
    let parts: [&[u8]; 2] = [&small, &value[CHUNK_BYTES..]];
    let chunks = parts.map(|part| Chunk { checksum: xxh3(part), stored_bytes: part.len() as u32 });
    let mut bytes = Vec::new();
    let checksum = head.encode(chunks.into_iter(), b"k", &mut bytes);
    parts.iter().for_each(|part| bytes.extend_from_slice(part));
    bytes.extend_from_slice(padding(bytes.len()));
    let reference = Reference {
        segment: head.segment,
        ordinal: head.ordinal,
        offset: 0,
        value_bytes: head.value_bytes,
        checksum,
    };
    assert_eq!(read(&bytes, &reference), Ok(value));
    for stored_bytes in [0, CHUNK_BYTES as u32 + 1] {
        let wrong = [Chunk { stored_bytes, ..chunks[0] }, chunks[1]];
        let mut bytes = Vec::new();
        head.encode(wrong.into_iter(), b"k", &mut bytes);
        assert_eq!(BlobRecord::decode(&bytes).map_err(|error| error.offset), Err(HEAD_BYTES_MIN + 16));
    }
}
