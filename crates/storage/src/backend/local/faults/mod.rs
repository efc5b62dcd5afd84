//! T6: too few file descriptors. Neighbours: many files at once, mapped files, a file that was
//! removed, a file that was replaced under its name.

mod modes; // S18

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::backend::{Local, LocalOptions};
use crate::{ErrorKind, ReadFile, Storage};

/// Descriptors of this process that lead to files of `directory` called `*.table`.
fn open_tables(directory: &Path) -> usize {
    names_of_open_tables(directory).len()
}

fn names_of_open_tables(directory: &Path) -> Vec<PathBuf> {
    let held = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let targets = held.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    let is_one = |target: &PathBuf| {
        target.starts_with(directory) && target.extension().is_some_and(|ending| ending == "table")
    };
    targets.filter(is_one).collect()
}

/// A directory with `count` files, each of which holds its number; mapped or not, `max` of them
/// open at once.
fn backend(count: u32, max: usize, maps: bool) -> (tempfile::TempDir, Local) {
    let directory = tempfile::tempdir().unwrap();
    let local = Local::open(directory.path(), LocalOptions { create: true }).unwrap();
    let local = if maps { local } else { local.without_mappings() };
    for number in 0..count {
        let name = format!("{number}.table");
        std::fs::write(directory.path().join(name), number.to_le_bytes()).unwrap();
    }
    (directory, local.with_open_files_max(max))
}

fn number_of(file: &Arc<dyn ReadFile>) -> u32 {
    let mut bytes = [0; 4];
    file.read_at(0, &mut bytes).unwrap();
    u32::from_le_bytes(bytes)
}

fn open_all(local: &Local, count: u32) -> Vec<Arc<dyn ReadFile>> {
    (0..count).map(|number| local.open_read(&format!("{number}.table")).unwrap()).collect()
}

#[test]
fn t6_a_thousand_files_are_read_with_few_descriptors() {
    let (directory, local) = backend(1000, 16, false);
    let files = open_all(&local, 1000);
    assert!(open_tables(directory.path()) <= 16, "{}", open_tables(directory.path()));
    for number in (0..1000).rev().chain(0..1000) {
        assert_eq!(number_of(&files[number as usize]), number);
    }
    assert!(open_tables(directory.path()) <= 16, "{}", open_tables(directory.path()));
    drop(files);
    assert_eq!(open_tables(directory.path()), 0);
}

#[test]
fn t6_mapped_files_keep_no_descriptor() {
    let (directory, local) = backend(1000, 16, true);
    let files = open_all(&local, 1000);
    let mapped: Vec<_> = files.iter().map(|file| file.bytes().unwrap().unwrap()).collect();
    assert_eq!(open_tables(directory.path()), 0);
    for (number, (bytes, file)) in (0..).zip(mapped.iter().zip(&files)) {
        assert_eq!((&bytes[..], number_of(file)), (&u32::to_le_bytes(number)[..], number));
    }
    assert!(open_tables(directory.path()) <= 16, "{}", open_tables(directory.path()));
}

#[test]
fn t6_files_that_are_in_use_stay_open() {
    let (directory, local) = backend(20, 8, false);
    let files = open_all(&local, 20);
    for number in 4..20 {
        for wanted in [0, 1, 2, number] {
            assert_eq!(number_of(&files[wanted]), wanted as u32);
        }
        // Four are opened to begin with, and all that were open are closed for them.
        if number > 4 {
            let open = names_of_open_tables(directory.path());
            let is_open = |used: &u32| open.iter().any(|path| path.ends_with(format!("{used}.table")));
            assert!([0, 1, 2].iter().all(is_open), "{open:?} are open after {number}");
        }
    }
    assert!(open_tables(directory.path()) <= 8);
}

#[test]
fn t6_a_file_is_the_same_or_none_once_it_is_opened_again() {
    let (_directory, local) = backend(3, 1, false);
    let files = open_all(&local, 3);
    local.remove("0.table").unwrap();
    local.remove("1.table").unwrap();
    local.rename("2.table", "1.table").unwrap();
    for gone in &files[..2] {
        let error = gone.read_at(0, &mut [0; 4]).unwrap_err();
        assert_eq!(error.kind, ErrorKind::NotFound, "{error}");
    }
    // A mapped file outlives its name, as the mapping does.
    let (_directory, local) = backend(1, 1, true);
    let file = &open_all(&local, 1)[0];
    file.bytes().unwrap().unwrap();
    local.remove("0.table").unwrap();
    assert_eq!(number_of(file), 0);
}

#[test]
fn t6_threads_share_few_descriptors() {
    let (directory, local) = backend(200, 4, false);
    let files = open_all(&local, 200);
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let files = &files;
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(thread);
                for _ in 0..2000 {
                    let number = random.u32(0..200);
                    assert_eq!(number_of(&files[number as usize]), number);
                }
            });
        }
    });
    assert!(open_tables(directory.path()) <= 4 + 4, "{}", open_tables(directory.path()));
}
