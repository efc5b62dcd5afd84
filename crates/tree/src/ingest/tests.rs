//! Where tables that come may lie.

use firn_format::manifest::TableMeta;

use super::overlap::place;
use crate::compact::pick::tests::table;
use crate::version::Levels;

fn levels(tables: &[(u32, u64, &str, &str)]) -> Levels {
    let mut levels = Levels::default();
    for (level, run, smallest, largest) in tables {
        let name = format!("{level} {run} {smallest}-{largest}");
        levels.add(*level, *run, table(name, smallest.as_bytes(), largest.as_bytes(), 1, 0.0));
    }
    levels
}

fn meta(smallest: &str, largest: &str) -> TableMeta {
    table("new".to_owned(), smallest.as_bytes(), largest.as_bytes(), 1, 0.0).meta().clone()
}

#[test]
fn a_table_goes_as_deep_as_nothing_of_its_keys_lies() {
    let all = levels(&[(0, 3, "c", "d"), (2, 0, "g", "h"), (6, 0, "a", "e"), (6, 0, "g", "p")]);
    for (smallest, largest, expected) in [
        ("x", "z", (6, false)),
        ("e1", "f", (6, false)),
        ("a", "b", (5, true)),
        ("e", "f", (5, true)),
        ("i", "j", (5, true)),
        ("b", "c", (0, true)),
        ("h", "i", (1, true)),
        ("a", "z", (0, true)),
        ("f", "z", (1, true)),
    ] {
        assert_eq!(place(&all, &meta(smallest, largest), |_| false), expected, "{smallest} to {largest}");
    }
    assert_eq!(place(&Levels::default(), &meta("a", "z"), |_| false), (6, false));
}

#[test]
fn a_level_that_a_compaction_writes_to_is_left_out() {
    let all = levels(&[(6, 0, "a", "b")]);
    assert_eq!(place(&all, &meta("c", "d"), |level| level == 6), (5, false));
    assert_eq!(place(&all, &meta("c", "d"), |level| level >= 4), (3, false));
    assert_eq!(place(&all, &meta("b", "d"), |level| level == 5), (4, true));
    assert_eq!(place(&all, &meta("c", "d"), |_| true), (0, false));
}
