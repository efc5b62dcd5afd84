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
    assert_eq!(firn(&["config", "--config", text(&file)]).ended(0), printed);
}

#[test]
fn a_wrong_file_is_refused_with_the_setting_and_the_remedy() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("firn.toml");
    let refused = |content: &str, code: i32, words: &[&str]| {
        fs::write(&file, content).expect("written");
        firn(&["config", "--config", text(&file)]).complained(code, words);
    };
    refused("memory_bytes = 0", 1, &["firn.toml", "memory_bytes", "16 MiB to 16 TiB"]);
    refused("memory_byte = 0", 1, &["did you mean `memory_bytes`?"]);
    refused("separate_bytes = 0", 1, &["`separate_bytes` is in the wrong table", "below [tree]"]);
    refused("memory_bytes", 1, &["not valid TOML at line 1"]);
    refused("[oxen]\ncount = 1", 1, &["there is no table [oxen]; there are [tree], [hash] and [serve]"]);
    refused("[hash]\npage_bytes = 5", 1, &["firn.toml", "page_bytes", "a power of two"]);
    refused("[serve]\nprot = 1", 1, &["firn.toml: there is no `prot` of [serve]"]);
    refused("memory_bytes = \"4X\"", 1, &["`memory_bytes = \"4X\"`", "\"512M\""]);
    fs::remove_file(&file).expect("removed");
    firn(&["config", "--config", text(&file)]).complained(1, &["cannot read", "firn.toml"]);
}

#[test]
fn settings_for_experts_are_printed_apart() {
    let help = firn(&["config", "--help"]).ended(0);
    let (everyone, experts) = help.split_once("For experts: ").expect("two lists");
    let settings = everyone.rsplit_once("Settings: ").expect("a list").1;
    assert!(settings.contains("memory_bytes") && settings.contains("tree.separate_bytes"), "{help}");
    assert!(experts.contains("read_threads") && experts.contains("tree.block_bytes"), "{help}");
    let printed = firn(&["config"]).ended(0);
    let (every, rest) = printed.split_once("\n[tree]\n").expect("a table");
    let (tree, hash) = rest.split_once("\n[hash]\n").expect("another table");
    for (table, everyone, expert) in [
        (every, "\nmemory_bytes = ", "\nread_threads = "),
        (tree, "\nseparate_bytes = ", "\nblock_bytes = "),
        (hash, "\nredo_bytes_max = ", "\nindex_bytes_max = "),
    ] {
        let (above, below) = table.split_once("\n# For experts: ").expect("a title above those for experts");
        assert!(above.contains(everyone) && below.contains(expert), "{table}");
    }
}

#[test]
fn one_file_serves_every_command() {
    let directory = tempfile::tempdir().expect("a directory");
    let (file, dir) = (directory.path().join("firn.toml"), directory.path().join("data"));
    let said =
        "memory_bytes = \"64M\"\n[tree]\nblock_bytes = \"8K\"\n[serve]\nport = 7\nhttp_port = \"none\"\n";
    fs::write(&file, said).expect("written");
    let (file, dir) = (text(&file), text(&dir));
    firn(&["put", "--create", "--config", file, "--dir", dir, "k", "v"]).ended(0);
    assert_eq!(firn(&["get", "--config", file, "--dir", dir, "k"]).ended(0), "v\n");
    firn(&["delete", "--config", file, "--dir", dir, "k"]).ended(0);
    assert_eq!(firn(&["scan", "--config", file, "--dir", dir]).ended(0), "");
    let backup = directory.path().join("backup");
    firn(&["backup", "--config", file, "--dir", dir, "--to", text(&backup)]).ended(0);
    let checked = firn(&["config", "--config", file]).ended(0);
    assert!(checked.contains("\nmemory_bytes = \"64 MiB\"\n"), "{checked}");
    assert!(checked.contains("\nblock_bytes = \"8 KiB\"\n"), "{checked}");
    assert!(checked.ends_with("\n[serve]\nport = 7\nhttp_port = \"none\"\n"), "{checked}");
    let again = directory.path().join("again.toml");
    fs::write(&again, &checked).expect("written");
    assert_eq!(firn(&["config", "--config", text(&again)]).ended(0), checked);
    let serve = firn(&["config", "--serve", "--config", file]).ended(0);
    assert!(serve.contains("port = 7 ") && serve.contains("memory_bytes = \"64 MiB\" "), "{serve}");
}
