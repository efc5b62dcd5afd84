//! What workers make of a database is what a database makes of itself: the same entries, by the
//! hashes of its tables.
//!
//! Values lie in the tree: what refers to one beside it has the number of a segment, which is as
//! chance has it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use firn::{Db, Settings};
use firn_engine::Semantics;
use firn_format::manifest::{Change, ManifestEdit, TableMeta};
use firn_job_service::proto;
use firn_storage::backend::{Local, LocalOptions, Operation};

use crate::hanging::{OFTEN, worker_at};
use crate::scene::{Scene, any_port, check, done_by, settings, write};

/// The tables of the database in `directory`, which no process has open.
fn tables(directory: &Path) -> Vec<TableMeta> {
    let mut edits = BTreeMap::new();
    for entry in std::fs::read_dir(directory).unwrap().flatten() {
        if entry.file_name().to_str().is_some_and(|name| name.starts_with("manifest-")) {
            let edit = ManifestEdit::decode(&std::fs::read(entry.path()).unwrap()).unwrap();
            edits.insert(edit.number, edit);
        }
    }
    let mut tables = BTreeMap::new();
    for edit in edits.into_values() {
        if edit.base {
            tables.clear();
        }
        for change in edit.changes {
            match change {
                Change::AddTable { table, .. } => drop(tables.insert(table.file.clone(), table)),
                Change::RemoveTable { file } => drop(tables.remove(&file)),
                _ => {}
            }
        }
    }
    tables.into_values().collect()
}

/// Writes to `db` what every other database here gets, with `trouble` while its jobs are under way.
/// Has it compacted as a whole, and closes it.
fn fill(db: &Db, seed: u64, mut trouble: impl FnMut(usize)) {
    let (mut model, random) = (vec![None; 2000], &mut fastrand::Rng::with_seed(seed));
    for round in 0..ROUNDS {
        write(db, &mut model, random, 2000);
        trouble(round);
        db.wait_idle().unwrap();
    }
    db.flush().unwrap();
    db.in_default().compact_range("", None).unwrap();
    db.wait_idle().unwrap();
    check(db, &model);
    db.close().unwrap();
}

/// How often is written.
const ROUNDS: usize = 3;

fn in_tree() -> Settings {
    settings().with_engine(|tree| tree.separate_bytes = 0)
}

/// Entries of the database in `directory`, and the sum of their hashes.
fn content(directory: &Path) -> (u64, u128) {
    tables(directory).iter().fold((0, 0), |(entries, hash), table| {
        (entries + table.entry_count, hash.wrapping_add(table.content_hash))
    })
}

/// What a database that does everything itself makes of what `seed` writes.
fn own_content(scene: &Scene, name: &str, seed: u64) -> (u64, u128) {
    let place = scene.place.path().join(name);
    let own = Db::builder(&place).settings(in_tree()).open().unwrap();
    fill(&own, seed, |_| {});
    content(&place)
}

#[test]
fn a_database_whose_jobs_workers_do_has_the_content_of_one_that_does_its_own() {
    let mut scene = Scene::new();
    let plane = scene.plane(any_port());
    let at = [plane.address()];
    let _workers = ["one", "two"].map(|name| scene.worker(name, &at, Semantics::new()));
    let served = scene.builder(&at).settings(in_tree()).open().unwrap();
    fill(&served, 5, |_| {});
    let done: u32 = done_by(&scene.look(at[0])).values().sum();
    assert!(done > 10, "{done} jobs by workers, {:?}", served.stats());
    let theirs = content(Path::new(&scene.shared_name()));
    assert!(theirs.0 > 1000, "{theirs:?}");
    assert_eq!(theirs, own_content(&scene, "own", 5));
    assert_ne!(theirs.1, own_content(&scene, "other", 6).1, "others have another");
}

#[test]
fn it_has_that_too_when_workers_and_control_planes_end_amid_their_jobs() {
    let mut scene = Scene::new();
    let first_plane = scene.plane(any_port());
    let at = [first_plane.address()];
    // It does a job up to its first sync. That it is gone is noticed soon by the control plane,
    // which has a short lease.
    let shared = Local::open(Path::new(&scene.shared_name()), LocalOptions { create: true }).unwrap();
    let (hangs, gate) = worker_at(&mut scene, &at, OFTEN, Arc::new(shared), (Operation::Sync, "*"));
    scene.wait_until(|| scene.look(at[0]).workers.len() == 1);
    let (mut plane, mut workers) = (Some(first_plane), vec![hangs]);
    let served = scene.builder(&at).settings(in_tree()).open().unwrap();
    let mut done = 0;
    fill(&served, 5, |round| {
        match round {
            0 => {
                scene.wait_until(|| gate.sleepers() == 1);
                let is_running = |row: &proto::JobRow| row.state() == proto::job_row::State::Running;
                assert!(scene.look(at[0]).jobs.iter().any(is_running));
            }
            // Some of what was just written is compacted by now, some is about to be; all of it
            // here, where workers came too late.
            _ => {
                let by_workers = || done_by(&scene.look(at[0])).values().sum::<u32>();
                scene.wait_at_most(Duration::from_secs(5), || by_workers() > 0);
                done += by_workers();
            }
        }
        workers.remove(0);
        plane = None;
        plane = Some(scene.plane(at[0]));
        workers.extend(
            ["one", "other"].map(|name| scene.worker(&format!("{round} {name}"), &at, Semantics::new())),
        );
    });
    done += done_by(&scene.look(at[0])).values().sum::<u32>();
    assert!(done > 0, "no job by workers, {:?}", served.stats());
    gate.open();
    assert_eq!(content(Path::new(&scene.shared_name())), own_content(&scene, "own", 5));
}
