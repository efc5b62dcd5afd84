//! Choices over levels made by hand, and over random ones.

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use firn_format::Sequence;
use firn_format::key::{Entry, Kind};
use firn_format::manifest::TableMeta;
use firn_format::table::TableForm;
use firn_storage::Storage;
use firn_storage::backend::Memory;
use firn_storage::file::cache::BlockCache;
use firn_storage::file::table::{ReaderOptions, TableBuilder, TableReader};

use super::{Choice, PickRules, base_level, flush_table_bytes, pick, pick_range, splits};
use crate::compact::hiding::pick_hiding;
use crate::version::{Levels, Table};

mod expired;
mod model;
mod random;
mod room;
mod scans;
mod scenes; // choices as text

const RULES: PickRules = PickRules {
    depth_max: 3,
    depth_mean_max: 100.0,
    share_max: 1.0,
    stay_max: 0.0,
    table_bytes: 100,
    level_bytes_min: 1000,
    level_ratio: 10,
    read_price: 1.0,
    l0_only: false,
    room_bytes: u64::MAX,
    now_ms: 0,
    oldest_snapshot: Sequence::MAX,
};

/// Any file: picking looks at what the manifest says of tables, never into them.
static READER: LazyLock<Arc<TableReader>> = LazyLock::new(|| {
    let memory = Memory::new();
    let mut builder = TableBuilder::new("any", memory.create("any").unwrap(), TableForm::default());
    let entry = Entry { key: b"k", sequence: Sequence(1), kind: Kind::Put, expires_at_ms: 0, value: b"v" };
    builder.add(&entry).unwrap();
    builder.finish().unwrap();
    let cache = Arc::new(BlockCache::new(1 << 20));
    let file = memory.open_read("any").unwrap();
    Arc::new(TableReader::open_file("any", file, &cache, ReaderOptions::default()).unwrap())
});

/// A table over `smallest..=largest`; its name says where it was put at first.
pub(crate) fn table(
    file: String,
    smallest: &[u8],
    largest: &[u8],
    bytes: u64,
    overwrites: f64,
) -> Arc<Table> {
    assert!(smallest <= largest);
    let meta = TableMeta {
        file,
        bytes,
        file_checksum: 0,
        smallest: smallest.to_vec(),
        largest: largest.to_vec(),
        sequence_min: Sequence(1),
        sequence_max: Sequence(1),
        entry_count: 1,
        tombstone_count: 0,
        range_tombstone_count: 0,
        data_bytes: bytes,
        content_hash: 0,
    };
    let supersedes = (overwrites, (bytes as f64 * overwrites) as u64);
    Arc::new(Table::new(meta, Arc::clone(&READER), supersedes, Arc::default()))
}

/// Levels from lines `"0.2 a-f"`: level 0, sorted run 2, keys a to f. Each table has 100 bytes and
/// is called like its line; `"6 a-f 5000 0.9"` gives it 5000 bytes, of which 0.9 supersede
/// something.
fn levels(lines: &[&str]) -> Levels {
    let mut levels = Levels::default();
    for line in lines {
        let words: Vec<&str> = line.split(' ').collect();
        let (level, run) = words[0].split_once('.').unwrap_or((words[0], "0"));
        let (smallest, largest) = words[1].split_once('-').unwrap();
        let bytes = words.get(2).map_or(100, |bytes| bytes.parse().unwrap());
        let overwrites = words.get(3).map_or(0.0, |share| share.parse().unwrap());
        let name = format!("{} {}", words[0], words[1]);
        let table = table(name, smallest.as_bytes(), largest.as_bytes(), bytes, overwrites);
        levels.add(level.parse().unwrap(), run.parse().unwrap(), table);
    }
    levels
}

fn busy(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn names(choice: &Choice) -> Vec<&str> {
    choice.inputs.iter().map(|(_, _, table)| table.meta().file.as_str()).collect()
}

#[test]
fn the_base_level_divides_what_lies_above() {
    let rules = PickRules { level_bytes_min: 1 << 30, ..RULES };
    let keys = |lines: &[&str]| splits(&levels(lines), &rules);
    assert!(keys(&["0.1 a-z"]).is_empty());
    assert_eq!(keys(&["0.1 a-z", "6 a-b", "6 f-g", "6 p-q"]), [b"f", b"p"]);
    // A small table, as is left where much was deleted, is no overlap.
    assert_eq!(keys(&["6 a-b 1000", "6 f-g 1", "6 p-q 1000"]), [b"f"]);
    // Of many tables some, the same ones when others come and go.
    let line = |number: usize| format!("6 {number:04}x-{number:04}z");
    let many: Vec<String> = (0..1000).map(line).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let (all, later) = (keys(&many), keys(&many[100..]));
    assert!((8..70).contains(&all.len()), "{}", all.len());
    assert!(later.iter().filter(|key| !all.contains(key)).count() <= 1);
    assert_eq!(
        flush_table_bytes(&levels(&[]), 64 << 20, &PickRules { table_bytes: 1 << 30, ..RULES }),
        4 << 20
    );
    let small = PickRules { table_bytes: 1 << 30, ..RULES };
    assert_eq!(flush_table_bytes(&levels(&[]), 8 << 20, &small), 1 << 20);
    assert_eq!(flush_table_bytes(&levels(&["6 a-b"]), 64 << 20, &RULES), RULES.table_bytes);
}

#[test]
fn tables_of_one_rewrite_are_alike() {
    let choice = |lines: &[&str]| pick(&levels(lines), &RULES, &busy(&[])).unwrap();
    let deep = |base| choice(&["0.3 a-z 10", "0.2 a-z 10", "0.1 a-z 10", base]);
    assert_eq!(deep("6 a-z 60").table_bytes(100, &[]), 200, "one, with room for an estimate that is too low");
    assert_eq!(deep("6 a-z 110").table_bytes(100, &[]), 200);
    assert_eq!(deep("6 a-z 130").table_bytes(100, &[]), 85, "two halves");
    assert_eq!(deep("6 a-z 130").table_bytes(100, &[b"m".to_vec()]), 200, "one on each side");
    assert_eq!(deep("6 a-z 130").table_bytes(100, &[b"zz".to_vec()]), 85, "a split beside it");
}

#[test]
fn outputs_hide_what_their_inputs_did_but_for_what_went() {
    let choice = pick_hiding(&levels(&["4 a-f 100 9", "5 a-e 400"]), &RULES, &busy(&[])).unwrap();
    let outputs =
        [table("one".to_owned(), b"a", b"c", 150, 0.0), table("two".to_owned(), b"d", b"f", 150, 0.0)];
    let outputs: Vec<_> = outputs.iter().map(|table| table.meta().clone()).collect();
    assert_eq!(choice.left(&outputs, false).bytes, [350, 350]);
    assert_eq!(choice.left(&outputs, true).bytes, [0; 0]);
}
