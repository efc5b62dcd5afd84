//! T5, cut short: a flush of many keyspaces into one file, and the copying of what lives in one, at
//! every step. A disk that is full at each of their steps; the findings of `verify` for parts that
//! lie wrong.

use std::sync::Arc;
use std::time::Duration;

use firn_engine::{Engine, ErrorKind, KeyspaceId};
use firn_format::file_name::{Part, manifest_edit, part};
use firn_format::manifest::{Change, ManifestEdit, TableMeta};
use firn_storage::ErrorKind as Kind;
use firn_storage::backend::{Crash, Effect, Fault, Faulty, Operation, When};
use firn_tree::{Background, Tree, VerifyReport};

use super::shared_files::{Many, assert_holds, assert_sound, shared};
use crate::support::inspect::{edits, report, tables_of};
use crate::support::sample::{Files, directory, read_files};
use crate::support::world::{World, settle};

/// What a machine that goes leaves.
type Left = fn(&World) -> World;

const CRASHES: [(&str, Left); 3] = [
    ("kill", |world| world.crash(Crash::Kill)),
    ("power 3", |world| world.crash(Crash::PowerLoss { seed: 3 })),
    ("power 4", |world| world.crash(Crash::PowerLoss { seed: 4 })),
];

/// Names of files are there in no order: that of an edit without that of the file that it names.
const UNORDERED: [(&str, Left); 3] = [
    ("power 5, unordered", |world| world.crash_without_order(5)),
    ("power 6, unordered", |world| world.crash_without_order(6)),
    ("power 7, unordered", |world| world.crash_without_order(7)),
];

/// Ends the machine at each step of what `act` does to what `prepare` makes; all is there
/// afterwards, and nothing is left over.
fn cut_everywhere(prepare: impl Fn() -> Many, act: impl Fn(&Tree), files_max: usize, cuts_min: u64) {
    for (crash, left) in CRASHES.into_iter().chain(UNORDERED) {
        let mut cuts = 0;
        for step in 0.. {
            let many = prepare();
            let first = many.world.storage.operations();
            many.world.storage.cut_write_at(first + step, (step as usize * 4001) % 9000);
            act(&many.tree);
            let Some(operation) = many.world.storage.cut_operation() else { break };
            let what = format!("{crash} at step {step}, `{operation}`");
            cuts += 1;
            let left = left(&many.world);
            drop(many.tree);
            let tree = left.open().unwrap();
            assert_holds(&tree, &many.model, &what);
            settle(&tree);
            let again = Many { world: left, tree, model: many.model };
            again.assert_all(&format!("{what}, settled"));
            again.assert_small(&what);
            let files = again.shared();
            assert!(files.len() <= files_max, "{what}: {files:?}");
            again.tree.close().unwrap();
            assert_sound(Arc::new(again.world.storage.clone()), &what);
        }
        assert!(cuts >= cuts_min, "{cuts} cuts");
    }
}

/// Keyspaces with records that are in the log alone, durable there.
fn written(count: u32) -> Many {
    let many = Many::written(count);
    many.tree.sync().unwrap();
    many
}

#[test]
fn t5_a_machine_that_goes_at_any_step_of_a_shared_flush_loses_nothing() {
    cut_everywhere(|| written(6), |tree| drop(tree.flush()), 1, 12);
}

#[test]
fn t5_a_machine_that_goes_at_any_step_of_copying_loses_nothing() {
    let prepare = || {
        let mut many = Many::flushed(9);
        many.drop_most(4);
        many.tree.sync().unwrap();
        many
    };
    let act = |tree: &Tree| while tree.step().unwrap_or(false) {};
    cut_everywhere(prepare, act, 1, 8);
}

