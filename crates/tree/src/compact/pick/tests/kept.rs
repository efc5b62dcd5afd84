//! Choices of tables of the last level that snapshots left tombstones in.

use std::sync::Arc;

use firn_format::Sequence;

use super::{Levels, PickRules, RULES, busy, names, table};
use crate::compact::kept::pick_kept;
use crate::compact::pick::Choice;
use crate::version::Table;

/// A table of 10 entries and 100 bytes.
fn of_tombstones(file: &str, tombstone_count: u64) -> Arc<Table> {
    let plain = table(file.to_owned(), file.as_bytes(), file.as_bytes(), 100, 0.0);
    let meta = firn_format::manifest::TableMeta {
        entry_count: 10,
        tombstone_count,
        sequence_max: Sequence(50),
        ..plain.meta().clone()
    };
    Arc::new(Table::new(meta, Arc::clone(plain.reader()), (0.0, 0), Arc::default()))
}

fn choose(levels: &Levels, oldest_snapshot: Sequence, busy_names: &[&str]) -> Option<Choice> {
    let rules = PickRules { share_max: 0.5, oldest_snapshot, ..RULES };
    pick_kept(levels, &rules, &busy(busy_names))
}

#[test]
fn the_last_level_s_table_with_most_tombstones_is_rewritten_once_no_snapshot_sees_into_it() {
    let mut levels = Levels::default();
    levels.add(6, 0, of_tombstones("a", 4));
    levels.add(6, 0, of_tombstones("b", 3));
    for oldest in [Sequence::MAX, Sequence(51)] {
        let choice = choose(&levels, oldest, &[]).unwrap();
        assert_eq!((names(&choice), choice.output_level, choice.moves), (vec!["a"], 6, false));
    }
    assert!(choose(&levels, Sequence(50), &[]).is_none());
    assert_eq!(names(&choose(&levels, Sequence::MAX, &["a"]).unwrap()), ["b"]);
    assert!(choose(&levels, Sequence::MAX, &["a", "b"]).is_none());
}

#[test]
fn few_tombstones_stay_and_so_do_those_that_have_levels_below() {
    let mut levels = Levels::default();
    levels.add(5, 0, of_tombstones("above", 5));
    assert!(choose(&levels, Sequence::MAX, &[]).is_none());
    levels.add(6, 0, of_tombstones("some", 2));
    // 40 of 200 bytes, beside 160 that live.
    assert!(choose(&levels, Sequence::MAX, &[]).is_none());
    levels.remove("above").unwrap();
    assert!(choose(&levels, Sequence::MAX, &[]).is_some());
}
