//! Files that old and new releases must agree on, in `golden/`.
//!
//! `UPDATE_EXPECT=1` writes files that are missing and renews texts; it never changes the bytes of
//! a file that is there. To change a format before the first release, remove its files; after it,
//! add a version and new files.

use std::fs;
use std::path::PathBuf;

use crate::samples::samples;

/// Path of a file in `golden/`.
pub(crate) fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("golden").join(name)
}

#[expect(clippy::disallowed_methods, reason = "the one switch of these tests, read only here")]
pub(crate) fn updating() -> bool {
    std::env::var("UPDATE_EXPECT").is_ok_and(|value| value == "1")
}

/// Compares `text` with the file `name`, or renews the file.
pub(crate) fn expect_text(name: &str, text: &str) {
    if updating() {
        fs::write(path(name), text).unwrap();
    }
    let golden = fs::read_to_string(path(name)).unwrap_or_else(|error| panic!("golden/{name}: {error}"));
    assert_eq!(golden, text, "golden/{name} differs; UPDATE_EXPECT=1 renews it");
}

fn expect_bytes(name: &str, bytes: &[u8]) {
    if updating() && !path(name).exists() {
        fs::write(path(name), bytes).unwrap();
    }
    let golden = fs::read(path(name)).unwrap_or_else(|error| panic!("golden/{name}: {error}"));
    let first = golden.iter().zip(bytes).position(|(old, new)| old != new).unwrap_or(golden.len());
    assert!(golden == bytes, "golden/{name} is no longer what encoding gives, from offset {first} on");
}

#[test]
fn encoding_gives_the_golden_bytes() {
    for sample in samples() {
        expect_bytes(&format!("{}.bin", sample.name), &sample.bytes);
    }
}

#[test]
fn golden_bytes_decode_to_their_values() {
    for sample in samples() {
        let bytes = fs::read(path(&format!("{}.bin", sample.name))).unwrap();
        assert_eq!((sample.decode)(&bytes), Ok(sample.value), "{}", sample.name);
    }
}

#[test]
fn golden_bytes_have_their_dump() {
    for sample in samples() {
        let bytes = fs::read(path(&format!("{}.bin", sample.name))).unwrap();
        let mut text = String::new();
        assert_eq!((sample.dump)(&bytes, &mut text), Ok(None), "{}", sample.name);
        expect_text(&format!("{}.txt", sample.name), &text);
    }
}

/// Each byte of each file matters: whatever it is changed to, decoding says so and does not panic.
#[test]
fn no_byte_of_a_golden_file_can_change_unseen() {
    for sample in samples() {
        let good = fs::read(path(&format!("{}.bin", sample.name))).unwrap();
        for offset in 0..good.len() {
            for flip in 1..=255 {
                let mut bytes = good.clone();
                bytes[offset] ^= flip;
                let decoded = (sample.decode)(&bytes);
                assert!(decoded.is_err(), "{}: byte {offset} ^ {flip:#04x} passed", sample.name);
            }
        }
        for cut in 0..good.len() {
            // Cut between two frames a log is a shorter log, and a blob segment that is written to
            // is a shorter one; everything else knows its length.
            let is_open =
                ["log-segment", "hybrid-segment", "redo"].iter().any(|log| sample.name.starts_with(log))
                    || sample.name.ends_with("-open");
            let cut_log = is_open && cut >= 64;
            let passed = (sample.decode)(&good[..cut]).is_ok_and(|value| !cut_log || value == sample.value);
            assert!(!passed, "{}: cut at {cut} passed", sample.name);
        }
        let longer = [&good[..], &[1]].concat();
        assert!((sample.decode)(&longer).is_err(), "{}: a byte more passed", sample.name);
    }
}
