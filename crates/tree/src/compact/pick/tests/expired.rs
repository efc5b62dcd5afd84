//! Choices of tables whose values have expired.

use std::sync::Arc;

use firn_format::Sequence;
use firn_format::key::{Entry, Kind};
use firn_format::table::TableForm;
use firn_storage::Storage;
use firn_storage::file::cache::BlockCache;
use firn_storage::file::table::{ReaderOptions, TableBuilder, TableReader};
use firn_storage::place::Memory;

use super::{Levels, PickRules, RULES, busy, names};
use crate::compact::expired::pick_expired;
use crate::compact::pick::Choice;
use crate::version::Table;

/// A table called `file` of 10 values of 100 bytes, of which each of `expiring` expires at that
/// time.
fn table(file: &str, expiring: &[u64]) -> Arc<Table> {
    let memory = Memory::new();
    let mut builder = TableBuilder::new(file, memory.create(file).unwrap(), TableForm::default());
    for number in 0..10 {
        let key = format!("{file} {number}");
        let expires_at_ms = expiring.get(number).copied().unwrap_or(0);
        let value = vec![b'v'; 100 - key.len()];
        let key = key.as_bytes();
        let entry = Entry { key, sequence: Sequence(1), kind: Kind::Put, expires_at_ms, value: &value };
        builder.add(&entry).unwrap();
    }
    let meta = builder.finish().unwrap();
    let file = memory.open_read(&meta.file).unwrap();
    let cache = Arc::new(BlockCache::new(1 << 20));
    let reader = TableReader::open_file(&meta.file, file, &cache, ReaderOptions::default()).unwrap();
    Arc::new(Table::new(meta, Arc::new(reader), (0.0, 0), Arc::default()))
}

/// Of a garbage share of a third.
fn choose(levels: &Levels, now_ms: u64, busy_names: &[&str]) -> Option<Choice> {
    let rules = PickRules { share_max: 1.0 / 3.0, now_ms, ..RULES };
    pick_expired(levels, &rules, &busy(busy_names))
}

#[test]
fn the_table_of_which_most_has_expired_is_rewritten_where_it_lies() {
    let mut levels = Levels::default();
    levels.add(0, 7, table("above", &[50; 6]));
    levels.add(5, 0, table("half", &[100; 5]));
    assert!(choose(&levels, 49, &[]).is_none());
    let choice = choose(&levels, 50, &[]).unwrap();
    assert_eq!((names(&choice), choice.output_level, choice.output_run), (vec!["above"], 0, 7));
    let choice = choose(&levels, 100, &["above"]).unwrap();
    assert_eq!((names(&choice), choice.output_level, choice.output_run), (vec!["half"], 5, 0));
    assert!(choose(&levels, 100, &["above", "half"]).is_none());
}

#[test]
fn what_has_expired_may_be_a_share_of_what_lives() {
    let mut levels = Levels::default();
    levels.add(6, 0, table("some", &[50, 50, 100]));
    assert!(choose(&levels, 99, &[]).is_none(), "a quarter of what lives");
    assert!(choose(&levels, 100, &[]).is_some(), "nearly a half");
    levels.add(6, 0, table("none", &[]));
    assert!(choose(&levels, 100, &[]).is_none(), "a sixth of all that lives");
    levels.remove("some").unwrap();
    assert!(!levels.has_expiring() && choose(&levels, 100, &[]).is_none());
}

#[test]
fn it_is_never_so_urgent_that_drains_wait_and_needs_room_for_what_lives() {
    let mut levels = Levels::default();
    levels.add(6, 0, table("all", &[50; 10]));
    let choice = choose(&levels, 50, &[]).unwrap();
    assert!((1.0..crate::background::FAR_BEHIND).contains(&choice.score), "{}", choice.score);
    let fits = |now_ms| choice.fits(&PickRules { room_bytes: 100, now_ms, ..RULES });
    assert!(fits(50) && !fits(49));
}
