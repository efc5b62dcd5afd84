//! `firn inspect`.

use std::fs;

use firn_format::manifest::{Change, ManifestEdit};

use crate::program::{firn, text};

fn edit_bytes() -> Vec<u8> {
    ManifestEdit { number: 7, base: true, epoch: 3, changes: vec![Change::Database { id: 0x1234 }] }.encode()
}

#[test]
fn a_file_is_shown_with_offsets_and_meaning() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("manifest-0000000000000007");
    fs::write(&file, edit_bytes()).expect("written");
    let out = firn(&["inspect", text(&file)]).ended(0);
    assert!(out.lines().count() > 3, "{out}");
    assert!(out.contains("number") && out.contains('7'), "{out}");
    // The kind is known by its first bytes too.
    let renamed = directory.path().join("copy");
    fs::rename(&file, &renamed).expect("renamed");
    assert_eq!(firn(&["inspect", text(&renamed)]).ended(0), out);
}

#[test]
fn damage_is_named_with_file_and_offset_and_nothing_changes() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("manifest-0000000000000007");
    let mut bytes = edit_bytes();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&file, &bytes).expect("written");
    let answer = firn(&["inspect", text(&file)]);
    assert!(answer.out.contains("ERROR"), "{answer:?}");
    answer.complained(3, &["manifest-0000000000000007", "at offset ", "expected ", "found "]);
    assert_eq!(fs::read(&file).expect("still there"), bytes);
}

#[test]
fn what_is_no_database_file_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("notes.txt");
    fs::write(&file, "notes").expect("written");
    firn(&["inspect", text(&file)]).complained(3, &["notes.txt", "expected a log segment"]);
    firn(&["inspect", text(directory.path())]).complained(1, &["is a directory", "firn verify"]);
    firn(&["inspect", text(&directory.path().join("gone"))]).complained(1, &["cannot read", "gone"]);
}
