//! What a database reports of its jobs, beside what the control plane knows of them.

use std::collections::BTreeMap;
use std::time::Duration;

use firn::{Db, Settings};
use firn_engine::{JobStats, Semantics};
use firn_job_service::proto::{JobRow, job_row};

use crate::scene::{Scene, any_port, check, done_by, settings, write};

/// Jobs, and bytes of their inputs, done elsewhere and here.
fn counts(jobs: &JobStats) -> [(u64, u64); 2] {
    let sum = |figure: fn(&firn_engine::JobKindStats) -> u64| jobs.kinds.iter().map(figure).sum();
    [
        (sum(|kind| kind.elsewhere_count), sum(|kind| kind.elsewhere_bytes)),
        (sum(|kind| kind.here_count), sum(|kind| kind.here_bytes)),
    ]
}

fn grow(db: &Db, model: &mut Vec<Option<Vec<u8>>>, random: &mut fastrand::Rng) {
    write(db, model, random, 3000);
    db.wait_idle().unwrap();
    check(db, model);
}

#[test]
fn the_figures_of_jobs_are_those_of_the_jobs_that_ran() {
    let mut scene = Scene::new();
    let plane = scene.plane(any_port());
    let at = [plane.address()];
    let workers = ["one", "two"].map(|name| scene.worker(name, &at, Semantics::new()));
    // What it took back as its workers were slow would be told of neither here nor there.
    let db = scene.builder(&at).settings(Settings { idle_threads: 0, ..settings() }).open().unwrap();
    let (mut model, random) = (vec![None; 3000], &mut fastrand::Rng::with_seed(5));
    grow(&db, &mut model, random);
    let (list, stats) = (scene.look(at[0]), db.stats());
    let is_done = |row: &&JobRow| row.state() == job_row::State::Done;
    let done: Vec<&JobRow> = list.jobs.iter().filter(is_done).collect();
    let bytes: u64 = done.iter().map(|row| row.input_bytes).sum();
    let count = done.len() as u64;
    assert_eq!(counts(&stats.jobs), [(count, bytes), (0, 0)], "{:?}", stats.jobs);
    assert_eq!((stats.jobs.held_count, stats.jobs.is_executor_away), (0, false));
    assert!(count > 4 && stats.tree.as_ref().expect("a tree").blobs.gc_count > 0, "{count} jobs");
    let kinds: BTreeMap<&str, u64> =
        stats.jobs.kinds.iter().map(|kind| (kind.kind, kind.elsewhere_count)).collect();
    assert!(kinds["l0_compaction"] > 0 && kinds["blob_gc"] > 0, "{kinds:?}");
    let mut stages: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for stage in &stats.jobs.stages {
        let (count, us_total) = stages.entry(stage.stage).or_default();
        (*count, *us_total) = (*count + stage.count, *us_total + stage.us_total);
        if stage.stage == "merge" {
            assert_eq!(stage.count, kinds[stage.kind], "{stage:?}");
        }
    }
    for stage in ["queue", "open", "read", "merge", "write", "check"] {
        assert_eq!(stages[stage].0, count, "{stage}: {stages:?}");
    }
    for stage in ["read", "merge", "write", "check", "commit"] {
        assert!(stages[stage].1 > 0, "{stage}: {stages:?}");
    }
    assert!((1..=count).contains(&stages["commit"].0), "{stages:?}");
    // The list of the last jobs names the worker of each, and adds up to the stages where nothing
    // was left out.
    assert!(count <= 64, "{count} jobs do not fit into the list");
    let mut reported: BTreeMap<String, u32> = BTreeMap::new();
    stats.jobs.last.iter().for_each(|row| *reported.entry(row.place().to_owned()).or_default() += 1);
    assert_eq!(reported, done_by(&list));
    let sum = |figure: fn(&firn_engine::JobRow) -> u64| stats.jobs.last.iter().map(figure).sum::<u64>();
    assert_eq!(sum(|row| row.read_bytes), bytes);
    assert_eq!(sum(|row| row.queued_us), stages["queue"].1);
    assert_eq!(sum(|row| row.opened_us), stages["open"].1);
    assert_eq!((sum(|row| row.read_us), sum(|row| row.write_us)), (stages["read"].1, stages["write"].1));
    let [open, read, merge, write] = ["open", "read", "merge", "write"].map(|stage| stages[stage].1);
    assert!(sum(|row| row.ran_us).abs_diff(open + read + merge + write) <= 3 * count, "{stages:?}");
    // The control plane says the same.
    let sum = |figure: fn(&JobRow) -> u64| done.iter().map(|row| figure(row)).sum::<u64>();
    assert_eq!((sum(|row| row.read_us), sum(|row| row.write_us)), (read, write));
    // No worker is there any more.
    drop((workers, plane));
    grow(&db, &mut model, random);
    let after = db.stats().jobs;
    let [elsewhere, here] = counts(&after);
    assert!(elsewhere.0 >= count && here.0 > 0 && here.1 > 0, "{elsewhere:?}, {here:?}");
    assert!(after.is_executor_away && after.last.iter().any(|row| row.place() == "here"), "{after:?}");
    let first = &after.last[0];
    assert!(first.ended_unix_ms.abs_diff(scene.clock.unix_ms()) < 600_000, "{first:?}");
    assert_eq!(Duration::from_micros(first.opened_us), Duration::ZERO, "nobody looked: {first:?}");
}
