//! Manifests that are well formed and wrong: references and invariants, not checksums.

use std::sync::Arc;

use firn_engine::conformance::{PREFIX_4, semantics};
use firn_engine::{Engine, KEYSPACE_DEFAULT, Ordered, PrefixExtractor, Semantics};
use firn_format::file_name::manifest_edit;
use firn_format::manifest::{Change, KeyspaceText, ManifestEdit, TableMeta};
use firn_format::{Position, Sequence};
use firn_storage::backend::Memory;
use firn_tree::{Severity, Tree, VerifyOptions, VerifyReport, verify};

use crate::support::inspect::{edits, report, tables};
use crate::support::sample::{Files, NOW_MS, SMALL, directory, key, options, read_files, sample};
use crate::support::world::{World, delete_range, prefixed, put, session, tiny};

/// What `verify` says once `changes` were committed on top of the sample.
fn report_with(mut files: Files, changes: Vec<Change>) -> VerifyReport {
    let last = edits(&files).pop().unwrap();
    let edit = ManifestEdit { number: last.number + 1, base: false, epoch: last.epoch, changes };
    files.insert(manifest_edit(edit.number), edit.encode());
    report(&directory(&files))
}

#[track_caller]
fn assert_damage(report: &VerifyReport, file: &str, words: &str) {
    let found = report.damage().any(|finding| finding.file == file && finding.message.contains(words));
    assert!(found, "no {words:?} at {file}: {:#?}", report.findings);
}

#[test]
fn an_entry_in_two_places_is_found() {
    let (mut files, _) = sample(SMALL);
    let (_, _, table) = tables(&files).remove(0);
    let copy = TableMeta { file: "copy-000000.table".to_owned(), ..table.clone() };
    files.insert(copy.file.clone(), files[&table.file].clone());
    let add = Change::AddTable { keyspace: KEYSPACE_DEFAULT.0, level: 5, run: 0, table: copy };
    assert_damage(&report_with(files, vec![add]), "copy-000000.table", "expected versions of");
}

#[test]
fn a_newer_version_in_an_older_place_is_found() {
    let (files, _) = sample(SMALL);
    let tables = tables(&files);
    let ((level, _, top), (deep, _, bottom)) = (tables.first().unwrap(), tables.last().unwrap());
    assert!(*level == 0 && *deep > 0, "{tables:?}");
    let swap = vec![
        Change::MoveTable { file: top.file.clone(), level: 6, run: 0 },
        Change::MoveTable { file: bottom.file.clone(), level: 0, run: 1_000 },
    ];
    let report = report_with(files, swap);
    assert_damage(&report, &top.file, "expected versions of");
    assert!(report.damage().all(|finding| finding.file == top.file), "{:?}", report.findings);
}

#[test]
fn tables_of_one_sorted_run_that_overlap_are_found() {
    let (files, _) = sample(SMALL);
    let tables = tables(&files);
    let ((_, _, top), (deep, run, _)) = (tables.first().unwrap(), tables.last().unwrap());
    let together = Change::MoveTable { file: top.file.clone(), level: *deep, run: *run };
    let report = report_with(files, vec![together]);
    assert!(
        report.damage().any(|finding| finding.message.contains("in the same sorted run")),
        "{:?}",
        report.findings
    );
}

#[test]
fn a_level_that_cannot_be_is_found() {
    let (files, _) = sample(SMALL);
    let (_, _, bottom) = tables(&files).pop().unwrap();
    let moved = Change::MoveTable { file: bottom.file.clone(), level: 7, run: 0 };
    assert_damage(&report_with(files, vec![moved]), &bottom.file, "expected a level of at most 6, found 7");
}

#[test]
fn a_table_whose_entries_are_in_the_log_too_is_found() {
    let (mut files, _) = sample(SMALL);
    let (_, _, table) = tables(&files).remove(0);
    let copy = TableMeta { file: "copy-000000.table".to_owned(), ..table.clone() };
    files.insert(copy.file.clone(), files[&table.file].clone());
    let settings = KeyspaceText { compression: Some("none".to_owned()), ..KeyspaceText::default() };
    let changes = vec![
        Change::Keyspace { id: 77, name: "new".to_owned(), settings },
        Change::FlushedThrough { keyspace: 77, position: table.sequence_max.position() },
        Change::AddTable { keyspace: 77, level: 0, run: 1, table: copy },
    ];
    assert_damage(&report_with(files, changes), "copy-000000.table", "the log holds them too");
}

