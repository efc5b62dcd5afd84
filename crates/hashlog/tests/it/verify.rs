//! What a verification finds: nothing in a sound database, and every damage by its name.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use firn_engine::blocking::Blocking;
use firn_engine::{
    Engine, ErrorKind, KEYSPACE_DEFAULT, KeyspaceSettings, Severity, VerifyReport, WriteOptions,
};
use firn_hashlog::{HashLog, verify};
use firn_storage::backend::{Crash, Local, LocalOptions, Memory};
use firn_storage::{ManualClock, Storage};

use crate::support::{open, tiny};

/// Longer than a page holds, so that it lies alone.
const LONG: usize = 300_000;

fn opened(storage: &Arc<dyn Storage>) -> Arc<HashLog> {
    open(Arc::clone(storage), Arc::new(ManualClock::new(1_000_000)), false, tiny()).expect("opened")
}

/// Fills a database with more than a segment, two keyspaces and values that lie alone.
fn fill(database: &Arc<HashLog>) {
    let other = database.create_keyspace("other", KeyspaceSettings::default()).expect("made");
    let mut session = Blocking::new(database.session());
    let options = WriteOptions::default();
    for number in 0..12_000_u32 {
        let keyspace = if number % 3 == 0 { other } else { KEYSPACE_DEFAULT };
        session.put(keyspace, &number.to_be_bytes(), &[number as u8; 100], options).expect("put");
    }
    session.delete(KEYSPACE_DEFAULT, &1_u32.to_be_bytes(), options).expect("deleted");
    for (key, byte) in [(b"long", 1), (b"also", 2), (b"long", 3)] {
        session.put(KEYSPACE_DEFAULT, key, &vec![byte; LONG], options).expect("put");
    }
}

fn check(storage: &Arc<dyn Storage>) -> VerifyReport {
    let mut last = None;
    let report = verify(storage, &mut |progress| last = Some(progress)).expect("verified");
    let last = last.expect("progress was told");
    assert!(last.bytes_done <= last.bytes_total, "{last:?}");
    report
}

fn local(path: &Path) -> Arc<dyn Storage> {
    Arc::new(Local::open(path, LocalOptions { create: true }).expect("a directory"))
}

#[test]
fn a_sound_database_has_no_damage() {
    let memory = Memory::new();
    let storage: Arc<dyn Storage> = Arc::new(memory.clone());
    let database = opened(&storage);
    fill(&database);
    assert_eq!(verify(&storage, &mut |_| {}).expect_err("it is open").kind(), ErrorKind::Conflict);
    // As a killed process leaves it: the newest changes are in redo logs alone.
    let killed: Arc<dyn Storage> = Arc::new(memory.crash(Crash::Kill));
    let report = check(&killed);
    assert!(report.is_sound(), "{:?}", report.findings);
    assert!(report.totals.redo_logs > 0 && report.totals.redo_changes > 0, "{:?}", report.totals);
    assert_eq!(report.totals.values, 2);

    database.close().expect("closed");
    drop(database);
    let report = check(&storage);
    assert!(report.is_sound(), "{:?}", report.findings);
    assert_eq!(report.keyspaces, ["default", "other"]);
    let totals = report.totals;
    assert!(totals.log_segments >= 2 && totals.log_records >= 12_000, "{totals:?}");
    assert_eq!((totals.keyspaces, totals.values, totals.redo_changes), (2, 2, 0));
}

/// A byte of each kind of file, near its beginning, in its midst and near the end of what counts.
#[test]
fn a_changed_byte_is_found_where_it_lies() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("db");
    let database = opened(&local(&path));
    fill(&database);
    database.close().expect("closed");
    drop(database);
    // And a process that died: redo logs with changes.
    let again = opened(&local(&path));
    let mut session = Blocking::new(again.session());
    session.put(KEYSPACE_DEFAULT, b"last", b"word", WriteOptions::default()).expect("put");
    drop(session);
    std::mem::forget(again);
    let copied = folder.path().join("killed");
    std::fs::create_dir(&copied).expect("made");
    let mut kinds: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for entry in std::fs::read_dir(&path).expect("listed") {
        let entry = entry.expect("an entry");
        let name = entry.file_name().to_string_lossy().into_owned();
        std::fs::copy(entry.path(), copied.join(&name)).expect("copied");
        let kind = name.rsplit(['.', '-']).next().unwrap_or_default().to_owned();
        kinds.entry(kind).or_default().push(name);
    }
    let storage = || local(&copied);
    let sound = check(&storage());
    assert!(sound.is_sound(), "{:?}", sound.findings);
    assert!(sound.totals.redo_changes > 0, "{:?}", sound.totals);

    let mut flipped = 0;
    for name in kinds.values().flatten().filter(|name| !name.contains("LOCK") && !name.contains("COMBINER")) {
        let file = copied.join(name);
        let whole = std::fs::read(&file).expect("read");
        let used = whole.iter().rposition(|byte| *byte != 0).unwrap_or(0);
        if sound.findings.iter().any(|finding| &finding.file == name) || used < 64 {
            continue;
        }
        for at in [0, 9, 20, 40, used / 2, used] {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x40;
            std::fs::write(&file, &damaged).expect("written");
            let report = match verify(&storage(), &mut |_| {}) {
                Ok(report) => report,
                // A version that is not known may be a newer release's.
                Err(error) => {
                    assert_eq!((error.kind(), at), (ErrorKind::Invalid, 9), "{name}: {error}");
                    flipped += 1;
                    continue;
                }
            };
            let found = report.findings.iter().any(|finding| &finding.file == name);
            assert!(found, "{name}: byte {at} of {used}: {:?}", report.findings);
            flipped += 1;
        }
        std::fs::write(&file, &whole).expect("written");
    }
    assert!(flipped >= 30, "{flipped}");
    assert!(check(&storage()).is_sound());
}

#[test]
fn what_is_missing_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("db");
    let database = opened(&local(&path));
    fill(&database);
    database.close().expect("closed");
    drop(database);
    let names: Vec<String> = local(&path).list().expect("listed").into_iter().map(|(name, _)| name).collect();
    let sound = check(&local(&path));
    for suffix in [".hybrid", ".value", "manifest-"] {
        let of_kind =
            |name: &&String| name.contains(suffix) && !sound.findings.iter().any(|it| it.file == **name);
        let Some(name) = names.iter().find(of_kind) else { panic!("no {suffix} among {names:?}") };
        let whole = std::fs::read(path.join(name)).expect("read");
        std::fs::remove_file(path.join(name)).expect("removed");
        let report = verify(&local(&path), &mut |_| {});
        if suffix == "manifest-" {
            let is_found = report.map_or(true, |report| !report.is_sound());
            assert!(is_found, "{name}");
        } else {
            let report = report.expect("verified");
            let damage: Vec<_> = report.damage().collect();
            assert!(damage.iter().any(|finding| &finding.file == name), "{name}: {damage:?}");
            assert!(damage.iter().any(|finding| finding.message.contains("found no file")), "{damage:?}");
        }
        std::fs::write(path.join(name), whole).expect("written");
    }
    std::fs::write(path.join("notes.txt"), "not of the database").expect("written");
    let report = check(&local(&path));
    assert!(report.is_sound());
    let stranger = report.findings.iter().find(|finding| finding.file == "notes.txt");
    assert_eq!(stranger.map(|finding| finding.severity), Some(Severity::Leftover));
}

#[test]
fn a_directory_without_a_database_is_refused() {
    let storage: Arc<dyn Storage> = Arc::new(Memory::new());
    let error = verify(&storage, &mut |_| {}).expect_err("nothing there");
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("holds no database"), "{error}");
}
