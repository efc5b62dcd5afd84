//! A server in this process whose objects are flushed all the time, into tables that are read late.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fastrand::Rng;
use firn::{Db, Settings};
use firn_server::{ServeSettings, Server};
use firn_storage::backend::Memory;

use super::Ends;
use super::clients::{CLIENTS, Histories, KINDS, Over, Round};
use super::slow::Slow;

pub(super) fn check_reads(operations: usize) {
    let seed = super::seed();
    eprintln!("seed {seed}");
    // Of a table that does not fit, what was read is kept by record: a flush makes it cold again.
    let settings = Settings { page_cache_bytes: 1, read_threads: CLIENTS, ..Settings::for_memory(64 << 20) };
    let storage = Arc::new(Slow::new(Memory::new()));
    let db = Arc::new(Db::builder("cold").settings(settings).storage(storage).open().expect("a database"));
    let settings = ServeSettings { port: 0, threads: 2, ..ServeSettings::default() };
    let server = Server::start(&db, settings).expect("a server");
    let round = Round::new(0, &server.address().to_string(), KINDS);
    let (mut histories, is_over) = (Histories::new(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let ends = (Over(&round), Ends(&is_over));
        scope.spawn(|| {
            while !is_over.load(Ordering::Acquire) {
                db.flush().expect("it is flushed");
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let (round, mut rng) = (&round, Rng::with_seed(seed ^ client as u64));
                scope.spawn(move || round.work(client, &mut rng, operations, |_, _| ()))
            })
            .collect();
        for client in clients {
            histories.absorb(client.join().expect("a client"));
        }
        drop(ends);
    });
    histories.absorb(round.read_all(|| ()));
    let judged = histories.judge(seed);
    let misses = db.stats().read_miss_count;
    server.stop().expect("it ends");
    eprintln!("{judged} operations, {misses} reads waited for files");
    assert_eq!(histories.unanswered(), 0, "seed {seed}: nobody killed it");
    assert!(misses as usize > judged / 8, "seed {seed}: {misses} cold reads in {judged} operations");
}
