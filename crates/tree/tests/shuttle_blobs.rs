//! Drawn schedules of everything at once that touches separated values: reads, of an older
//! version too; writes, seals and flushes. Compactions that leave, bring and move values;
//! GCs, also of what GCs wrote, one by a worker whose answer may come too late. A
//! copy, orphan GC, and files that go with their last holder.
//!
//! The model is that of `loom_blobs.rs`, which tries every schedule of two or three of these. Here
//! schedules are drawn, at random and by PCT (few preemptions, each anywhere), by shuttle. Shuttle
//! knows one order of memory only: others are loom's.
//!
//! ```text
//! cargo test -p firn-tree --test shuttle_blobs                       # ten seconds or so
//! FIRN_SCHEDULES=1000000 FIRN_SEED=7 cargo test -p firn-tree --test shuttle_blobs all_of
//! FIRN_SCHEDULE=9104… cargo test -p firn-tree --test shuttle_blobs NAME_OF_THE_TEST
//! ```
//! A test that fails prints its schedule ("failing schedule"), which the last line plays again, and
//! nothing else. It fits as long as the model is not changed.
//!
//! Each function of the model names the one of production that it follows, and each [`Mistake`]
//! where production does it right. Both ways of drawing must find out each of these, else their
//! silence proves nothing. A worker on another machine is one more thread; its lease is over when
//! the database waits for it no longer.
#![cfg(not(loom))]
#![expect(dead_code, reason = "the model of versions uses all of the swap")]

mod model;

use std::thread;

use model::blobs::{Database, Mistake, Policy};
use model::scene::Scene;
use shuttle::scheduler::{PctScheduler, RandomScheduler, ReplayScheduler};

/// Schedules drawn each way, unless `FIRN_SCHEDULES` says how many.
const SCHEDULES: usize = 10_000;

/// Places at which PCT has another thread go first, and one.
const PCT_DEPTH: usize = 4;

#[derive(Clone, Copy, Debug)]
enum Draw {
    Random,
    Pct,
}

/// Everything at once.
const ALL: Scene<Database> = Scene {
    first: |database| {
        database.write(&[1, 2, 3]);
        database.write(&[1, 4, 5]);
        database.compact();
        database.collect();
        database.write(&[2, 6]);
        database.put(3);
    },
    beside: &[
        |database| {
            database.write(&[3, 5]);
            database.put(1);
            database.flush();
        },
        Database::seal_blobs,
        |database| {
            database.compact();
            database.compact_to(Policy::Inside);
            database.compact_to(Policy::Beside);
        },
        Database::collect,
        |database| {
            database.collect_all();
            database.collect_all();
        },
        Database::collect_elsewhere,
        Database::work,
        |database| {
            database.assert_copies();
            database.assert_copies();
        },
        |database| {
            database.remove_orphans();
            database.remove_orphans();
        },
        |database| {
            database.assert_finds_all(&database.latest());
            database.assert_finds_all(&database.latest());
        },
    ],
    reader: |database| {
        let held = database.latest();
        for _ in 0..4 {
            database.assert_finds_all(&held);
            database.assert_finds_all(&database.latest());
        }
        database.assert_finds_all(&held);
    },
    last: |database| {
        database.flush();
        database.seal_blobs();
        database.remove_orphans();
        database.assert_finds_all(&database.latest());
        database.assert_conserved();
    },
};

/// The same, and the keyspace is dropped.
const DROPPED: Scene<Database> = Scene {
    beside: &[
        |database| {
            database.write(&[3, 5]);
            database.put(1);
            database.flush();
        },
        Database::seal_blobs,
        Database::drop_keyspace,
        |database| {
            database.compact();
            database.compact_to(Policy::Inside);
            database.compact_to(Policy::Beside);
        },
        Database::collect_all,
        Database::collect_elsewhere,
        Database::work,
        Database::assert_copies,
        Database::remove_orphans,
    ],
    last: |database| {
        // What is left open is sealed for a copy.
        database.assert_copies();
        (ALL.last)(database);
        database.assert_has_nothing();
    },
    ..ALL
};

/// GCs of more and of fewer segments, alone.
const GCS: Scene<Database> = Scene {
    first: |database| {
        (ALL.first)(database);
        database.compact();
    },
    beside: &[Database::collect, Database::collect_all],
    ..ALL
};

/// A value that only the buffer refers to, in a segment that is sealed for a copy, is collected
/// while its keyspace is dropped.
const COLLECTED: Scene<Database> = Scene {
    first: |database| {
        (ALL.first)(database);
        database.assert_copies();
    },
    beside: &[Database::drop_keyspace, Database::collect_all],
    ..DROPPED
};

#[expect(clippy::disallowed_methods, reason = "how much is drawn, and from what, comes from a test's caller")]
fn from_env<T: std::str::FromStr>(name: &str) -> Option<T> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

fn run(scene: &'static Scene<Database>, draw: Draw, mistake: Option<Mistake>) {
    let Scene { first, beside, reader, last } = *scene;
    let scene = Scene { first, beside, reader, last };
    let make = move || Database::new(mistake);
    if let Some(schedule) = from_env::<String>("FIRN_SCHEDULE") {
        return scene.run(ReplayScheduler::new_from_encoded(&schedule), make);
    }
    let schedules = from_env("FIRN_SCHEDULES").unwrap_or(SCHEDULES);
    let seed = from_env("FIRN_SEED").unwrap_or(1);
    match draw {
        Draw::Random => scene.run(RandomScheduler::new_from_seed(seed, schedules), make),
        Draw::Pct => scene.run(PctScheduler::new_from_seed(seed, PCT_DEPTH, schedules), make),
    }
}

