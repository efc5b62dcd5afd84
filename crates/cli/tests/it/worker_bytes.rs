//! What a worker process makes is, byte for byte, what this process makes.

use std::sync::Arc;

use firn::jobs::socket::Socket;
use firn_storage::backend::{Local, LocalOptions};
use firn_storage::{Storage, ThreadSpawn};

use crate::same_bytes::{Compared, compare};
use crate::worker::Worker;

/// Random GCs of so many seeds.
fn make_the_same_bytes(seeds: u64) -> Compared {
    let first = std::env::var("FIRN_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    println!("FIRN_SEED={first}");
    let place = tempfile::tempdir().expect("a directory");
    let (dir, socket) = (place.path().join("db"), place.path().join("worker.socket"));
    let storage = Local::open(&dir, LocalOptions { create: true }).expect("a new directory");
    let storage: Arc<dyn Storage> = Arc::new(storage);
    let _worker = Worker::start(&socket);
    let executor = Socket::new(&socket, &dir, Arc::new(ThreadSpawn::new())).expect("a directory");
    let compared = compare(&storage, &executor, first..first + seeds);
    println!("{compared:?}");
    compared.assert_varied();
    compared
}

#[test]
fn a_worker_process_makes_the_same_bytes() {
    make_the_same_bytes(10);
}

#[test]
#[ignore = "more than a thousand GCs: the soak runs it"]
fn a_worker_process_makes_the_same_bytes_a_thousand_times() {
    let compared = make_the_same_bytes(300);
    assert!(compared.outputs >= 1000, "{compared:?}");
}
