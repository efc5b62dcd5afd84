//! Combiners: what a process that died left on its way into files.

use std::fs;

use firn_format::FormatVersion;
use firn_format::combiner::{
    COMBINER_BYTES, DATA_BYTES, PIECES_MAX, Piece, SlotHead, clear_slot, decode_header, encode_header,
    pieces, slot_range,
};
use firn_format::dump::describe;

use crate::golden;

const NAME: &str = "combiner-v1-slots";
const LOG: &str = "0000000000400000.log";
const VALUES: &str = "0000002a.blobs";

/// The pieces of a slot as they are found.
type Found = Vec<(u64, Vec<u8>)>;

fn found(combiner: &[u8], index: usize) -> Option<(SlotHead, Found)> {
    let slot = &combiner[slot_range(index)];
    let head = SlotHead::read(slot)?;
    let pieces = pieces(slot, &head).map(|(piece, bytes)| (piece.offset, bytes.to_vec())).collect();
    Some((head, pieces))
}

fn add(combiner: &mut [u8], slot: usize, salt: u64, index: usize, place: (u64, usize), bytes: &[u8]) {
    Piece::write(&mut combiner[slot_range(slot)], salt, index, place, bytes);
}

/// Two slots with pieces, one of which has entries of an earlier salt too.
fn sample() -> Vec<u8> {
    let mut combiner = vec![0; COMBINER_BYTES];
    combiner[..32].copy_from_slice(&encode_header());
    SlotHead { salt: 0x1122, name: LOG.to_owned() }.write(&mut combiner[slot_range(0)]);
    add(&mut combiner, 0, 0x1122, 0, (64, 0), b"a frame");
    add(&mut combiner, 0, 0x1122, 1, (71, 7), b"and the next");
    SlotHead { salt: 0x3344, name: VALUES.to_owned() }.write(&mut combiner[slot_range(1)]);
    add(&mut combiner, 1, 0x3344, 0, (1 << 33, 0), b"written long ago");
    add(&mut combiner, 1, 0x3344, 1, (1 << 34, 16), b"this too");
    SlotHead { salt: 0x5566, name: VALUES.to_owned() }.write(&mut combiner[slot_range(1)]);
    add(&mut combiner, 1, 0x5566, 0, (4096, 0), b"a value");
    combiner
}

fn pieces_of_log() -> Found {
    vec![(64, b"a frame".to_vec()), (71, b"and the next".to_vec())]
}

fn check(combiner: &[u8]) {
    assert_eq!(decode_header(combiner), Ok(()));
    assert_eq!(found(combiner, 0), Some((SlotHead { salt: 0x1122, name: LOG.to_owned() }, pieces_of_log())));
    let values = vec![(4096, b"a value".to_vec())];
    assert_eq!(found(combiner, 1), Some((SlotHead { salt: 0x5566, name: VALUES.to_owned() }, values)));
    assert_eq!((found(combiner, 2), found(combiner, 3)), (None, None));
}

#[test]
fn golden_bytes_are_what_encoding_gives_and_decode() {
    let bytes = sample();
    check(&bytes);
    let used = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    let path = golden::path(&format!("{NAME}.bin"));
    if golden::updating() && !path.exists() {
        fs::write(&path, &bytes[..used]).unwrap();
    }
    let mut golden = fs::read(&path).unwrap();
    assert!(golden == bytes[..used], "golden/{NAME}.bin is no longer what encoding gives");
    golden.resize(COMBINER_BYTES, 0);
    check(&golden);
    let mut text = String::new();
    assert_eq!(describe("data/COMBINER", &golden, &mut text), Ok(None));
    golden::expect_text(&format!("{NAME}.txt"), &text);
    let mut by_magic = String::new();
    assert_eq!(describe("some-file", &golden, &mut by_magic), Ok(None));
    assert_eq!(by_magic, text);
}

/// Whatever a byte is changed to, pieces are found as they were written or not at all.
#[test]
fn no_byte_of_a_combiner_can_change_unseen() {
    let good = sample();
    let slot = slot_range(0).start;
    // The header, the slot's head, its two entries and their bytes.
    let parts = [0..32, slot..slot + 128, slot + 4096..slot + 4144, slot + 28672..slot + 28691];
    for offset in parts.into_iter().flatten() {
        for flip in 1..=255 {
            let mut bytes = good.clone();
            bytes[offset] ^= flip;
            let is_less = match found(&bytes, 0) {
                None => true,
                Some((_, pieces)) => {
                    assert!(
                        pieces.iter().all(|piece| pieces_of_log().contains(piece)),
                        "byte {offset} ^ {flip:#04x}"
                    );
                    pieces.len() < 2
                }
            };
            assert!(is_less || decode_header(&bytes).is_err(), "byte {offset} ^ {flip:#04x} passed");
        }
    }
    for cut in [0, 7, 31, 32, 4096, COMBINER_BYTES - 1] {
        assert!(decode_header(&good[..cut]).is_err(), "cut at {cut}");
    }
    assert!(decode_header(&[&good[..], &[0]].concat()).is_err(), "a byte more");
}

#[test]
fn a_newer_combiner_is_refused() {
    let mut bytes = sample();
    bytes[8] = FormatVersion::CURRENT as u8 + 1;
    let error = decode_header(&bytes).unwrap_err();
    assert!(error.is_newer, "{error}");
}

#[test]
fn a_slot_that_is_cleared_or_emptied_holds_nothing() {
    let mut bytes = sample();
    clear_slot(&mut bytes[slot_range(0)]);
    assert_eq!(found(&bytes, 0), None);
    let head = SlotHead { salt: 0x5567, name: VALUES.to_owned() };
    head.write(&mut bytes[slot_range(1)]);
    assert_eq!(found(&bytes, 1), Some((head, Vec::new())));
}

#[test]
fn a_slot_holds_as_much_as_it_says() {
    let mut bytes = sample();
    let salt = 9;
    SlotHead { salt, name: LOG.to_owned() }.write(&mut bytes[slot_range(3)]);
    let last = DATA_BYTES - 2 * (PIECES_MAX - 1);
    for index in 0..PIECES_MAX {
        let length = if index + 1 == PIECES_MAX { last } else { 2 };
        add(&mut bytes, 3, salt, index, (index as u64 * 2, index * 2), &vec![index as u8; length]);
    }
    let (_, pieces) = found(&bytes, 3).unwrap();
    assert_eq!(pieces.len(), PIECES_MAX);
    assert_eq!(pieces.iter().map(|(_, bytes)| bytes.len()).sum::<usize>(), DATA_BYTES);
    check(&bytes_without_last(bytes));
}

/// Nothing beside the last slot was touched.
fn bytes_without_last(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes[slot_range(3)].fill(0);
    bytes
}
