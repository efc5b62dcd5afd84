//! Settings: from text, in force, and refused.

use std::fs;
use std::sync::Arc;

use firn::storage::backend::Memory;
use firn::{Db, Durability, ErrorKind, Settings};

#[test]
fn settings_come_from_their_own_text() {
    let dir = tempfile::tempdir().expect("a directory");
    let chosen = Settings { durability: Durability::Disk, ..Settings::for_memory(64 << 20) }
        .with_engine(|tree| tree.table_bytes = 1 << 20);
    let read = Settings::from_toml(&chosen.to_toml()).expect("its own text");
    assert_eq!(read, chosen);
    let db = Db::builder(dir.path()).settings(read).open().expect("opened");
    assert_eq!(db.stats().memory_bytes_max, 64 << 20, "the memory limit is in force");
    let before = db.stats().sync_count;
    for number in 0..3_u8 {
        db.put([number], "durable").expect("put");
    }
    assert!(db.stats().sync_count >= before + 3, "each acknowledgement needed a sync of its own");
}

#[test]
fn a_write_may_choose_its_durability() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = Db::open(dir.path()).expect("opened");
    db.put("a", "1").expect("put");
    let before = db.stats().sync_count;
    db.put("b", "1").expect("put");
    assert_eq!(db.stats().sync_count, before, "the default does not sync");
    let on_disk = firn::WriteOptions { durability: Some(Durability::Disk), ..firn::WriteOptions::default() };
    db.in_default().with_options(on_disk).put("c", "1").expect("put");
    assert!(db.stats().sync_count > before);
}

#[test]
fn limits_are_in_force() {
    let dir = tempfile::tempdir().expect("a directory");
    let settings = Settings { key_bytes_max: 4, value_bytes_max: 8, ..Settings::default() };
    let db = Db::builder(dir.path()).settings(settings).open().expect("opened");
    db.put("four", "eightby.").expect("within the limits");
    let kinds =
        [db.put("fifth", "1"), db.put("four", "nine byte")].map(|answer| answer.expect_err("refused").kind());
    assert_eq!(kinds, [ErrorKind::Invalid; 2]);
    assert_eq!(db.get("four").expect("get").as_deref(), Some(&b"eightby."[..]));
}

#[test]
fn a_setting_out_of_range_is_named_before_anything_is_created() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("new");
    let settings = Settings::default().with_engine(|tree| tree.merge_fan_in = 1);
    let error = Db::builder(&path).settings(settings).open().expect_err("out of range");
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("merge_fan_in = 1"), "{error}");
    assert!(!path.exists());
}

#[test]
fn a_database_opens_with_other_settings() {
    let dir = tempfile::tempdir().expect("a directory");
    for (round, memory_bytes) in [512 << 20, 16 << 20, 64 << 20].into_iter().enumerate() {
        let db = Db::builder(dir.path()).settings(Settings::for_memory(memory_bytes)).open().expect("opened");
        assert_eq!(db.range(..).expect("scan").count(), 200 * round);
        for number in 0..200 {
            db.put(format!("{round} {number}"), "value").expect("put");
        }
    }
}

/// The page of limitations repeats three defaults for people; they must be these.
#[test]
fn hard_limits_on_the_page_are_the_defaults() {
    let page = include_str!("../../../../docs/operate/limitations.md");
    let defaults = Settings::default();
    assert!(page.contains("| key | 65 535 bytes |") && defaults.key_bytes_max == 65_535);
    assert!(page.contains("| value | 1 GiB |") && defaults.value_bytes_max == 1 << 30);
    assert!(page.contains("by default 512 MiB") && defaults.memory_bytes == 512 << 20);
}

/// What a setting is, its default and its range are written once.
#[test]
fn the_page_of_settings_is_the_list() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operate/settings.md");
    let page = fs::read_to_string(path).expect("docs/operate/settings.md");
    let (head, _) = page.split_once("## Settings\n").expect("the list begins under this title");
    let expected = format!("{head}{}", Settings::to_page::<firn::HashSettings>());
    if is_updating() {
        fs::write(path, &expected).expect("written");
    } else {
        assert_eq!(page, expected, "docs/operate/settings.md differs; UPDATE_EXPECT=1 renews it");
    }
}

#[expect(clippy::disallowed_methods, reason = "the one switch of this test")]
fn is_updating() -> bool {
    std::env::var("UPDATE_EXPECT").is_ok_and(|value| value == "1")
}

#[test]
fn memory_that_no_size_follows_is_refused_with_what_to_do() {
    for memory_bytes in [64 << 20, 4 << 30] {
        let settings = Settings { memory_bytes, ..Settings::default() };
        let opened = Db::builder("x").storage(Arc::new(Memory::new())).settings(settings).open();
        let refused = opened.expect_err("nothing follows from it");
        assert_eq!(refused.kind(), ErrorKind::Invalid);
        assert!(refused.message().contains(&format!("Settings::for_memory({memory_bytes})")), "{refused}");
    }
    // Where one of them was chosen, all were.
    let chosen = Settings { memory_bytes: 1 << 30, ..Settings::default() }
        .with_engine(|tree| tree.log_bytes_max = 1 << 30);
    for settings in [chosen, Settings::default(), Settings::for_memory(1 << 30)] {
        Db::builder("x").storage(Arc::new(Memory::new())).settings(settings).open().expect("opened");
    }
}