#[test]
fn a_table_that_is_not_what_the_manifest_says_is_found() {
    let (files, _) = sample(SMALL);
    let (level, run, table) = tables(&files).remove(0);
    let wrong = [
        TableMeta { entry_count: table.entry_count + 1, ..table.clone() },
        TableMeta { content_hash: table.content_hash ^ 1, ..table.clone() },
        TableMeta { file_checksum: table.file_checksum ^ 1, ..table.clone() },
        TableMeta { bytes: table.bytes + 1, ..table.clone() },
        TableMeta { sequence_max: Sequence(table.sequence_max.0 - 1), ..table.clone() },
        TableMeta { smallest: b"a".to_vec(), ..table.clone() },
    ];
    for meta in wrong {
        let remove = Change::RemoveTable { file: table.file.clone() };
        let add = Change::AddTable { keyspace: KEYSPACE_DEFAULT.0, level, run, table: meta };
        assert_damage(&report_with(files.clone(), vec![remove, add]), &table.file, "expected");
    }
}

#[test]
fn a_manifest_that_contradicts_itself_is_found() {
    let (files, _) = sample(SMALL);
    let number = edits(&files).pop().unwrap().number + 1;
    let settings = KeyspaceText { compression: Some("none".to_owned()), ..KeyspaceText::default() };
    let twice = Change::Keyspace { id: 50, name: "default".to_owned(), settings: settings.clone() };
    let report = report_with(files.clone(), vec![twice]);
    assert_damage(&report, &manifest_edit(number), "names of one keyspace each");
    let unknown = KeyspaceText { compression: Some("magic".to_owned()), ..settings };
    let odd = Change::Keyspace { id: 51, name: "odd".to_owned(), settings: unknown };
    assert_damage(&report_with(files.clone(), vec![odd]), &manifest_edit(number), "magic");
    let gone = Change::RemoveTable { file: "gone-000000.table".to_owned() };
    assert_damage(&report_with(files.clone(), vec![gone]), &manifest_edit(number), "unknown table");
    let ahead = Change::DurableThrough { position: Position(1 << 40) };
    let report = report_with(files, vec![ahead]);
    assert!(report.damage().any(|finding| finding.file.ends_with(".log")), "{:?}", report.findings);
}

#[test]
fn the_tail_that_a_crash_left_is_no_damage() {
    let (mut files, _) = sample(SMALL);
    let last_edit = files.keys().rfind(|name| name.starts_with("manifest-")).unwrap().clone();
    let closed = files.remove(&last_edit).unwrap();
    let log = files.keys().rfind(|name| name.ends_with(".log")).unwrap().clone();
    files.get_mut(&log).unwrap().extend_from_slice(&[0xab; 100]);
    let found = report(&directory(&files));
    let found: Vec<(Severity, &str)> =
        found.findings.iter().map(|finding| (finding.severity, finding.file.as_str())).collect();
    assert_eq!(found, [(Severity::Leftover, log.as_str())]);
    let whole = files[&log].len() - 100;
    files.get_mut(&log).unwrap().truncate(whole - 8);
    assert!(report(&directory(&files)).is_sound());
    // Once it was closed cleanly, the same is damage.
    files.insert(last_edit, closed);
    assert!(!report(&directory(&files)).is_sound());
}

/// Every step of a database's life leaves a sound database.
#[test]
fn a_database_is_sound_after_every_opening_and_flush() {
    let storage = directory(&sample(SMALL).0);
    for round in 0..3 {
        let tree = Tree::open(options(&storage, NOW_MS)).unwrap();
        if round > 0 {
            tree.flush().unwrap();
            tree.wait_idle().unwrap();
        }
        tree.close().unwrap();
        drop(tree);
        assert_eq!(report(&storage).findings, [], "round {round}");
    }
}

