//! Dumps of files that are not whole.

use firn_format::dump::{Shown, describe};

use crate::samples::samples;

const LOG: &str = "0000000000c00000.log";
const EDIT: &str = "/data/db/manifest-0000000000001234";

fn bytes(name: &str) -> Vec<u8> {
    samples().into_iter().find(|sample| sample.name == name).unwrap().bytes
}

/// The dump of `bytes` and the offset of the error it ends with.
fn dump(name: &str, bytes: &[u8]) -> (String, Option<usize>) {
    let mut out = String::new();
    let error = describe(name, bytes, &mut out).unwrap();
    if let Some(error) = &error {
        let last = out.lines().last().unwrap();
        assert!(last.contains("ERROR") && last.ends_with(&error.to_string()), "{last}");
        assert!(last.trim_start().starts_with(&error.offset.to_string()), "{last}");
    }
    (out, error.map(|error| error.offset))
}

fn frames(text: &str) -> usize {
    text.lines().filter(|line| line.contains("  frame  ")).count()
}

#[test]
fn a_torn_frame_ends_the_dump_of_a_log_after_what_is_good() {
    let mut log = bytes("log-segment-v1-frames");
    let torn = log.len() - 1;
    log[torn] ^= 1;
    let (text, error) = dump(LOG, &log);
    assert_eq!(error, Some(64 + 48 + 40 + 4), "the checksum of the third frame\n{text}");
    assert_eq!(frames(&text), 2, "{text}");
}

#[test]
fn a_bad_header_does_not_hide_the_frames() {
    let mut log = bytes("log-segment-v1-frames");
    log[16] ^= 1;
    let (text, error) = dump(LOG, &log);
    assert_eq!(error, Some(12));
    assert_eq!(frames(&text), 3, "{text}");
}

#[test]
fn unwritten_zeros_are_no_error() {
    let mut log = bytes("log-segment-v1-frames");
    log.resize(4096, 0);
    let (text, error) = dump(LOG, &log);
    assert_eq!(error, None);
    assert!(text.lines().last().unwrap().contains("a zero word"), "{text}");
}

#[test]
fn a_bad_checksum_does_not_hide_the_changes() {
    let mut edit = bytes("manifest-edit-v1-every-change");
    edit[24] ^= 1;
    let (text, error) = dump(EDIT, &edit);
    assert_eq!(error, Some(40));
    assert!(text.contains("CleanEnd"), "{text}");
}

#[test]
fn a_file_without_our_name_is_told_by_its_first_bytes() {
    assert!(dump("x", &bytes("log-segment-v1-frames")).0.contains("capacity"));
    assert!(dump("x", &bytes("manifest-edit-v1-empty")).0.contains("epoch"));
    assert_eq!(dump("x", b"something else entirely").1, Some(0));
    assert_eq!(dump("x", b"").1, Some(0));
    assert_eq!(dump("LOCK", b"").1, None);
    assert_eq!(dump(LOG, &bytes("manifest-edit-v1-empty")).1, Some(48), "shorter than a segment's header");
    assert_eq!(dump(LOG, &bytes("manifest-edit-v1-every-change")).1, Some(0));
}

#[test]
fn long_keys_are_cut() {
    assert_eq!(Shown(b"a\"\x00").to_string(), r#""a\"\x00""#);
    assert_eq!(Shown(&[b'x'; 60]).to_string(), format!("\"{}\" and 12 more bytes", "x".repeat(48)));
}
