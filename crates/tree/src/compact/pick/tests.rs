//! Choices over levels made by hand, and over random ones.

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use firn_format::Sequence;
use firn_format::key::{Entry, Kind};
use firn_format::manifest::TableMeta;
use firn_format::table::TableForm;
use firn_storage::Storage;
use firn_storage::file::cache::BlockCache;
use firn_storage::file::table::{ReaderOptions, TableBuilder, TableReader};
use firn_storage::place::Memory;

use super::{Choice, PickRules, base_level, drain_table_bytes, pick, pick_range, splits};
use crate::compact::hiding::pick_hiding;
use crate::version::{Levels, Table};

mod expired;
mod kept;
mod model;
mod random;
mod room;
mod scans;

const RULES: PickRules = PickRules {
    depth_max: 3,
    depth_mean_max: 100.0,
    share_max: 1.0,
    stay_max: 0.0,
    table_bytes: 100,
    level_bytes_min: 1000,
    level_ratio: 10,
    read_price: 1.0,
    relief_only: false,
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

/// Names of the choice's inputs, its output level, whether it moves.
#[track_caller]
fn assert_picks(lines: &[&str], busy_names: &[&str], expected: Option<(&[&str], u32, bool)>) {
    let choice = pick(&levels(lines), &RULES, &busy(busy_names));
    let found = choice.as_ref().map(|choice| (names(choice), choice.output_level, choice.moves));
    let expected = expected.map(|(names, level, moves)| (names.to_vec(), level, moves));
    assert_eq!(found, expected);
}

#[test]
fn empty_levels_need_no_work() {
    assert_picks(&[], &[], None);
    assert!(pick_range(&Levels::default(), b"", None, &RULES).is_none());
    assert_picks(&["6 a-m 9999999", "6 n-z 9999999"], &[], None);
}

#[test]
fn tables_that_overlap_nothing_older_move() {
    assert_picks(&["0.1 a-f", "0.1 g-k", "0.1 x-z", "6 h-p"], &[], Some((&["0.1 a-f", "0.1 x-z"], 6, true)));
    // What is above them does not matter.
    assert_picks(&["0.2 a-z", "0.1 a-f"], &[], Some((&["0.1 a-f"], 6, true)));
    // Only the oldest sorted run is looked at; bounds that touch overlap.
    assert_picks(&["0.2 a-f", "0.1 g-k", "6 k-p"], &[], None);
    assert_picks(&["0.1 a-f", "0.1 x-z"], &["0.1 a-f"], Some((&["0.1 x-z"], 6, true)));
    assert_picks(&["0.1 a-f"], &["0.1 a-f"], None);
}

#[test]
fn a_deep_group_is_rewritten_with_what_it_overlaps() {
    let shallow = ["0.2 a-f", "0.1 a-f", "6 c-k", "6 m-z"];
    assert_picks(&shallow, &[], None);
    let deep = ["0.3 a-b", "0.2 a-f", "0.1 e-h", "0.3 n-o", "6 c-k", "6 m-z"];
    assert_picks(&deep, &[], Some((&["0.3 a-b", "0.2 a-f", "0.1 e-h", "6 c-k"], 6, false)));
    // Tables of one sorted run count once, however many there are.
    let wide = ["0.2 a-b", "0.2 c-d", "0.2 e-f", "0.2 g-h", "0.1 a-h", "6 a-h"];
    assert_picks(&wide, &[], None);
}

#[test]
fn groups_are_joined_by_what_lies_below() {
    // Nothing in level 0 overlaps anything in level 0, but one table below overlaps all of it.
    let joined = ["0.3 a-b", "0.2 d-e", "0.1 g-h", "6 a-z"];
    assert_picks(&joined, &[], Some((&["0.3 a-b", "0.2 d-e", "0.1 g-h", "6 a-z"], 6, false)));
    let apart = ["0.3 a-b", "0.2 d-e", "0.1 g-h", "6 a-c", "6 d-f", "6 g-z"];
    assert_picks(&apart, &[], None);
}

#[test]
fn the_most_urgent_group_goes_first() {
    let lines =
        ["0.4 m-n", "0.4 a-b", "0.3 m-n", "0.3 a-b", "0.2 m-n", "0.2 a-b", "0.1 m-n", "6 a-b", "6 m-n"];
    assert_picks(&lines, &[], Some((&["0.4 m-n", "0.3 m-n", "0.2 m-n", "0.1 m-n", "6 m-n"], 6, false)));
    assert_picks(&lines, &["0.3 m-n"], Some((&["0.4 a-b", "0.3 a-b", "0.2 a-b", "6 a-b"], 6, false)));
    assert_picks(&lines, &["6 m-n"], Some((&["0.4 a-b", "0.3 a-b", "0.2 a-b", "6 a-b"], 6, false)));
    assert_picks(&lines, &["6 m-n", "0.4 a-b"], None);
}

#[test]
fn much_that_is_superseded_is_rewritten() {
    assert_picks(&["0.1 a-f 100 0.9", "6 a-f 100"], &[], None);
    assert_picks(&["0.1 a-f 300 0.9", "6 a-f 100"], &[], Some((&["0.1 a-f", "6 a-f"], 6, false)));
    assert_picks(&["0.1 a-f 300 0.5", "6 a-f 100"], &[], None);
    // The budget is for all groups together: others dilute it, and add to it.
    assert_picks(&["0.1 a-f 300 0.9", "6 a-f 100", "6 m-z 9000"], &[], None);
    let two =
        ["0.1 a-f 300 0.8", "0.1 m-p 300 0.8", "0.1 s-t 900 0.9", "6 a-f 100", "6 m-p 100", "6 s-t 100"];
    assert_picks(&two, &[], Some((&["0.1 s-t", "6 s-t"], 6, false)));
    // What is being rewritten counts as rewritten.
    assert_picks(&two, &["6 s-t"], None);
    // A share of 0 means as soon as anything is superseded, and nothing if nothing is.
    let zero = PickRules { share_max: 0.0, ..RULES };
    assert!(pick(&levels(&["0.1 a-f 100 0.01", "6 a-f 100"]), &zero, &busy(&[])).is_some());
    assert!(pick(&levels(&["0.1 a-f 100 0.0", "6 a-f 100"]), &zero, &busy(&[])).is_none());
}

/// As [`RULES`], with a budget for the mean depth, and a level 0 that may be as large as the base
/// level.
const MEAN: PickRules = PickRules { depth_max: 9, depth_mean_max: 3.0, stay_max: 1.0, ..RULES };

#[test]
fn the_deepest_group_goes_first_where_all_are_deep_on_average() {
    let lines = [
        "0.4 a-b",
        "0.3 a-b",
        "0.2 a-b",
        "0.1 a-b",
        "6 a-b",
        "0.3 m-n",
        "0.2 m-n",
        "0.1 m-n",
        "6 m-n",
        "6 x-z 300",
    ];
    let of = |lines: &[&str], busy_names: &[&str]| {
        pick(&levels(lines), &MEAN, &busy(busy_names)).map(|choice| names(&choice).join(", "))
    };
    assert_eq!(of(&lines, &[]), None, "what has no level 0 counts too");
    let deep = Some("0.4 a-b, 0.3 a-b, 0.2 a-b, 0.1 a-b, 6 a-b".to_owned());
    assert_eq!(of(&lines[..9], &[]), deep);
    assert_eq!(of(&lines[..9], &["6 a-b"]), None, "what is being rewritten counts as shallow");
}

#[test]
fn runs_are_merged_in_level_0_where_the_base_level_is_large() {
    let choose = |lines: &[&str]| {
        pick(&levels(lines), &MEAN, &busy(&[]))
            .map(|choice| (names(&choice).join(", "), choice.output_level, choice.output_run))
    };
    let lines = ["0.5 a-f", "0.4 a-b", "0.4 c-f", "0.3 a-f", "0.2 a-f", "0.1 a-f 400", "6 a-f 2000"];
    // Not the oldest, which is as large as the others together.
    assert_eq!(choose(&lines), Some(("0.5 a-f, 0.4 a-b, 0.4 c-f, 0.3 a-f, 0.2 a-f".to_owned(), 0, 5)));
    let small = ["0.5 a-f", "0.4 a-f", "0.3 a-f", "0.2 a-f", "6 a-f 300"];
    assert_eq!(choose(&small), Some(("0.5 a-f, 0.4 a-f, 0.3 a-f, 0.2 a-f, 6 a-f".to_owned(), 6, 0)));
    // Each as large as all that are younger: nothing to be gained.
    let steep = ["0.4 a-f 100", "0.3 a-f 200", "0.2 a-f 400", "0.1 a-f 800", "6 a-f 2000"];
    assert_eq!(choose(&steep).map(|choice| choice.1), Some(6));
    // Space is not given back by what stays.
    let garbage = lines.map(|line| if line.starts_with('6') { line } else { "0.9 a-f 1500 0.9" });
    assert_eq!(choose(&garbage).map(|choice| choice.1), Some(6));
}

#[test]
fn what_holds_groups_together_is_cut() {
    let lines =
        ["0.4 a-b", "0.4 c-z 200", "0.3 a-b", "0.2 a-b", "0.1 a-b", "6 a-b 500", "6 m-p 500", "6 s-z 500"];
    let rules = PickRules { depth_max: 4, ..RULES };
    let choice = pick(&levels(&lines), &rules, &busy(&[]));
    assert_eq!(choice.as_ref().map(names), Some(vec!["0.4 a-b", "0.3 a-b", "0.2 a-b", "0.1 a-b", "6 a-b"]));
    // One table from end to end joins all; it alone is rewritten, where it is.
    let mut joined = lines.to_vec();
    joined.retain(|line| !line.starts_with("0.4"));
    joined.push("0.4 a-z 200");
    let choice = pick(&levels(&joined), &rules, &busy(&[])).unwrap();
    assert_eq!((names(&choice), choice.output_level, choice.output_run), (vec!["0.4 a-z"], 0, 4));
    // Where a range tombstone ends at a cut, the bounds stay joined however often that is done.
    let touching = joined.iter().map(|line| if line.starts_with("0.4") { "0.4 a-m 200" } else { line });
    let choice = pick(&levels(&touching.collect::<Vec<_>>()), &rules, &busy(&[])).unwrap();
    assert_eq!(choice.output_level, 6);
    // A large one is worth rewriting everything.
    joined.pop();
    joined.push("0.4 a-z 2000");
    let choice = pick(&levels(&joined), &rules, &busy(&[])).unwrap();
    assert_eq!((choice.inputs.len(), choice.output_level), (joined.len(), 6));
}

#[test]
fn where_only_relief_is_wanted_nothing_deeper_is_rewritten() {
    let rules = PickRules { level_bytes_min: 100, depth_max: 2, ..RULES };
    // Level 5 is over its target, by more than level 0 is over its depth.
    let full = ["0.2 a-z", "0.1 a-z", "5 a-f 100000", "5 g-m 100000", "6 a-f 100", "6 g-m 100"];
    let first = |lines: &[&str], rules: &PickRules| {
        pick(&levels(lines), rules, &busy(&[])).map(|choice| choice.inputs[0].0)
    };
    assert_eq!(first(&full, &rules), Some(5));
    let relief = PickRules { relief_only: true, ..rules };
    assert_eq!(first(&full, &relief), Some(0));
    assert_eq!(first(&full[2..], &relief), None);
}

#[test]
fn the_base_level_divides_what_lies_above() {
    let rules = PickRules { level_bytes_min: 1 << 30, ..RULES };
    let keys = |lines: &[&str]| splits(&levels(lines), &rules);
    assert!(keys(&["0.1 a-z"]).is_empty());
    assert_eq!(keys(&["0.1 a-z", "6 a-b", "6 f-g", "6 p-q"]), [b"f", b"p"]);
    // A small table, as is left where much was deleted, is no group.
    assert_eq!(keys(&["6 a-b 1000", "6 f-g 1", "6 p-q 1000"]), [b"f"]);
    // Of many tables some, the same ones when others come and go.
    let line = |number: usize| format!("6 {number:04}x-{number:04}z");
    let many: Vec<String> = (0..1000).map(line).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let (all, later) = (keys(&many), keys(&many[100..]));
    assert!((8..70).contains(&all.len()), "{}", all.len());
    assert!(later.iter().filter(|key| !all.contains(key)).count() <= 1);
    assert_eq!(
        drain_table_bytes(&levels(&[]), 64 << 20, &PickRules { table_bytes: 1 << 30, ..RULES }),
        4 << 20
    );
    let small = PickRules { table_bytes: 1 << 30, ..RULES };
    assert_eq!(drain_table_bytes(&levels(&[]), 8 << 20, &small), 1 << 20);
    assert_eq!(drain_table_bytes(&levels(&["6 a-b"]), 64 << 20, &RULES), RULES.table_bytes);
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
fn the_base_level_rises_with_the_data() {
    let base = |lines: &[&str]| base_level(&levels(lines), &RULES);
    assert_eq!(base(&[]), 6);
    assert_eq!(base(&["6 a-z 9999"]), 6, "a tenth would be less than a level is worth");
    assert_eq!(base(&["6 a-z 10000"]), 5);
    assert_eq!(base(&["6 a-z 99999"]), 5);
    assert_eq!(base(&["6 a-z 100000"]), 4);
    assert_eq!(base(&["6 a-z 1000000000000"]), 1, "level 1 is the first there is");
    assert_eq!(base(&["3 a-b", "6 a-z 10"]), 3, "what lies higher is not skipped over");
    assert_eq!(base(&["5 a-b"]), 5, "whatever lies in the last level");
}

#[test]
fn level_0_goes_to_the_base_level_alone() {
    let lines = ["0.3 a-f", "0.2 a-f", "0.1 a-f", "5 a-c", "5 x-z", "6 a-z 20000"];
    assert_picks(&lines, &[], Some((&["0.3 a-f", "0.2 a-f", "0.1 a-f", "5 a-c"], 5, false)));
}

#[test]
fn a_level_over_its_target_gives_its_cheapest_table() {
    // A tenth of level 6 is 2000: level 5 is over it.
    let lines = ["5 a-c 1500", "5 e-g 1500", "6 a-b 9000", "6 c-d 9000", "6 e-f 2000"];
    assert_picks(&lines, &[], Some((&["5 e-g", "6 e-f"], 6, false)));
    assert_picks(&lines, &["5 e-g"], Some((&["5 a-c", "6 a-b", "6 c-d"], 6, false)));
    assert_picks(&lines, &["6 e-f"], Some((&["5 a-c", "6 a-b", "6 c-d"], 6, false)));
    assert_picks(&lines, &["6 e-f", "6 c-d"], None);
    assert_picks(&["5 a-c 1999", "6 a-b 20000"], &[], None);
    // Nothing below: it moves.
    let free = ["5 a-c 1500", "5 x-z 1500", "6 a-b 20000"];
    assert_picks(&free, &[], Some((&["5 x-z"], 6, true)));
}

#[test]
fn a_level_above_one_that_holds_nothing() {
    // As found when all of the last level was deleted and the database opened again: there is no
    // level 6.
    let alone = levels(&["5 a-c 5000"]);
    assert_eq!(alone.deeper.len(), 5);
    let choice = pick(&alone, &RULES, &busy(&[])).unwrap();
    assert_eq!((names(&choice), choice.output_level, choice.moves), (vec!["5 a-c"], 6, true));
    // Levels 4 and 5: each is over what an empty last level allows; bytes decide.
    assert_picks(&["4 a-c 5000", "5 x-z 2000"], &[], Some((&["4 a-c"], 5, true)));
}

#[test]
fn a_range_takes_along_all_that_overlaps() {
    let lines = ["0.2 a-d", "0.1 x-z", "5 c-f", "5 m-n", "6 a-b", "6 e-k", "6 p-q"];
    let choose = |start: &[u8], end: Option<&[u8]>| {
        pick_range(&levels(&lines), start, end, &RULES)
            .map(|choice| (names(&choice).join(", "), choice.output_level, choice.moves))
    };
    let of = |names: &str, level| Some((names.to_owned(), level, false));
    assert_eq!(choose(b"a", Some(b"b")), of("0.2 a-d, 5 c-f, 6 a-b, 6 e-k", 6));
    assert_eq!(choose(b"l", Some(b"o")), of("5 m-n", 5), "not deeper than it lies");
    assert_eq!(choose(b"o", Some(b"p")), None, "the end is not part of the range");
    assert_eq!(choose(b"o", Some(b"p\0")), of("6 p-q", 6));
    assert_eq!(choose(b"r", None), of("0.1 x-z", 5), "to the level that level 0 is compacted into");
    let all = choose(b"", None).unwrap();
    assert_eq!(all.0.split(", ").count(), lines.len());
}

#[test]
fn what_a_table_above_the_last_level_hides_takes_it_down() {
    // 1500 bytes hidden by 100 of tombstones, or 90.
    for (share, expected) in [("15", Some((vec!["4 a-f", "5 a-e"], 5))), ("0.9", None)] {
        let first = format!("4 a-f 100 {share}");
        let lines = [&*first, "4 g-m 100", "5 a-e 400", "5 g-z 900", "6 a-z 500"];
        let choice = pick_hiding(&levels(&lines), &RULES, &busy(&[]));
        let found = choice
            .map(|choice| (names(&choice).into_iter().map(str::to_owned).collect(), choice.output_level));
        let expected =
            expected.map(|(names, level)| (names.into_iter().map(str::to_owned).collect::<Vec<_>>(), level));
        assert_eq!(found, expected);
    }
    let lines = ["4 a-f 100 9", "5 a-e 400"];
    assert!(pick_hiding(&levels(&lines), &RULES, &busy(&["5 a-e"])).is_none());
    // Nothing below: it only changes its level.
    assert!(pick_hiding(&levels(&["4 a-f 100 9"]), &RULES, &busy(&[])).is_some_and(|choice| choice.moves));
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
