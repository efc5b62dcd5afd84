//! One large compaction, divided among several workers of which one is lost amid its part.

use std::path::Path;
use std::sync::{Arc, Mutex};

use firn::{Db, Settings};
use firn_job_service::Remote;
use firn_job_service::control::pool::{JobRow, JobState};
use firn_jobs::{CompactSpec, Executor, JobHandle, JobSpec};
use firn_storage::backend::{Local, LocalOptions, Operation, When};

use crate::hanging::{OFTEN, named_worker_at};
use crate::scene::{Model, Scene, any_port, check, settings, write};

const SEED: u64 = 9;
const NAMES: [&str; 3] = ["one", "two", "three"];
const LOST: &str = "two";

/// Passes jobs on, and notes which compactions they are.
#[derive(Debug)]
struct Noting {
    remote: Remote,
    compactions: Mutex<Vec<CompactSpec>>,
}

impl Executor for Noting {
    fn submit(&self, spec: JobSpec) -> firn_jobs::Result<JobHandle> {
        if let JobSpec::Compact(spec) = &spec {
            self.compactions.lock().unwrap().push(spec.clone());
        }
        self.remote.submit(spec)
    }

    fn width(&self) -> Option<usize> {
        self.remote.width()
    }
}

/// Nothing is compacted unasked, and what waits is left to workers.
fn quiet() -> Settings {
    Settings { space_amplification_max: 3.0, idle_threads: 0, reexecuted_share: 0.0, ..settings() }
        .with_engine(|tree| {
            tree.separate_bytes = 0;
            tree.level0_runs_max = 256;
        })
}

/// A closed database with many tables in its last level, and some in level 0 that lie over all of
/// them.
fn filled(place: &Path) -> Model {
    let (mut model, random) = (vec![None; 2000], &mut fastrand::Rng::with_seed(SEED));
    let db = Db::builder(place).settings(quiet()).open().unwrap();
    write(&db, &mut model, random, 4000);
    db.in_default().compact_range("", None).unwrap();
    write(&db, &mut model, random, 1000);
    db.wait_idle().unwrap();
    db.close().unwrap();
    model
}

/// Reads all of `db`, which has what `model` says and nothing else.
fn holds(db: &Db, model: &Model) {
    let held: Vec<(Vec<u8>, Vec<u8>)> = db.range(..).unwrap().collect::<firn::Result<_>>().unwrap();
    let keys = model.iter().enumerate();
    let wanted = keys.filter_map(|(key, value)| Some((key.to_be_bytes().to_vec(), value.clone()?)));
    assert!(wanted.eq(held), "a scan finds something else");
    check(db, model);
}

/// Each of `parts` is of a range of its own, and together they leave no key out.
fn are_one(parts: &[CompactSpec]) {
    assert_eq!(parts.len(), NAMES.len());
    let ranges: Vec<_> = parts.iter().map(|part| &part.range).collect();
    assert!(ranges.windows(2).all(|two| two[0].end.as_ref() == Some(&two[1].start)), "{ranges:?}");
    let ends = (ranges.first().unwrap().start.as_slice(), &ranges.last().unwrap().end);
    assert_eq!(ends, (b"".as_slice(), &None));
}

fn tables(place: &Path) -> usize {
    let names = std::fs::read_dir(place).unwrap().map(|entry| entry.unwrap().file_name());
    names.filter(|name| name.to_str().unwrap().ends_with(".table")).count()
}

#[test]
fn a_compaction_that_workers_share_loses_nothing_with_one_of_them() {
    println!("seed {SEED}");
    let mut scene = Scene::new();
    let place = scene.place.path().join("db");
    let model = filled(&place);
    let plane = scene.plane(any_port());
    let at = [plane.address()];
    // A worker that writes a table hangs, however often it begins. A lost worker is missed after a
    // lease, which is short.
    let mut workers: Vec<_> = Vec::new();
    for name in NAMES {
        let here = Arc::new(Local::open(&place, LocalOptions { create: false }).unwrap());
        let writes = (Operation::Write, "*.table", When::Always { after: 0 });
        workers.push((name, named_worker_at(&mut scene, &at, (name, OFTEN), here, writes)));
    }
    scene.wait_until(|| scene.look(at[0]).workers.len() == NAMES.len());
    let (remote, compactions) = (scene.remote(&at), Mutex::default());
    let noting = Arc::new(Noting { remote, compactions });
    // With the end of a first job comes how many workers there are.
    let first = CompactSpec { output_stem: "first".to_owned(), ..CompactSpec::default() };
    let _ended = noting.remote.submit(first.into()).unwrap().wait();
    assert_eq!(noting.width(), Some(NAMES.len()));
    let builder = Db::builder(&place).settings(quiet()).executor(Arc::clone(&noting) as _);
    let db = Arc::new(builder.open().unwrap());
    let compacted = Arc::clone(&db);
    let compaction = std::thread::spawn(move || compacted.in_default().compact_range("", None));

    // All are at a part of it, and amid that, at one moment.
    let rows = || plane.watch().rows(100).jobs;
    let is_at_work = |row: &JobRow, name: &str| row.state == JobState::Running && row.worker == name;
    scene.wait_until(|| {
        let rows = rows();
        let works = |name| rows.iter().filter(|row| is_at_work(row, name)).count() == 1;
        NAMES.into_iter().all(works) && workers.iter().all(|(_, (_, gate))| gate.sleepers() > 0)
    });
    are_one(&noting.compactions.lock().unwrap());
    assert_eq!(db.stats().tree.expect("a tree").compaction_count, 0);
    let lost = rows().into_iter().find(|row| is_at_work(row, LOST)).unwrap().key;

    // One of them is no more. What it was at waits, until others have room for it.
    let of_lost = || rows().into_iter().find(|row| row.key == lost).unwrap();
    let index = workers.iter().position(|(name, _)| *name == LOST).unwrap();
    let (_, (worker, gate)) = workers.remove(index);
    drop(worker);
    scene.wait_until(|| !is_at_work(&of_lost(), LOST));
    assert_eq!(
        db.stats().tree.expect("a tree").compaction_count,
        0,
        "nothing of it is there before all of it is"
    );
    // What it hung in goes on, and counts no more.
    gate.open();
    workers.iter().for_each(|(_, (_, gate))| gate.open());
    compaction.join().unwrap().unwrap();
    scene.wait_until(|| of_lost().state == JobState::Done);
    let row = of_lost();
    assert!(row.worker != LOST && row.attempts > 1, "{row:?}");
    let stats = db.stats();
    assert_eq!(
        (stats.keyspaces[0].tree.as_ref().expect("a tree").levels[0].0, stats.jobs_passed_on_count),
        (0, 0)
    );

    holds(&db, &model);
    db.close().unwrap();
    drop(db);
    // Nothing is left of the part that was lost, once the next opening has looked.
    let db = Db::builder(&place).settings(quiet()).open().unwrap();
    holds(&db, &model);
    scene.wait_until(|| tables(&place) as u64 == db.stats().tree.expect("a tree").table_count);
    db.close().unwrap();
    drop(db);
    let report = firn::verify(&place, |_| ()).unwrap();
    assert!(report.is_sound() && report.totals.tables > 0, "{report:?}");
}