#[test]
fn t5_a_machine_that_goes_at_any_step_of_compactions_done_together_loses_nothing() {
    let prepare = || {
        let mut many = Many::flushed(6);
        for round in 1..6 {
            many.write(round..round + 8, round);
            many.tree.flush().unwrap();
        }
        many
    };
    let act = |tree: &Tree| while tree.step().unwrap_or(false) {};
    cut_everywhere(prepare, act, 3, 8);
}

/// Where something must wait for room.
const REFUSALS: [(Operation, &str); 4] = [
    (Operation::Create, "*.tables"),
    (Operation::Write, "*.tables"),
    (Operation::Sync, "*.tables"),
    (Operation::Publish, "manifest-*"),
];

/// Opens what lies in `world` on a backend that is full for `on` and `file`.
fn full(world: &World, on: Operation, file: &str) -> (Faulty, Arc<Tree>) {
    let faulty = Faulty::new(Arc::new(world.storage.clone()));
    let tree = world.open_on(Arc::new(faulty.clone()), Background::Manual);
    let (when, effect) = (When::Always { after: 0 }, Effect::Fail(Kind::Full));
    faulty.inject(Fault { on, file: file.to_owned(), when, effect });
    (faulty, tree)
}

#[test]
fn t5_a_shared_flush_that_finds_no_room_leaves_no_file() {
    for (on, file) in REFUSALS {
        let what = format!("no room to {on:?} {file}");
        let many = written(6);
        many.tree.close().unwrap();
        let (faulty, tree) = full(&many.world, on, file);
        let error = tree.flush().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Retry, "{what}: {error}");
        assert_eq!(shared(&many.world), [], "{what}");
        assert_holds(&tree, &many.model, &what);
        faulty.clear_faults();
        tree.flush().unwrap();
        assert_eq!(shared(&many.world).len(), 1, "{what}");
        let again = Many { tree, ..many };
        again.assert_all(&what);
        again.assert_small(&what);
        again.tree.close().unwrap();
        assert_sound(Arc::new(again.world.storage.clone()), &what);
    }
}

#[test]
fn t5_copying_that_finds_no_room_leaves_no_file_and_is_done_later() {
    for (on, file) in REFUSALS {
        let what = format!("no room to {on:?} {file}");
        let mut many = Many::flushed(12);
        many.drop_most(4);
        many.tree.close().unwrap();
        let before = many.shared();
        let (faulty, tree) = full(&many.world, on, file);
        let mut refused = 0;
        while tree.step().unwrap_or_else(|error| {
            assert_eq!(error.kind(), ErrorKind::Retry, "{what}: {error}");
            refused += 1;
            true
        }) {}
        assert_eq!(refused, 1, "{what}: once, and then it waits");
        assert_eq!(many.shared(), before, "{what}");
        assert_holds(&tree, &many.model, &what);
        faulty.clear_faults();
        many.world.clock.advance(Duration::from_secs(2));
        settle(&tree);
        let after = many.shared();
        assert!(after.len() == 1 && after[0].1 < before[0].1 / 2, "{what}: {after:?}");
        let again = Many { tree, ..many };
        again.assert_all(&what);
        again.assert_small(&what);
    }
}

#[test]
fn t5_a_part_that_is_damaged_is_left_and_the_others_are_copied() {
    let mut many = Many::flushed(12);
    many.drop_most(4);
    many.tree.close().unwrap();
    let mut files = read_files(&many.world.storage);
    let spoiled = *many.model.keys().next().unwrap();
    let table = tables_of(&files, KeyspaceId(spoiled)).remove(0).2;
    let at = part(&table.file).unwrap();
    files.get_mut(at.file).unwrap()[at.offset as usize + 20] ^= 1;
    let world = World { storage: directory(&files), ..many.world.clone() };
    let found = report(&world.storage);
    // The finding names the part, and where in it.
    assert!(found.damage().all(|finding| finding.file == table.file), "{:?}", found.findings);
    assert!(
        found.damage().any(|finding| finding.offset.is_some_and(|offset| offset <= 20)),
        "{:?}",
        found.findings
    );
    let tree = world.open().unwrap();
    let mut errors = 0;
    while tree.step().unwrap_or_else(|_| {
        errors += 1;
        true
    }) {}
    assert_eq!(errors, 1);
    let stats = tree.stats();
    assert_eq!(stats.damaged_file_count, 1, "{:?}", stats.damage);
    assert!(stats.damage.unwrap().contains(&table.file));
    // The old file for the damaged part, and a new one for the others.
    assert_eq!(shared(&world).len(), 2);
    many.model.remove(&spoiled);
    assert_holds(&tree, &many.model, "the others");
}