/// Tables of the default keyspace after `work`, with the files.
fn made_by(work: impl FnOnce(&Tree)) -> Files {
    let storage = Memory::new();
    let tree = Tree::open(options(&storage, NOW_MS)).unwrap();
    work(&tree);
    tree.close().unwrap();
    read_files(&storage)
}

#[test]
fn a_newer_range_tombstone_in_an_older_place_is_found() {
    let files = made_by(|tree| {
        let mut session = session(tree);
        for number in 0..10 {
            put(&mut session, &key(number), b"value");
        }
        tree.compact_range(KEYSPACE_DEFAULT, b"", None).unwrap();
        // No entry is in two places: only the tombstone shows it.
        delete_range(tree, KEYSPACE_DEFAULT, &key(3), &key(5)).unwrap();
        tree.flush().unwrap();
    });
    assert!(report(&directory(&files)).is_sound());
    let tables = tables(&files);
    let [(0, _, top), (deep, _, bottom)] = &tables[..] else { panic!("{tables:?}") };
    assert!(*deep > 0 && (top.entry_count, bottom.range_tombstone_count) == (0, 0), "{tables:?}");
    let swap = vec![
        Change::MoveTable { file: top.file.clone(), level: 6, run: 0 },
        Change::MoveTable { file: bottom.file.clone(), level: 0, run: 1_000 },
    ];
    let report = report_with(files, swap);
    assert_damage(&report, &top.file, "expected range tombstones of \"key00003\"");
    assert_damage(&report, &top.file, "expected range tombstones of \"key00004\"");
    assert_eq!(report.damage().count(), 2, "{:?}", report.findings);
}

#[test]
fn a_newer_version_below_an_older_range_tombstone_is_found() {
    let files = made_by(|tree| {
        let mut session = session(tree);
        put(&mut session, &key(4), b"first");
        // Not deleted: else the deletion would take all of the table away, and go with it.
        put(&mut session, &key(9), b"first");
        tree.compact_range(KEYSPACE_DEFAULT, b"", None).unwrap();
        delete_range(tree, KEYSPACE_DEFAULT, &key(3), &key(5)).unwrap();
        tree.flush().unwrap();
        put(&mut session, &key(4), b"later");
        tree.flush().unwrap();
    });
    assert!(report(&directory(&files)).is_sound());
    let tables = tables(&files);
    let [(0, _, entry), (0, _, tombstone), _] = &tables[..] else { panic!("{tables:?}") };
    assert_eq!((entry.entry_count, tombstone.entry_count), (1, 0), "{tables:?}");
    let raised = vec![Change::MoveTable { file: tombstone.file.clone(), level: 0, run: 1_000 }];
    let report = report_with(files, raised);
    assert_damage(&report, &entry.file, "expected versions of \"key00004\"");
    assert_eq!(report.damage().count(), 1, "{:?}", report.findings);
}

/// Another extractor under a known name: the filters do not know its prefixes.
#[derive(Debug)]
struct Other;

impl PrefixExtractor for Other {
    fn name(&self) -> &str {
        PREFIX_4
    }

    fn prefix_bytes(&self, key: &[u8]) -> Option<usize> {
        (key.len() > 5).then_some(5)
    }
}

#[test]
fn filters_of_prefixes_are_checked_where_their_extractor_is_known() {
    let world = World::new(tiny());
    let tree = world.open().unwrap();
    let keyspace = tree.create_keyspace("prefixed", prefixed()).unwrap();
    let mut session = session(&tree);
    for number in 0..10 {
        session.put(keyspace, &key(number), b"value", Default::default()).unwrap();
    }
    tree.flush().unwrap();
    tree.close().unwrap();
    let check = |semantics: Semantics| {
        let storage = Arc::new(world.storage.clone());
        verify(VerifyOptions { storage, semantics }, &mut |_| {}).unwrap()
    };
    let known = check(semantics());
    assert_eq!((known.is_sound(), known.totals.prefix_filters_unchecked), (true, 0));
    let unknown = check(Semantics::new());
    assert_eq!((unknown.is_sound(), unknown.totals.prefix_filters_unchecked), (true, 1));
    let other = check(Semantics::new().with_prefix_extractor(Arc::new(Other)));
    assert!(other.damage().any(|finding| finding.message.contains("prefix")), "{:?}", other.findings);
}
