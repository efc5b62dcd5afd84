use super::size::{parse_bytes, show_bytes};
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
        block_bytes: 5000,
        merge_fan_in: 7,
        ..Settings::for_memory(100_000_000)
    };
    for settings in [Settings::default(), changed] {
        let text = settings.to_toml();
        assert_eq!(Settings::from_toml(&text).expect("its own text"), settings, "{text}");
        let value = toml::Value::try_from(&settings).expect("serde");
        assert_eq!(value.try_into::<Settings>().expect("serde"), settings);
    }
}

#[test]
fn every_field_is_explained_with_its_default() {
    let text = Settings::default().to_toml();
    for field in FIELDS {
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
    for field in FIELDS.iter().filter(|field| !field.default.contains("memory_bytes")) {
        let value = (field.get)(&defaults);
        let shown = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let is_same = shown == field.default || parse_bytes(&shown) == parse_bytes(field.default);
        assert!(is_same, "{}: {shown}, documented as {}", field.name, field.default);
    }
}

#[test]
fn sizes_follow_from_the_memory_given() {
    let settings = Settings::from_toml("table_bytes = 131_072\nmemory_bytes = \"1 GiB\"").expect("valid");
    assert_eq!(settings, Settings { table_bytes: 131_072, ..Settings::for_memory(1 << 30) });
    assert_eq!(settings.buffer_bytes, 256 * MIB);
}

#[test]
fn bad_settings_name_field_value_range_and_remedy() {
    assert_eq!(
        message("memory_bytes = 0"),
        "setting `memory_bytes = \"0 B\"` must be 16 MiB to 16 TiB: set it to what this process may use"
    );
    assert_eq!(
        message("memtable_byte = 1"),
        "there is no setting `memtable_byte`: did you mean `memtable_bytes`?"
    );
    assert!(message("colour = 1").starts_with("there is no setting `colour`; there are memory_bytes, "));
    assert_eq!(
        message("log_segment_bytes = \"5 MiB\""),
        "setting `log_segment_bytes = \"5 MiB\"` must be a multiple of 4 MiB, at most 4 GiB: round it to whole 4 MiB"
    );
    assert_eq!(
        message("durability = \"maybe\""),
        "setting `durability = \"maybe\"` must be process, disk or shared: write \"process\", \"disk\" or \"shared\""
    );
    assert!(message("memory_bytes = -1").contains("write bytes, as in 4096 or \"64 MiB\""));
    assert!(message("merge_fan_in = \"4\"").contains("write a whole number"));
    assert!(message("a = \n").contains("not valid TOML at line 1, column "));
}

#[test]
fn every_range_is_enforced() {
    // One value out of range for each number; words are checked when they are read.
    for field in
        FIELDS.iter().filter(|field| (field.get)(&Settings::default()).as_str().is_none_or(is_a_size))
    {
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
            assert!(message(&format!("{} = {bad}", field.name)).contains(field.name), "{}", field.name);
        }
        if field.name == "space_amplification_max" {
            continue;
        }
        if zero_is_bad {
            assert!(message(&format!("{} = 0", field.name)).contains(field.name), "{}", field.name);
        }
    }
}

/// README.md repeats three defaults for people; they must be these.
#[test]
fn limits_in_the_readme_are_the_defaults() {
    let readme = include_str!("../../../../README.md");
    let defaults = Settings::default();
    assert!(readme.contains("| key | 65 535 bytes |") && defaults.key_bytes_max == 65_535);
    assert!(readme.contains("| value | 1 GiB |") && defaults.value_bytes_max == 1 << 30);
    assert!(readme.contains("by default 512 MiB") && defaults.memory_bytes == 512 << 20);
}

fn is_a_size(text: &str) -> bool {
    parse_bytes(text).is_some()
}

#[test]
fn sizes_are_read_and_shown() {
    for (text, bytes) in
        [("0", 0), ("4096", 4096), ("64 MiB", 64 << 20), ("1gib", 1 << 30), (" 1_000 B ", 1000)]
    {
        assert_eq!(parse_bytes(text), Some(bytes), "{text}");
        assert_eq!(parse_bytes(&show_bytes(bytes)), Some(bytes));
    }
    for text in ["", "MiB", "1.5 GiB", "1 MB", "-1", "99999999 TiB"] {
        assert_eq!(parse_bytes(text), None, "{text}");
    }
    assert_eq!(show_bytes(1536 << 10), "1536 KiB");
    assert_eq!(show_bytes(0), "0 B");
}
