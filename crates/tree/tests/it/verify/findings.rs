//! Findings of `verify` for sound and for damaged databases.

use std::sync::Arc;

use firn_engine::conformance::semantics;
use firn_engine::{Engine, ErrorKind};
use firn_storage::Storage;
use firn_storage::backend::Memory;
use firn_tree::{Severity, Tree, VerifyOptions, verify};

use crate::support::inspect::report;
use crate::support::sample::{Files, NOW_MS, SMALL, directory, options, read_files, sample};

#[test]
fn a_sound_database_has_no_findings_and_is_left_alone() {
    let (files, _) = sample(SMALL);
    let storage = directory(&files);
    let mut steps = Vec::new();
    let options = VerifyOptions { storage: Arc::new(storage.clone()), semantics: semantics() };
    let report = verify(options, &mut |progress| steps.push(progress)).unwrap();
    assert_eq!(report.findings, []);
    assert!(report.is_sound());
    let totals = report.totals;
    assert_eq!((totals.files, totals.keyspaces), (files.len() as u64, 3), "{totals:?}");
    assert_eq!(totals.bytes, files.values().map(|content| content.len() as u64).sum::<u64>());
    assert!(totals.tables >= 6 && totals.log_segments >= 2, "{totals:?}");
    assert!(totals.log_records > 20 && totals.table_entries > 40, "{totals:?}");
    assert!(steps.is_sorted_by_key(|step| step.bytes_done), "{steps:?}");
    let last = steps.last().unwrap();
    assert_eq!(last.bytes_done, last.bytes_total, "{steps:?}");
    assert!(last.bytes_total >= totals.bytes);
    assert_eq!(read_files(&storage), files);
}

/// Bytes that nothing vouches for: what lies behind the last frame of a log segment.
fn is_slack(files: &Files, name: &str, at: usize) -> bool {
    name.ends_with(".log") && files[name][at..].iter().all(|byte| *byte == 0)
}

#[test]
fn every_flipped_byte_is_found_and_named() {
    let (files, _) = sample(SMALL);
    let mut unnoticed = Vec::new();
    for (name, content) in files.iter().filter(|(name, _)| *name != "LOCK") {
        for at in 0..content.len() {
            if is_slack(&files, name, at) {
                continue;
            }
            let mut damaged = files.clone();
            damaged.get_mut(name).unwrap()[at] ^= 1 << (at % 8);
            let storage = Arc::new(directory(&damaged)) as Arc<dyn Storage>;
            match verify(VerifyOptions { storage, semantics: semantics() }, &mut |_| {}) {
                Ok(report) => {
                    let named =
                        report.damage().any(|finding| finding.file == *name && finding.offset.is_some());
                    if !named {
                        unnoticed.push(format!("{name} byte {at}: {:?}", report.findings));
                    }
                }
                // A version byte: a newer release may have written the file.
                Err(error) => {
                    let location = error.location().map(|location| location.file.clone());
                    assert_eq!((error.kind(), location), (ErrorKind::Invalid, Some(name.clone())), "{error}");
                    assert!((8..12).contains(&at), "{name} byte {at}: {error}");
                }
            }
        }
    }
    assert!(
        unnoticed.is_empty(),
        "{} bytes, first {:#?}",
        unnoticed.len(),
        &unnoticed[..unnoticed.len().min(10)]
    );
}

#[test]
fn every_missing_file_is_found() {
    let (files, _) = sample(SMALL);
    let last_edit = files.keys().rfind(|name| name.starts_with("manifest-")).unwrap();
    for name in files.keys() {
        let mut damaged = files.clone();
        damaged.remove(name);
        let report = report(&directory(&damaged));
        if name == last_edit {
            // By the edit before it the database was not closed; everything that edit knows is
            // there.
            assert!(report.is_sound(), "{:?}", report.findings);
            continue;
        }
        assert!(!report.is_sound(), "{name}");
        // Only the segments beside a missing one show that.
        let names = |file: &str| file == name || (name.ends_with(".log") && file.ends_with(".log"));
        assert!(report.damage().any(|finding| names(&finding.file)), "{name}: {:?}", report.findings);
    }
}

#[test]
fn all_damage_is_found_at_once() {
    let (files, _) = sample(SMALL);
    let mut damaged = files.clone();
    let tables: Vec<String> = files.keys().filter(|name| name.ends_with(".table")).cloned().collect();
    for name in &tables {
        damaged.get_mut(name).unwrap()[3] ^= 1;
    }
    let report = report(&directory(&damaged));
    let found: Vec<&String> = report.damage().map(|finding| &finding.file).collect();
    assert_eq!(found, tables.iter().collect::<Vec<_>>(), "{:?}", report.findings);
}

#[test]
fn files_that_nobody_names_are_leftovers() {
    let (mut files, contents) = sample(SMALL);
    let table =
        files.iter().find(|(name, _)| name.ends_with(".table")).map(|(_, content)| content.clone()).unwrap();
    files.insert("lost-000001.table".to_owned(), table);
    files.insert("notes.txt".to_owned(), b"mine".to_vec());
    let storage = directory(&files);
    let found = report(&storage);
    assert!(found.is_sound(), "{:?}", found.findings);
    let names: Vec<(Severity, &str)> =
        found.findings.iter().map(|finding| (finding.severity, finding.file.as_str())).collect();
    assert_eq!(names, [(Severity::Leftover, "lost-000001.table"), (Severity::Leftover, "notes.txt")]);
    // The next opening removes what is its own and leaves the rest.
    let tree = Tree::open(options(&storage, NOW_MS)).unwrap();
    assert_eq!(crate::support::sample::scan_all(&tree).unwrap(), contents);
    drop(tree);
    let after = read_files(&storage);
    assert!(!after.contains_key("lost-000001.table") && after.contains_key("notes.txt"));
}

#[test]
fn a_database_without_a_manifest_is_told_from_no_database() {
    let nothing = VerifyOptions { storage: Arc::new(Memory::new()), semantics: semantics() };
    let error = verify(nothing, &mut |_| {}).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    let (mut files, _) = sample(SMALL);
    files.retain(|name, _| !name.starts_with("manifest-"));
    let report = report(&directory(&files));
    let message = &report.findings[0].message;
    assert!(!report.is_sound() && message.contains("manifest"), "{:?}", report.findings);
}

#[test]
fn a_database_being_written_is_not_verified() {
    let storage = Memory::new();
    let tree = Tree::open(options(&storage, NOW_MS)).unwrap();
    let error =
        verify(VerifyOptions { storage: Arc::new(storage.clone()), semantics: semantics() }, &mut |_| {})
            .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    tree.close().unwrap();
    assert!(report(&storage).is_sound());
}
