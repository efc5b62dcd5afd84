//! What workers make is, byte for byte, what this process makes: compactions and GCs,
//! handed out by a control plane.

use std::path::Path;
use std::sync::Arc;

use firn_format::manifest::TableMeta;
use firn_jobs::{Control, Executor, JobSpec, run, verify, verify_files};
use firn_storage::Storage;
use firn_storage::backend::{Local, LocalOptions};

use crate::same_bytes::{answer, compare};
use crate::scene::{Scene, any_port};
use crate::world::{Mix, World, semantics};

const MIX: Mix = Mix { operations: 200, merges: true, filter: true, older: true };

fn backend(path: &str) -> Arc<dyn Storage> {
    Arc::new(Local::open(Path::new(path), LocalOptions { create: true }).unwrap())
}

pub(crate) fn bytes(storage: &dyn Storage, name: &str) -> Vec<u8> {
    let file = storage.open_read(name).unwrap();
    let mut bytes = vec![0; file.len() as usize];
    file.read_at(0, &mut bytes).unwrap();
    bytes
}

fn carry(from: &dyn Storage, to: &dyn Storage) {
    for (name, _) in from.list().unwrap() {
        let file = to.create(&name).unwrap();
        file.write_at(0, &bytes(from, &name)).unwrap();
        file.sync().unwrap();
    }
}

/// Tables that were compared.
fn compactions(seeds: u64) -> usize {
    let mut scene = Scene::new();
    let plane = scene.plane(any_port());
    let at = [plane.address()];
    let _worker = scene.worker("one", &at, semantics());
    let (storage, remote) = (backend(&scene.shared_name()), scene.remote(&at));
    let mut count = 0;
    for seed in 0..seeds {
        let world = World::new(seed, MIX);
        carry(&world.storage, &*storage);
        let there = world.job("there");
        let theirs = answer(&remote.submit(there.clone()).unwrap()).unwrap();
        verify(&there, &theirs).unwrap();
        verify_files(&*storage, &there, &theirs).unwrap();
        let here: JobSpec = world.job("here");
        let mine = run(&here, &*storage, &semantics(), &Control::new()).unwrap();
        let (theirs, mine) = (theirs.into_compact().unwrap(), mine.into_compact().unwrap());
        assert_eq!(theirs.sums, mine.sums, "seed {seed}");
        assert_eq!(theirs.tables.len(), mine.tables.len(), "seed {seed}");
        for (theirs, mine) in theirs.tables.iter().zip(&mine.tables) {
            assert_eq!(TableMeta { file: mine.file.clone(), ..theirs.clone() }, *mine, "seed {seed}");
            assert!(bytes(&*storage, &theirs.file) == bytes(&*storage, &mine.file), "seed {seed}");
        }
        count += mine.tables.len();
        storage.list().unwrap().iter().for_each(|(name, _)| storage.remove(name).unwrap());
    }
    println!("{count} tables of {seeds} compactions");
    count
}

#[test]
fn a_worker_s_compactions_are_those_of_this_process() {
    assert!(compactions(30) > 30);
}

#[test]
#[ignore = "a thousand compactions: the soak runs it"]
fn a_thousand_compactions_of_a_worker_are_those_of_this_process() {
    assert!(compactions(1000) > 1000);
}

#[test]
fn a_worker_s_gcs_are_those_of_this_process() {
    let mut scene = Scene::new();
    let plane = scene.plane(any_port());
    let at = [plane.address()];
    let _worker = scene.worker("one", &at, firn_engine::Semantics::new());
    let (storage, remote) = (backend(&scene.shared_name()), scene.remote(&at));
    let compared = compare(&storage, &remote, 1..6);
    // Nothing is written over elsewhere.
    assert!(compared.outputs > 10 && compared.again > 0 && compared.over == 0, "{compared:?}");
    assert!(compared.stored.iter().all(|count| *count > 0), "{compared:?}");
}
