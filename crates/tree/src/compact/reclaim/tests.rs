//! What is hidden and what is spent, over tables made by hand and over random ones.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use firn_engine::{Compression, KeyspaceSettings, Semantics};
use firn_format::Position;
use firn_format::key::{Entry, Kind};
use firn_format::manifest::TableMeta;
use firn_format::table::TableForm;
use firn_format::tombstone::Span;
use firn_storage::Storage;
use firn_storage::backend::Memory;
use firn_storage::file::cache::BlockCache;
use firn_storage::file::table::{ReaderOptions, TableBuilder, TableReader};

use super::*;
use crate::memtable::Memtable;
use crate::version::Definition;

/// One deletion: start, end, sequence.
type Deleted<'d> = (&'d str, &'d str, u64);

fn fragments(deleted: &[Deleted<'_>]) -> FragmentList {
    FragmentList::from_spans(deleted.iter().map(|(start, end, sequence)| Span {
        start: start.as_bytes(),
        end: end.as_bytes(),
        sequence: Sequence(*sequence),
    }))
}

/// A table of 100 bytes with two puts at `keys` and of `sequences`, if any, and the tombstones of
/// `deleted`.
fn table(keys: Option<(&str, &str)>, sequences: (u64, u64), deleted: &[Deleted<'_>]) -> Arc<Table> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let file = format!("{}", NUMBER.fetch_add(1, Ordering::Relaxed));
    let memory = Memory::new();
    let mut builder = TableBuilder::new(&file, memory.create(&file).unwrap(), TableForm::default());
    if let Some((smallest, largest)) = keys {
        for (key, sequence) in [(smallest, sequences.0), (largest, sequences.1)] {
            let (key, sequence) = (key.as_bytes(), Sequence(sequence));
            builder.add(&Entry { key, sequence, kind: Kind::Put, expires_at_ms: 0, value: b"v" }).unwrap();
        }
    }
    builder.add_tombstones(&fragments(deleted));
    let meta = TableMeta { bytes: 100, ..builder.finish().unwrap() };
    let cache = Arc::new(BlockCache::new(1 << 20));
    let opened = memory.open_read(&file).unwrap();
    let reader = TableReader::open_file(&file, opened, &cache, ReaderOptions::default()).unwrap();
    Arc::new(Table::new(meta, Arc::new(reader), (0.0, 0), Arc::default()))
}

/// (level, sorted run, table)
fn levels(tables: &[(u32, u64, &Arc<Table>)]) -> Levels {
    let mut levels = Levels::default();
    tables.iter().for_each(|(level, run, table)| levels.add(*level, *run, Arc::clone(table)));
    levels
}

fn keyspace(levels: Levels) -> Keyspace {
    let definition =
        Definition::new(1, "k", KeyspaceSettings::default(), (Compression::None, &Semantics::new())).unwrap();
    Keyspace {
        definition: Arc::new(definition),
        memtable: Arc::new(Memtable::new(&[])),
        memtable_start: Position(0),
        frozen: Vec::new(),
        runs: Vec::new(),
        levels: Arc::new(levels),
        flushed_through: Position(0),
        ingested_through: Position(0),
        observed: Arc::default(),
        obsolete_count: 0,
    }
}

fn sequences(snapshots: &[u64]) -> Vec<Sequence> {
    snapshots.iter().map(|snapshot| Sequence(*snapshot)).collect()
}

/// Whether a table from c to f with sequences 10 to 20 is removed under the deletions of a newer
/// table, with these snapshots alive. And what keeps it.
fn removed(deleted: &[Deleted<'_>], snapshots: &[u64]) -> (bool, Vec<u64>) {
    let (old, new) = (table(Some(("c", "f")), (10, 20), &[]), table(Some(("x", "y")), (50, 60), deleted));
    let keyspace = keyspace(levels(&[(6, 0, &old), (0, 7, &new)]));
    let found = find_reclaimable(&keyspace, &sequences(snapshots), 100);
    assert!(!found.is_flush_due && found.tables.len() < 2);
    assert!(found.tables.iter().all(|table| Arc::ptr_eq(table, &old)));
    (!found.tables.is_empty(), found.kept_for.iter().map(|snapshot| snapshot.0).collect())
}

#[test]
fn a_table_goes_if_newer_tombstones_hide_every_key() {
    let goes = |deleted: &[Deleted<'_>]| removed(deleted, &[]).0;
    assert!(goes(&[("a", "z", 30)]));
    assert!(goes(&[("c", "f0", 30)]));
    assert!(!goes(&[("c", "f", 30)]), "its last key is not deleted");
    assert!(!goes(&[("c0", "z", 30)]), "its first key is not deleted");
    assert!(goes(&[("a", "z", 21)]) && !goes(&[("a", "z", 20)]), "newer than all of it");
    assert!(!goes(&[("a", "z", 15)]));
    assert!(!goes(&[]));
}

#[test]
fn tombstones_side_by_side_count_as_one() {
    let goes = |deleted: &[Deleted<'_>]| removed(deleted, &[]).0;
    assert!(goes(&[("a", "d", 30), ("d", "e", 40), ("e", "z", 31)]));
    assert!(!goes(&[("a", "d", 30), ("d0", "z", 40)]), "a key between them");
    assert!(!goes(&[("a", "d", 30), ("d", "e", 20), ("e", "z", 31)]), "one is as old as the table");
    // As a flush cuts them: in several tables of a sorted run, and in several sorted runs.
    let old = table(Some(("c", "f")), (10, 20), &[]);
    let parts =
        [table(Some(("a", "b")), (50, 51), &[("c", "d", 30)]), table(None, (0, 0), &[("d", "e", 30)])];
    let last = table(None, (0, 0), &[("e", "h", 40)]);
    for (level, run) in [(0, 7), (0, 8), (5, 0)] {
        let all = levels(&[(6, 0, &old), (0, 7, &parts[0]), (0, 7, &parts[1]), (level, run, &last)]);
        assert_eq!(find_reclaimable(&keyspace(all), &[], 100).tables.len(), 1, "level {level} run {run}");
    }
    let some = levels(&[(6, 0, &old), (0, 7, &parts[0]), (0, 7, &last)]);
    assert!(find_reclaimable(&keyspace(some), &[], 100).tables.is_empty());
}

#[test]
fn what_a_snapshot_may_read_stays() {
    let all = [("a", "z", 30)];
    assert_eq!(removed(&all, &[15]), (false, vec![15]));
    assert_eq!(removed(&all, &[30]), (false, vec![30]), "it does not see the tombstone");
    assert_eq!(removed(&all, &[31, 99]), (true, vec![]), "they see the tombstone");
    assert_eq!(removed(&all, &[5, 10]), (true, vec![]), "they see nothing of the table");
    assert_eq!(removed(&all, &[10, 11, 31]), (false, vec![11]));
    assert_eq!(removed(&[("a", "z", 30), ("a", "z", 45)], &[40]), (true, vec![]));
    assert_eq!(removed(&[("a", "d", 30), ("d", "z", 45)], &[40]), (false, vec![40]));
    assert_eq!(removed(&[("a", "d", 30)], &[40]), (false, vec![]), "nobody waits for what stays anyway");
}

#[test]
fn a_table_of_tombstones_goes_once_nothing_older_lies_below() {
    let (old, new) = (table(Some(("c", "f")), (10, 20), &[]), table(None, (0, 0), &[("a", "d", 30)]));
    let spent =
        |levels: Levels| find_reclaimable(&keyspace(levels), &sequences(&[5, 15, 99]), 100).tables.len();
    assert_eq!(spent(levels(&[(6, 0, &old), (0, 7, &new)])), 0);
    assert_eq!(spent(levels(&[(0, 6, &old), (0, 7, &new)])), 0);
    assert_eq!(spent(levels(&[(0, 8, &old), (0, 7, &new)])), 1, "what is above is newer");
    assert_eq!(spent(levels(&[(5, 0, &old), (6, 0, &new)])), 1);
    let beside = table(Some(("d0", "f")), (10, 20), &[]);
    assert_eq!(spent(levels(&[(6, 0, &beside), (0, 7, &new)])), 1);
    let full = table(Some(("a", "b")), (30, 31), &[("a", "d", 30)]);
    assert_eq!(spent(levels(&[(0, 7, &full)])), 0, "it has entries");
}

/// An edit that removes a table twice cannot be applied.
#[test]
fn a_table_that_is_hidden_and_spent_goes_once() {
    let (old, new) = (table(None, (0, 0), &[("b", "c", 20)]), table(None, (0, 0), &[("a", "d", 30)]));
    let found = find_reclaimable(&keyspace(levels(&[(0, 6, &old), (0, 7, &new)])), &[], 100).tables;
    assert_eq!(found.iter().filter(|table| Arc::ptr_eq(table, &old)).count(), 1, "{found:?}");
}

#[test]
fn a_flush_is_due_where_the_buffer_hides_much() {
    let due = |bounds: &[(&str, &str)], deleted: &[Deleted<'_>], written: usize, snapshots: &[u64]| {
        let tables: Vec<_> = bounds.iter().map(|bounds| table(Some(*bounds), (10, 20), &[])).collect();
        let all: Vec<_> = tables.iter().map(|table| (6, 0, table)).collect();
        let keyspace = keyspace(levels(&all));
        for (start, end, sequence) in deleted {
            keyspace.memtable.insert_range_delete(start.as_bytes(), end.as_bytes(), Sequence(*sequence));
        }
        keyspace.memtable.charge(written);
        let found = find_reclaimable(&keyspace, &sequences(snapshots), 800);
        assert!(found.tables.is_empty(), "a replay needs the tombstone and what it hides");
        found.is_flush_due
    };
    let two = [("a", "b"), ("c", "d")];
    assert!(due(&two, &[("a", "z", 30)], 0, &[]), "200 bytes of tables of 800");
    assert!(!due(&two[..1], &[("a", "z", 30)], 0, &[]), "100 bytes only");
    assert!(!due(&two, &[("b", "z", 30)], 0, &[]), "one is not hidden");
    assert!(due(&two, &[("a", "b0", 30), ("b0", "z", 31)], 800, &[]));
    assert!(!due(&two, &[("a", "z", 30)], 804, &[]), "it would write too much for what it gives back");
    assert!(!due(&two, &[("a", "z", 30)], 0, &[25]));
}

#[test]
fn a_look_is_due_when_something_has_changed() {
    let (old, new) =
        (table(Some(("c", "f")), (10, 20), &[]), table(Some(("x", "y")), (50, 60), &[("a", "z", 30)]));
    let (second, alive) = (Duration::from_secs(1), sequences(&[15]));
    let mut state = keyspace(levels(&[(6, 0, &old)]));
    let is_due = |state: &Keyspace, now, alive: &[Sequence]| {
        state.observed.reclaim_checks.is_due(state, now, || alive.to_vec())
    };
    assert!(!is_due(&state, second, &alive), "no range tombstone anywhere");
    Arc::make_mut(&mut state.levels).add(0, 7, new);
    assert!(is_due(&state, second, &alive));
    state.observed.reclaim_checks.begin(&state, second);
    state.observed.reclaim_checks.end(find_reclaimable(&state, &alive, 100).kept_for, Vec::new());
    assert!(!is_due(&state, second * 100, &alive));
    assert!(is_due(&state, second, &[]), "the snapshot that kept the table is gone");
    state.memtable.insert_range_delete(b"a", b"b", Sequence(70));
    assert!(is_due(&state, second, &alive));
    state.observed.reclaim_checks.begin(&state, second);
    state.memtable.insert_range_delete(b"a", b"b", Sequence(71));
    assert!(!is_due(&state, second, &alive), "not for every one");
    assert!(is_due(&state, second * 2, &alive));
    state.observed.reclaim_checks.begin(&state, second * 2);
    state.observed.reclaim_checks.repeat(second * 2);
    assert!(!is_due(&state, second * 2, &alive) && is_due(&state, second * 3, &alive));
}

/// Whether no reader can tell that `old` is gone, key by key.
fn is_hidden(old: &Table, tombstones: &[FragmentList], snapshots: &[Sequence]) -> bool {
    let meta = old.meta();
    let keys = (b'a'..=b'h').flat_map(|letter| [vec![letter], vec![letter, b'5']]);
    let mut readers = snapshots.to_vec();
    readers.push(Sequence::MAX);
    readers.retain(|reader| *reader > meta.sequence_min);
    keys.filter(|key| meta.smallest <= *key && *key <= meta.largest).all(|key| {
        readers.iter().all(|reader| {
            let newest = tombstones.iter().filter_map(|list| list.newest_covering(&key, *reader)).max();
            newest > Some(meta.sequence_max)
        })
    })
}

#[test]
fn hidden_tables_are_those_of_which_no_reader_sees_a_key() {
    let mut hits = 0;
    for seed in 0..2000 {
        let mut random = fastrand::Rng::with_seed(seed);
        let letter = |random: &mut fastrand::Rng| char::from(random.u8(b'a'..=b'h')).to_string();
        let mut deletions = || -> Vec<(String, String, u64)> {
            let one = |_| (letter(&mut random), letter(&mut random), random.u64(15..40));
            (0..4).map(one).filter(|(start, end, _)| start < end).collect()
        };
        let owned = [deletions(), deletions()];
        let [first, second] = owned.each_ref().map(|all| {
            let deleted = all.iter().map(|(start, end, sequence)| (start.as_str(), end.as_str(), *sequence));
            deleted.collect::<Vec<Deleted<'_>>>()
        });
        let from = random.u8(b'a'..b'g');
        let keys = (char::from(from).to_string(), format!("{}5", char::from(from + random.u8(0..2))));
        let old = table(Some((&keys.0, &keys.1)), (random.u64(5..15), 20), &[]);
        let new = table(Some(("x", "y")), (50, 60), &first);
        let keyspace = keyspace(levels(&[(6, 0, &old), (0, 7, &new)]));
        for (start, end, sequence) in &second {
            keyspace.memtable.insert_range_delete(start.as_bytes(), end.as_bytes(), Sequence(*sequence));
        }
        let mut snapshots: Vec<_> = (0..random.usize(..3)).map(|_| Sequence(random.u64(..60))).collect();
        snapshots.sort_unstable();
        let found = find_reclaimable(&keyspace, &snapshots, 400);
        let lists = [fragments(&first), fragments(&second)];
        let (by_tables, by_all) =
            (is_hidden(&old, &lists[..1], &snapshots), is_hidden(&old, &lists, &snapshots));
        assert_eq!(found.tables.len(), usize::from(by_tables), "seed {seed}");
        assert_eq!(found.is_flush_due, by_all && !by_tables, "seed {seed}");
        hits += usize::from(by_all);
    }
    assert!((100..1900).contains(&hits), "{hits} of 2000 are hidden: too few or too many to tell");
}