#[test]
fn all_of_it_is_right_in_random_schedules() {
    run(&ALL, Draw::Random, None);
}

#[test]
fn all_of_it_is_right_with_few_preemptions() {
    run(&ALL, Draw::Pct, None);
}

#[test]
fn a_keyspace_is_dropped_with_all_that_it_has() {
    run(&DROPPED, Draw::Random, None);
    run(&DROPPED, Draw::Pct, None);
    run(&COLLECTED, Draw::Random, None);
    run(&COLLECTED, Draw::Pct, None);
}

/// Both ways of drawing find `mistake` out, by a failure that says one of `symptoms`.
fn assert_found(mistake: Mistake, symptoms: &[&str]) {
    assert_found_in(&ALL, mistake, symptoms);
}

fn assert_found_in(scene: &'static Scene<Database>, mistake: Mistake, symptoms: &[&str]) {
    for draw in [Draw::Random, Draw::Pct] {
        // On a thread of its own: what a failed schedule leaves there makes others fail.
        let failure = thread::scope(|scope| scope.spawn(|| run(scene, draw, Some(mistake))).join());
        let failure = failure.expect_err("a mistake that no schedule finds out");
        let said = failure.downcast_ref::<String>().map(String::as_str);
        let said = said.or_else(|| failure.downcast_ref::<&str>().copied()).unwrap_or_default();
        assert!(symptoms.iter().any(|symptom| said.contains(symptom)), "{draw:?}: {said}");
    }
}

/// What a removed file is missed by.
const REMOVED: &[&str] = &["is removed while"];

/// What is seen of a map that leads elsewhere, or of a manifest that says something else.
const ASTRAY: &[&str] =
    &["is nowhere", "is not sealed", "is gone", "other files than segments", "is not copied"];

#[test]
fn what_dies_during_a_gc_is_dead_in_its_output() {
    assert_found(Mistake::ForgetLiveness, &["neither referred to nor dead"]);
}

#[test]
fn nothing_lives_of_a_segment_that_is_gone_when_its_gc_is_committed() {
    assert_found(Mistake::BelieveTheGone, &["neither referred to nor dead"]);
}

#[test]
fn liveness_is_translated_by_the_newest_map() {
    assert_found(Mistake::TranslateByAnOldMap, &["dies where it is not"]);
}

#[test]
fn what_is_obsolete_has_died_and_goes_without_dying_again() {
    assert_found(Mistake::DieTwice, &["dies twice", "dies where it is not"]);
}

#[test]
fn what_a_flush_found_is_obsolete_only_if_it_lives_when_that_is_committed() {
    assert_found(Mistake::BelieveTheFound, &["dies twice", "dies where it is not"]);
}

#[test]
fn no_compaction_looks_for_the_values_of_obsolete_references() {
    assert_found(Mistake::FollowTheObsolete, &["which is not sealed"]);
}

#[test]
fn a_gc_changes_the_newest_map() {
    assert_found(Mistake::ChangeAnOldMap, ASTRAY);
}

#[test]
fn records_and_the_map_are_of_one_version() {
    assert_found(Mistake::MapOfAnotherVersion, ASTRAY);
}

#[test]
fn a_version_knows_segments_that_were_begun_since() {
    assert_found(Mistake::ForgetBirths, ASTRAY);
}

#[test]
fn files_go_with_their_last_holder() {
    assert_found(Mistake::RemoveWhenRetired, REMOVED);
}

#[test]
fn a_job_holds_its_inputs() {
    assert_found(Mistake::HoldNothing, REMOVED);
}

#[test]
fn a_segment_is_collected_by_one_at_a_time() {
    assert_found_in(&GCS, Mistake::CollectTwice, ASTRAY);
}

#[test]
fn what_tables_refer_to_is_sealed() {
    assert_found(Mistake::FlushUnsealed, ASTRAY);
}

#[test]
fn a_segment_is_sealed_by_one_at_a_time() {
    assert_found(Mistake::SealUnlocked, &["is sealed twice"]);
}

#[test]
fn nothing_is_committed_while_files_are_linked() {
    assert_found(Mistake::CopyUnlocked, &["is removed while it is copied"]);
}

#[test]
fn a_copy_holds_what_cannot_be_linked() {
    assert_found(Mistake::CopyUnheld, &["is removed while it is copied"]);
}

#[test]
fn an_answer_that_comes_too_late_is_not_taken() {
    assert_found(Mistake::TakeLateAnswers, &["is removed while it is committed"]);
}

#[test]
fn no_two_attempts_write_under_one_name() {
    assert_found(Mistake::OneStem, &["is made twice"]);
}

#[test]
fn outputs_are_not_removed_before_they_can_be_committed() {
    assert_found(Mistake::RemoveInUse, REMOVED);
}

#[test]
fn files_are_not_removed_while_somebody_reads_them() {
    assert_found(Mistake::RemoveUnlisted, REMOVED);
}

#[test]
fn a_compaction_looks_for_its_keyspace_where_nobody_can_drop_it() {
    assert_found_in(&DROPPED, Mistake::CompactTheDropped, &["which is not sealed"]);
}

#[test]
fn a_keyspace_is_not_dropped_while_its_values_are_being_sealed() {
    assert_found_in(
        &DROPPED,
        Mistake::DropUnlocked,
        &["neither referred to nor dead", "dies twice", "dies where it is not"],
    );
}

#[test]
fn a_keyspace_finds_values_where_they_were_collected_meanwhile() {
    assert_found_in(&COLLECTED, Mistake::DropByAnOldMap, &["neither referred to nor dead"]);
}
