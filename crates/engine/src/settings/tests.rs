use super::*;
use crate::{Compression, Durability, ErrorKind, engine_settings};

engine_settings! {
    /// Settings of an engine that keeps boxes.
    struct BoxSettings in "boxes";

    /// Boxes that are filled at once.
    box_count: usize, Everyone,
        "2", |_| 2,
        "1 to 8", |s| (1..=8).contains(&s.engine.box_count), "choose a number in that range";

    /// Bytes of a box; what is larger gets one of its own.
    box_bytes: u64, Expert,
        "a sixteenth of memory_bytes", |memory_bytes| memory_bytes / 16,
        "1 MiB to memory_bytes", |s| (MIB..=s.memory_bytes).contains(&s.engine.box_bytes),
        "choose a size in that range",
        tests "at least 1", |s| s.engine.box_bytes >= 1;
}

engine_settings! {
    /// Settings of another engine, which keeps bags.
    struct BagSettings in "bags";

    /// Bags that are filled at once.
    bag_count: usize, Expert,
        "2", |_| 2,
        "1 to 8", |s| (1..=8).contains(&s.engine.bag_count), "choose a number in that range";
}

type Boxes = Settings<BoxSettings>;

fn refused(text: &str) -> String {
    let error = Boxes::from_toml(text).expect_err("these settings are wrong");
    assert_eq!(error.kind(), ErrorKind::Invalid);
    error.to_string()
}

#[test]
fn an_engine_has_a_table_of_its_own() {
    let text = "durability = \"disk\"\nmemory_bytes = \"64 MiB\"\n[boxes]\nbox_count = 3\n";
    let settings = Boxes::from_toml(text).expect("valid");
    let expected = Settings {
        durability: Durability::Disk,
        compression: Compression::None,
        ..Boxes::for_memory(64 * MIB)
    };
    assert_eq!(settings, expected.with_engine(|boxes| boxes.box_count = 3));
    assert_eq!(settings.engine.box_bytes, 4 * MIB);
    assert_eq!(Boxes::from_toml(&settings.to_toml()).expect("its own text"), settings);
    let value = toml::Value::try_from(&settings).expect("serde");
    assert_eq!(value.try_into::<Boxes>().expect("serde"), settings);
}

#[test]
fn what_every_engine_is_told_is_kept_beside_another_engines_settings() {
    let boxes = Boxes { durability: Durability::Disk, ..Boxes::for_memory(64 * MIB) };
    let bags = boxes.for_engine(BagSettings { bag_count: 3 });
    let expected = Settings { durability: Durability::Disk, ..Settings::<BagSettings>::for_memory(64 * MIB) };
    assert_eq!(bags, expected.with_engine(|bags| bags.bag_count = 3));
    assert!(bags.table_to_toml().starts_with("[bags]\n") && bags.to_toml().ends_with(&bags.table_to_toml()));
}

#[test]
fn a_setting_in_the_wrong_table_is_sent_to_its_own() {
    assert_eq!(refused("box_count = 2"), "setting `box_count` is in the wrong table: write it below [boxes]");
    assert_eq!(
        refused("[boxes]\nmemory_bytes = 0"),
        "setting `memory_bytes` is in the wrong table: write it above [boxes]"
    );
    assert_eq!(refused("boxes = 1"), "`boxes` must be a table: write [boxes]");
    assert_eq!(refused("[boxes]\nbox_cont = 1"), "there is no setting `box_cont`: did you mean `box_count`?");
    assert_eq!(
        refused("[boxes]\nbox_count = 9"),
        "setting `box_count = 9` must be 1 to 8: choose a number in that range"
    );
}

#[test]
fn an_unknown_table_is_called_one() {
    let advice = ": write settings above all tables, or below [boxes]";
    for (text, name) in [
        ("[oxen]\nbox_count = 2", "[oxen]"),
        ("[[oxen]]\nbox_count = 2", "[oxen]"),
        ("[memory_bytes]", "[memory_bytes]"),
        ("oxen = { box_count = 2 }", "[oxen]"),
        ("[boxes.small]\nbox_count = 2", "[boxes.small]"),
    ] {
        assert_eq!(refused(text), format!("there is no table {name}{advice}"), "{text}");
    }
    assert!(refused("oxen = [2]").starts_with("there is no setting `oxen`"));
}

#[test]
fn tests_of_an_engine_may_set_what_users_may_not() {
    let settings = Boxes::default().with_engine(|boxes| boxes.box_bytes = 7);
    settings.validate_limits().expect("wide enough");
    assert!(settings.validate().expect_err("too small").to_string().contains("box_bytes"));
    let none = Boxes::default().with_engine(|boxes| boxes.box_bytes = 0);
    let error = none.validate_limits().expect_err("too small").to_string();
    assert_eq!(error, "setting `box_bytes = \"0 B\"` must be at least 1: choose a size in that range");
}

/// In each table, on the page and in the list of names.
#[test]
fn settings_for_experts_stand_apart() {
    let follow = |text: &str, words: &[&str]| {
        let mut rest = text;
        for word in words {
            let at = rest.find(word).unwrap_or_else(|| panic!("no {word} where it should be: {text}"));
            rest = &rest[at + word.len()..];
        }
    };
    let experts = "\n# For experts: ";
    follow(
        &Boxes::default().to_toml(),
        &[
            "memory_bytes = ",
            experts,
            "read_threads = ",
            "[boxes]\n",
            "box_count = ",
            experts,
            "box_bytes = ",
        ],
    );
    follow(
        &Boxes::to_page::<BagSettings>(),
        &[
            "| `memory_bytes` |",
            "`[boxes]`",
            "| `box_count` |",
            "`[bags]`",
            "## For experts",
            "| `box_bytes` |",
            "`[bags]`",
            "| `bag_count` |",
        ],
    );
    let names = ["memory_bytes", "boxes.box_count", "For experts", "boxes.box_bytes", "bags.bag_count"];
    follow(&Boxes::to_names::<BagSettings>(), &names);
}

#[test]
fn sizes_are_read_and_shown() {
    for (text, bytes) in [
        ("0", 0),
        ("4096", 4096),
        ("64 MiB", 64 << 20),
        ("1gib", 1 << 30),
        ("2 PiB", 1 << 51),
        (" 1_000 B ", 1000),
        ("4G", 4 << 30),
        ("512m", 512 << 20),
        ("512 MB", 512 << 20),
        ("3 k", 3 << 10),
        ("1.5 GiB", 3 << 29),
        ("0.1K", 102),
        ("17.5 T", 35 << 39),
    ] {
        assert_eq!(parse_bytes(text).ok(), Some(bytes), "{text}");
        assert_eq!(parse_bytes(&show_bytes(bytes)).ok(), Some(bytes));
    }
    let wrong =
        ["", "MiB", "1.5", "1. G", ".5 G", "1.2.3 M", "-1", "1e3", "99999999 TiB", "16 EiB", "15.9 ZiB"];
    for text in wrong.into_iter().chain(["1 BB", "1 iB", "4 Gi", "many"]) {
        let error = parse_bytes(text).expect_err("no size");
        assert_eq!(error.kind(), ErrorKind::Invalid);
        let advice = format!("`{text}` is not a size such as 4096, 512M or 4 GiB");
        assert_eq!(error.message(), advice);
    }
    assert_eq!(show_bytes(1536 << 10), "1536 KiB");
    assert_eq!(show_bytes(0), "0 B");
}
