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
    refused("separate_bytes = 0", 1, &["`separate_bytes` is in the wrong table", "below [tree]"]);
    refused("memory_bytes", 1, &["not valid TOML at line 1"]);
    refused("[oxen]\ncount = 1", 1, &["there is no table [oxen]", "below [tree]"]);
    fs::remove_file(&file).expect("removed");
    firn(&["config", "--file", text(&file)]).complained(1, &["cannot read", "firn.toml"]);
}

#[test]
fn settings_for_experts_are_printed_apart() {
    let help = firn(&["config", "--help"]).ended(0);
    let (everyone, experts) = help.split_once("For experts: ").expect("two lists");
    let settings = everyone.rsplit_once("Settings: ").expect("a list").1;
    assert!(settings.contains("memory_bytes") && settings.contains("tree.separate_bytes"), "{help}");
    assert!(experts.contains("read_threads") && experts.contains("tree.block_bytes"), "{help}");
    let printed = firn(&["config"]).ended(0);
    let tables: Vec<&str> = printed.split("\n[tree]\n").collect();
    let [every, tree] = tables.as_slice() else { panic!("one table: {printed}") };
    for (table, everyone, expert) in
        [(every, "\nmemory_bytes = ", "\nread_threads = "), (tree, "\nseparate_bytes = ", "\nblock_bytes = ")]
    {
        let (above, below) = table.split_once("\n# For experts: ").expect("a title above those for experts");
        assert!(above.contains(everyone) && below.contains(expert), "{table}");
    }
}

#[test]
fn a_file_of_the_server_is_sent_to_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let (file, dir) = (directory.path().join("firn.toml"), directory.path().join("data"));
    fs::write(&file, "memory_bytes = \"64 MiB\"\n[serve]\nport = 7\n").expect("written");
    let advice = ["[serve] is a table of `firn serve` alone", "`firn config --serve --file`"];
    firn(&["config", "--file", text(&file)]).complained(1, &advice);
    let put = ["put", "--create", "--settings", text(&file), "--dir", text(&dir), "k", "v"];
    firn(&put).complained(1, &advice);
    assert!(!dir.exists(), "nothing was made");
    assert!(firn(&["config", "--serve", "--file", text(&file)]).ended(0).contains("port = 7 "));
}
