//! Schedules of collections beside reads, compactions and copies: `RUSTFLAGS="--cfg loom" cargo test -p firn-tree --test loom_values`.
//!
//! `Database::version` is held by an `ArcSwap`, which loom cannot see into, and the files are files. So this is a model: of the steps in
//! `values/collect.rs`, `values/deaths.rs`, `values/read.rs`, `compact/run.rs`, `version/commit.rs` and `checkpoint.rs`, in their
//! order. `loom_version/swap.rs` says what stands for `ArcSwap`.
//!
//! Each property has orders beside it that break it: loom must find those out, or it could find out nothing.
#![cfg(loom)]
#![expect(dead_code, reason = "the model of versions uses all of the swap")]

#[path = "loom_version/swap.rs"]
mod swap;
#[path = "loom_values/database.rs"]
mod database;

use std::sync::Arc;

use database::{Database, Mistake};
use loom::thread;

/// What threads do to one database.
struct Scene {
    /// Alone, at the beginning.
    first: fn(&Database),
    /// Each on a thread of its own.
    beside: &'static [fn(&Database)],
    /// Meanwhile.
    reader: fn(&Database),
}

impl Scene {
    /// Runs it under every schedule with few preemptions: two, if nothing else is asked for, which is enough to find out
    /// each mistake.
    fn run(&'static self, mistake: Option<Mistake>) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = builder.preemption_bound.filter(|_| mistake.is_none()).or(Some(2));
        builder.max_branches = 10_000;
        builder.check(move || {
            let database = Arc::new(Database::new(mistake));
            (self.first)(&database);
            let threads = self.beside.iter().map(|work| {
                let database = Arc::clone(&database);
                thread::spawn(move || work(&database))
            });
            let threads: Vec<_> = threads.collect();
            (self.reader)(&database);
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            database.assert_finds_all(&database.version());
            database.assert_conserved();
        });
    }
}

/// Reads everything in one version, at its beginning and later.
fn read(database: &Database) {
    let held = database.version();
    database.assert_finds_all(&held);
    database.assert_finds_all(&database.version());
    database.assert_finds_all(&held);
}

/// Three values, one of them dead, another one about to die.
fn litter(database: &Database) {
    database.write(&[1, 2, 3]);
    database.write(&[1]);
    database.compact();
    database.write(&[2]);
}

/// A compaction finds that a value is dead which a collection copies; both are read.
const COLLECT: Scene = Scene { first: litter, beside: &[Database::compact, Database::collect], reader: read };

#[test]
fn a_read_finds_all_across_a_collection_and_a_compaction() {
    COLLECT.run(None);
}

#[test]
#[should_panic(expected = "neither referred to nor dead")]
fn what_dies_during_a_collection_is_dead_in_its_output() {
    COLLECT.run(Some(Mistake::ForgetDeaths));
}

#[test]
#[should_panic(expected = "dies where it is not")]
fn deaths_are_translated_by_the_newest_map() {
    COLLECT.run(Some(Mistake::TranslateByAnOldMap));
}

#[test]
#[should_panic(expected = "is removed while somebody reads it")]
fn files_go_with_their_last_holder() {
    COLLECT.run(Some(Mistake::RemoveWhenRetired));
}

/// A value that is read in an older version dies, and its segment is collected.
const OUTLIVED: Scene = Scene {
    first: litter,
    beside: &[|database| {
        database.write(&[3]);
        database.compact();
        database.collect();
    }],
    reader: read,
};

#[test]
fn an_older_version_finds_what_has_died_since() {
    OUTLIVED.run(None);
}

#[test]
#[should_panic(expected = "is nowhere")]
fn records_and_the_map_are_of_one_version() {
    OUTLIVED.run(Some(Mistake::MapOfAnotherVersion));
}

/// What was collected is collected again, while a value of it dies.
const AGAIN: Scene = Scene {
    first: |database| {
        litter(database);
        database.collect();
    },
    beside: &[Database::compact, |database| {
        database.collect_all();
        database.collect_all();
    }],
    reader: read,
};

#[test]
fn a_read_finds_all_across_collections_of_collections() {
    AGAIN.run(None);
}

#[test]
#[should_panic(expected = "dies where it is not")]
fn deaths_are_translated_past_two_collections() {
    AGAIN.run(Some(Mistake::TranslateByAnOldMap));
}

/// All that a job copies dies meanwhile, and the files with it.
const LEASE: Scene = Scene {
    first: |database| {
        database.write(&[1, 2]);
        database.write(&[1]);
        database.compact();
        database.write(&[2]);
    },
    beside: &[Database::compact, Database::collect],
    reader: |_| {},
};

#[test]
fn a_job_has_its_files_to_the_end() {
    LEASE.run(None);
}

#[test]
#[should_panic(expected = "is removed while a job reads it")]
fn a_job_holds_its_inputs() {
    LEASE.run(Some(Mistake::HoldNothing));
}

#[test]
#[should_panic(expected = "neither referred to nor dead")]
fn a_collection_is_not_committed_once_all_of_it_is_dead() {
    LEASE.run(Some(Mistake::ForgetDeaths));
}

/// Values are written and sealed while others are collected.
const WRITES: Scene =
    Scene { first: litter, beside: &[|database| database.write(&[3, 4]), Database::collect], reader: read };

#[test]
fn what_is_sealed_during_a_collection_is_found() {
    WRITES.run(None);
}

#[test]
#[should_panic(expected = "is nowhere")]
fn a_collection_changes_the_newest_map() {
    WRITES.run(Some(Mistake::ChangeAnOldMap));
}

/// A copy is made of whatever is there at one moment.
const COPY: Scene = Scene { reader: Database::assert_copies, ..COLLECT };

#[test]
fn a_copy_has_what_its_records_refer_to() {
    COPY.run(None);
}

#[test]
#[should_panic(expected = "is removed while it is copied")]
fn nothing_is_committed_while_files_are_copied() {
    COPY.run(Some(Mistake::CopyUnlocked));
}
