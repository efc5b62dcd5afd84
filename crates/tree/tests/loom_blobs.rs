//! Schedules of GCs beside reads, compactions and copies:
//! `RUSTFLAGS="--cfg loom" cargo test -p firn-tree --test loom_blobs`.
//!
//! `Database::version` is held by an `ArcSwap`, which loom cannot see into, and the files are
//! files. So this is a model of the steps in `blob_gc/collect.rs`, `blob_gc/liveness.rs`,
//! `blobs/read.rs`, `compact/run.rs`, `edits/commit.rs` and `copy.rs`, in their order.
//! `shuttle_blobs.rs` has more of it at once, in schedules that are drawn. `model/swap.rs` says
//! what stands for `ArcSwap`.
//!
//! Each property has orders beside it that break it: loom must find those out, else its silence
//! proves nothing.
#![cfg(loom)]
#![expect(
    dead_code,
    unused_imports,
    reason = "what more is in the model is for `shuttle_blobs.rs`, and of the swap for `loom_version.rs`"
)]

mod model;

use model::blobs::{Database, Mistake};
use model::scene::Scene;

/// A scene after which nothing is missing.
const fn scene(
    first: fn(&Database),
    beside: &'static [fn(&Database)],
    reader: fn(&Database),
) -> Scene<Database> {
    let last = |database: &Database| {
        database.assert_finds_all(&database.latest());
        database.assert_conserved();
    };
    Scene { first, beside, reader, last }
}

/// With tables that are not in memory: values die by compactions.
fn run(scene: Scene<Database>, mistake: Option<Mistake>) {
    scene.run(mistake.is_some(), move || Database::cold(mistake));
}

/// Reads everything in one version, at its beginning and later.
fn read(database: &Database) {
    let held = database.latest();
    database.assert_finds_all(&held);
    database.assert_finds_all(&database.latest());
    database.assert_finds_all(&held);
}

/// Three values: one is dead, another one about to die.
fn litter(database: &Database) {
    database.write(&[1, 2, 3]);
    database.write(&[1]);
    database.compact();
    database.write(&[2]);
}

/// A compaction finds that a value is dead which a GC copies; both are read.
const COLLECT: Scene<Database> = scene(litter, &[Database::compact, Database::collect], read);

#[test]
fn a_read_finds_all_across_a_gc_and_a_compaction() {
    run(COLLECT, None);
}

#[test]
#[should_panic(expected = "neither referred to nor dead")]
fn what_dies_during_a_gc_is_dead_in_its_output() {
    run(COLLECT, Some(Mistake::ForgetLiveness));
}

#[test]
#[should_panic(expected = "dies where it is not")]
fn liveness_is_translated_by_the_newest_map() {
    run(COLLECT, Some(Mistake::TranslateByAnOldMap));
}

#[test]
#[should_panic(expected = "is removed while somebody reads it")]
fn files_go_with_their_last_holder() {
    run(COLLECT, Some(Mistake::RemoveWhenRetired));
}

/// A flush finds that a value is dead which a GC copies; both are read.
const FOUND: Scene<Database> = scene(
    |database| {
        database.write(&[1, 2, 3]);
        database.write(&[1]);
        database.compact();
    },
    &[|database| database.write(&[2]), Database::collect],
    read,
);

#[test]
fn a_read_finds_all_across_a_gc_and_a_flush() {
    FOUND.run(false, || Database::new(None));
}

#[test]
#[should_panic(expected = "an obsolete reference's value lives")]
fn what_a_flush_finds_during_a_gc_is_dead_in_its_output() {
    FOUND.run(true, || Database::new(Some(Mistake::ForgetLiveness)));
}

/// A value that is read in an older version dies, and its segment is collected.
const NEWLY_OBSOLETE: Scene<Database> = scene(
    litter,
    &[|database| {
        database.write(&[3]);
        database.compact();
        database.collect();
    }],
    read,
);

#[test]
fn an_older_version_finds_what_has_died_since() {
    run(NEWLY_OBSOLETE, None);
}

#[test]
#[should_panic(expected = "is nowhere")]
fn records_and_the_map_are_of_one_version() {
    run(NEWLY_OBSOLETE, Some(Mistake::MapOfAnotherVersion));
}

/// What was collected is collected again, while a value of it dies.
const AGAIN: Scene<Database> = scene(
    |database| {
        litter(database);
        database.collect();
    },
    &[Database::compact, |database| {
        database.collect_all();
        database.collect_all();
    }],
    read,
);

#[test]
fn a_read_finds_all_across_gcs_of_gcs() {
    run(AGAIN, None);
}

#[test]
#[should_panic(expected = "dies where it is not")]
fn liveness_is_translated_past_two_gcs() {
    run(AGAIN, Some(Mistake::TranslateByAnOldMap));
}

/// All that a job copies dies meanwhile, and the files with it.
const LEASE: Scene<Database> = scene(
    |database| {
        database.write(&[1, 2]);
        database.write(&[1]);
        database.compact();
        database.write(&[2]);
    },
    &[Database::compact, Database::collect],
    |_| {},
);

#[test]
fn a_job_has_its_files_to_the_end() {
    run(LEASE, None);
}

#[test]
#[should_panic(expected = "is removed while a job reads it")]
fn a_job_holds_its_inputs() {
    run(LEASE, Some(Mistake::HoldNothing));
}

#[test]
#[should_panic(expected = "neither referred to nor dead")]
fn a_gc_is_not_committed_once_all_of_it_is_dead() {
    run(LEASE, Some(Mistake::ForgetLiveness));
}

/// Values are written and sealed while others are collected.
const WRITES: Scene<Database> = scene(litter, &[|database| database.write(&[3, 4]), Database::collect], read);

#[test]
fn what_is_sealed_during_a_gc_is_found() {
    run(WRITES, None);
}

#[test]
#[should_panic(expected = "is nowhere")]
fn a_gc_changes_the_newest_map() {
    run(WRITES, Some(Mistake::ChangeAnOldMap));
}

/// A copy is made of whatever is there at one moment.
const COPY: Scene<Database> = scene(litter, &[Database::compact, Database::collect], Database::assert_copies);

#[test]
fn a_copy_has_what_its_records_refer_to() {
    run(COPY, None);
}

#[test]
#[should_panic(expected = "is removed while it is copied")]
fn nothing_is_committed_while_files_are_copied() {
    run(COPY, Some(Mistake::CopyUnlocked));
}
