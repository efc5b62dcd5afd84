use firn_engine::settings::{Audience, EngineSettings, Field, parse_bytes};
use firn_engine::{Compression, Durability};

use super::*;

fn message(text: &str) -> String {
    let error = Settings::from_toml(text).expect_err("these settings are wrong");
    assert_eq!(error.kind(), firn_engine::ErrorKind::Invalid);
    error.to_string()
}

#[test]
fn defaults_are_valid_at_every_memory_size() {
    Settings::default().validate().expect("defaults");
    for memory in [16 * MIB, 17 * MIB, 33 * MIB, 100_000_000, 1 << 30, 1 << 40] {
        Settings::for_memory(memory).validate().unwrap_or_else(|error| panic!("{memory}: {error}"));
    }
}

#[test]
fn settings_round_trip_through_text() {
    let changed = Settings {
        durability: Durability::Disk,
        compression: Compression::Zstd,
        ..Settings::for_memory(100_000_000)
    }
    .with_engine(|tree| (tree.block_bytes, tree.merge_fan_in) = (5000, 7));
    for settings in [Settings::default(), changed] {
        let text = settings.to_toml();
        assert_eq!(Settings::from_toml(&text).expect("its own text"), settings, "{text}");
    }
}

#[test]
fn every_field_is_explained_with_its_default() {
    let text = Settings::default().to_toml();
    for field in Settings::fields() {
        assert!(field.doc.len() > 20, "{}", field.name);
        assert!(text.contains(&format!("\n{} = ", field.name)), "{}", field.name);
    }
    assert!(
        text.contains("# Default 512 MiB; must be 16 MiB to 16 TiB.\nmemory_bytes = \"512 MiB\"\n"),
        "{text}"
    );
}

/// The words in the table of fields are what the defaults are.
#[test]
fn documented_defaults_are_the_defaults() {
    let defaults = Settings::default();
    for field in Settings::fields().filter(|field| !field.default.contains("memory_bytes")) {
        let value = (field.get)(&defaults);
        let shown = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let is_same = shown == field.default
            || parse_bytes(&shown).is_ok_and(|bytes| parse_bytes(field.default).ok() == Some(bytes));
        assert!(is_same, "{}: {shown}, documented as {}", field.name, field.default);
    }
}

#[test]
fn sizes_follow_from_the_memory_given() {
    let settings =
        Settings::from_toml("memory_bytes = \"1 GiB\"\n[tree]\ntable_bytes = 131_072").expect("valid");
    assert_eq!(settings, Settings::for_memory(1 << 30).with_engine(|tree| tree.table_bytes = 131_072));
    assert_eq!(settings.engine.buffer_bytes, 256 * MIB);
}

#[test]
fn bad_settings_name_field_value_range_and_remedy() {
    assert_eq!(
        message("memory_bytes = 0"),
        "setting `memory_bytes = \"0 B\"` must be 16 MiB to 16 TiB: set it to what this process may use"
    );
    assert_eq!(
        message("[tree]\nmemtable_byte = 1"),
        "there is no setting `memtable_byte`: did you mean `memtable_bytes`?"
    );
    assert!(message("colour = 1").starts_with("there is no setting `colour`; there are memory_bytes, "));
    assert_eq!(
        message("[tree]\nlog_segment_bytes = \"5 MiB\""),
        "setting `log_segment_bytes = \"5 MiB\"` must be a multiple of 4 MiB, at most 4 GiB: round it to whole 4 MiB"
    );
    assert_eq!(
        message("compression = \"maybe\""),
        "setting `compression = \"maybe\"` must be none, lz4 or zstd: write \"none\", \"lz4\" or \"zstd\""
    );
    assert!(message("durability = \"maybe\"").ends_with("\"process\", \"disk\" or \"shared\""));
    for (name, range) in [("background_nice", "0 to 19"), ("idle_threads", "0 to 256")] {
        let expected = format!("setting `{name} = -20` must be {range}: write a whole number");
        assert_eq!(message(&format!("{name} = -20")), expected);
    }
    assert!(message("memory_bytes = -1").contains("write bytes, as in 4096, \"512M\" or \"4 GiB\""));
    assert!(message("[tree]\nmerge_fan_in = \"4\"").contains("write a whole number"));
    assert!(message("a = \n").contains("not valid TOML at line 1, column "));
}

