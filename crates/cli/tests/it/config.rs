//! `firn config`.

use std::fs;

use crate::program::{firn, text};

#[test]
fn the_defaults_are_printed_and_read_back() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("firn.toml");
    let printed = firn(&["config"]).ended(0);
    assert!(printed.contains("\nmemory_bytes = \"512 MiB\"\n"), "{printed}");
    fs::write(&file, &printed).expect("written");
    assert_eq!(firn(&["config", "--file", text(&file)]).ended(0), printed);
}

#[test]
fn a_wrong_file_is_refused_with_the_setting_and_the_remedy() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("firn.toml");
    let refused = |content: &str, code: i32, words: &[&str]| {
        fs::write(&file, content).expect("written");
        firn(&["config", "--file", text(&file)]).complained(code, words);
    };
    refused("memory_bytes = 0", 1, &["firn.toml", "memory_bytes", "16 MiB to 16 TiB"]);
    refused("memory_byte = 0", 1, &["did you mean `memory_bytes`?"]);
    refused("memory_bytes", 1, &["not valid TOML at line 1"]);
    fs::remove_file(&file).expect("removed");
    firn(&["config", "--file", text(&file)]).complained(1, &["cannot read", "firn.toml"]);
}