/// What `verify` says of six keyspaces in one file once the first one's table is `changed`.
fn report_with(change: impl Fn(&TableMeta, &TableMeta) -> String) -> (String, VerifyReport) {
    let many = Many::flushed(6);
    many.tree.close().unwrap();
    let mut files: Files = read_files(&many.world.storage);
    let ids: Vec<u32> = many.model.keys().copied().collect();
    let of = |id: u32| tables_of(&files, KeyspaceId(id)).remove(0);
    let ((level, run, first), (_, _, last)) = (of(ids[0]), of(ids[5]));
    let name = change(&first, &last);
    let moved = TableMeta { file: name.clone(), bytes: part(&name).unwrap().bytes, ..first.clone() };
    let changes = vec![
        Change::RemoveTable { file: first.file },
        Change::AddTable { keyspace: ids[0], level, run, table: moved },
    ];
    let last = edits(&files).pop().unwrap();
    let edit = ManifestEdit { number: last.number + 1, base: false, epoch: last.epoch, changes };
    files.insert(manifest_edit(edit.number), edit.encode());
    (name, report(&directory(&files)))
}

#[track_caller]
fn assert_damage((name, report): &(String, VerifyReport), words: &str) {
    let found = report.damage().any(|finding| finding.file == *name && finding.message.contains(words));
    assert!(found, "no {words:?} at {name}: {:#?}", report.findings);
}

#[test]
fn t5_parts_that_overlap_or_lie_beyond_their_file_are_found() {
    let same = report_with(|first, _| first.file.clone());
    assert_eq!(same.1.findings, []);
    let over = report_with(|_, last| {
        let at = part(&last.file).unwrap();
        Part { offset: at.offset + 1, bytes: at.bytes - 1, ..at }.to_string()
    });
    assert_damage(&over, "expected a part behind offset");
    let beyond = report_with(|_, last| {
        let at = part(&last.file).unwrap();
        Part { offset: at.offset + 1, ..at }.to_string()
    });
    assert_damage(&beyond, "but the file ends at");
    let nowhere =
        report_with(|first, _| Part { file: "no-000000.tables", ..part(&first.file).unwrap() }.to_string());
    assert_damage(&nowhere, "found no such file");
}

#[test]
fn t5_a_shared_file_that_is_missing_or_left_over_is_found() {
    let many = Many::flushed(6);
    many.tree.close().unwrap();
    let files = read_files(&many.world.storage);
    let (name, _) = many.shared().remove(0);
    let mut without = files.clone();
    let content = without.remove(&name).unwrap();
    let missing = report(&directory(&without));
    let parts =
        missing.damage().filter(|finding| part(&finding.file).is_some_and(|part| part.file == name)).count();
    assert_eq!(parts, 6, "{:?}", missing.findings);
    let mut more = files;
    more.insert("lost-000000.tables".to_owned(), content);
    let storage = directory(&more);
    let found = report(&storage);
    assert!(found.is_sound());
    let names: Vec<&str> = found.findings.iter().map(|finding| finding.file.as_str()).collect();
    assert_eq!(names, ["lost-000000.tables"]);
    // The next opening removes it.
    let world = World { storage, ..many.world.clone() };
    drop(world.open().unwrap());
    assert_eq!(shared(&world).len(), 1);
}