#[test]
fn every_range_is_enforced() {
    // One value out of range for each number; words are checked when they are read.
    let is_number =
        |field: &&Field<Settings>| (field.get)(&Settings::default()).as_str().is_none_or(is_a_size);
    for field in Settings::fields().filter(is_number) {
        let line = |value: &str| match TreeSettings::FIELDS.iter().any(|own| own.name == field.name) {
            true => format!("[tree]\n{} = {value}", field.name),
            false => format!("{} = {value}", field.name),
        };
        let bad = match field.name {
            "reexecuted_share" => "1.5".to_owned(),
            "space_amplification_max" => "1.0".to_owned(),
            _ => i64::MAX.to_string(),
        };
        let zero_is_bad = ![
            "page_cache_bytes",
            "filter_bits_per_key",
            "separate_bytes",
            "value_bytes_max",
            "reexecuted_share",
            "background_nice",
            "idle_threads",
            "open_files_max",
        ]
        .contains(&field.name);
        if field.name != "log_bytes_max" {
            assert!(message(&line(&bad)).contains(field.name), "{}", field.name);
        }
        if field.name == "space_amplification_max" {
            continue;
        }
        if zero_is_bad {
            assert!(message(&line("0")).contains(field.name), "{}", field.name);
        }
    }
}

/// The numbers and sizes that the words of a range, or of a default, name.
fn named(words: &str) -> Vec<String> {
    let words: Vec<&str> = words.split([' ', ',']).filter(|word| !word.is_empty()).collect();
    let is_number = |word: &str| word.starts_with(|first: char| first.is_ascii_digit());
    let named = words.iter().enumerate().filter(|(_, word)| is_number(word)).map(|(at, word)| {
        match words.get(at + 1).filter(|unit| is_a_size(&format!("1 {unit}"))) {
            Some(unit) => format!("\"{word} {unit}\""),
            None => (*word).to_owned(),
        }
    });
    named.collect()
}

/// A reader of the page writes what the page says.
#[test]
fn what_defaults_and_ranges_name_can_be_written() {
    let mut tried = 0;
    for field in Settings::fields() {
        let table =
            if TreeSettings::FIELDS.iter().any(|own| own.name == field.name) { "[tree]\n" } else { "" };
        let memory = if field.name == "memory_bytes" { "" } else { "memory_bytes = \"64 GiB\"\n" };
        for value in named(field.range).iter().chain(&named(field.default)) {
            let text = format!("{memory}{table}{} = {value}", field.name);
            let taken = Settings::from_toml(&text);
            assert!(taken.is_ok(), "{}: {taken:?}", field.name);
            tried += 1;
        }
    }
    assert!(tried > 30, "{tried} numbers");
}

fn is_a_size(text: &str) -> bool {
    parse_bytes(text).is_ok()
}

#[test]
fn at_most_ten_settings_are_for_everyone() {
    let everyone: Vec<&str> = Settings::fields()
        .filter(|field| field.audience == Audience::Everyone)
        .map(|field| field.name)
        .collect();
    assert!(everyone.len() <= 10 && everyone.contains(&"memory_bytes"), "{everyone:?}");
}

/// What users may set an engine takes; what only tests need, users may not.
#[test]
fn ranges_for_tests_are_wider() {
    for memory_bytes in [16 * MIB, 100 * MIB, 1 << 40] {
        Settings::for_memory(memory_bytes).validate_limits().expect("users may");
    }
    let base = || Settings::for_memory(64 << 20);
    let small = [
        ("memtable_bytes", base().with_engine(|tree| tree.memtable_bytes = 4096)),
        ("buffer_bytes", base().with_engine(|tree| tree.buffer_bytes = 0)),
        ("buffer_bytes_max", base().with_engine(|tree| tree.buffer_bytes_max = 1 << 30)),
        ("local_bytes_per_second", Settings { local_bytes_per_second: 1, ..base() }),
        ("memory_bytes", Settings { memory_bytes: MIB, ..base() }),
    ];
    for (name, settings) in &small {
        settings.validate_limits().expect("tests may");
        assert!(settings.validate().expect_err("users may not").to_string().contains(name), "{name}");
    }
    let wider = Settings::fields().filter(|field| field.tests.is_some()).count();
    assert_eq!(wider, small.len(), "each is tried here");
}

#[test]
fn what_follows_from_other_settings_follows() {
    let settings = Settings { space_amplification_max: 2.0, ..Settings::default() };
    assert_eq!(garbage_share_max(&settings), 0.5);
    assert_eq!(page_cache_bytes(&settings), u64::MAX);
    assert_eq!(page_cache_bytes(&Settings { page_cache_bytes: 7, ..settings }), 7);
}
