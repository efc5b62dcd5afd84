//! Ranges kept in a directory of this machine: right whatever happens, and fewer requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use firn_engine::Semantics;
use firn_jobs::{CompactSpec, Control, JobInput, run_compact};
use firn_s3_server::Faults;
use firn_storage::backend::conformance::check_objects;
use firn_storage::backend::{ASKED_MAX, Cached, Local, LocalOptions, Memory};
use firn_storage::file::cache::BlockCache;
use firn_storage::file::table::{ReaderOptions, TableReader};
use firn_storage::file::whole::read_whole;
use firn_storage::{ErrorKind, ReadFile, Storage};

use crate::content::table;
use crate::world::{PART_BYTES, World, clock};

const BLOCK: u64 = 256 << 10;

fn put(backend: &dyn Storage, name: &str, bytes: &[u8]) {
    let file = backend.create(name).unwrap();
    file.write_at(0, bytes).unwrap();
    file.sync().unwrap();
}

fn content(seed: u64, bytes: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..bytes).map(|_| random.u8(..)).collect()
}

fn read(file: &dyn ReadFile, offset: u64, bytes: usize) -> firn_storage::Result<Vec<u8>> {
    let mut out = vec![0; bytes];
    file.read_at(offset, &mut out).map(|()| out)
}

#[test]
fn a_backend_behind_a_cache_keeps_the_contract() {
    let world = World::new();
    for faults in
        [Faults::default(), Faults { refused_per_mille: 50, lost_per_mille: 50, ..Faults::default() }]
    {
        world.server.set_faults(faults);
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let make = || {
            let inner = world.backend(&format!("c/{}", NEXT.fetch_add(1, Ordering::Relaxed)));
            Arc::new(Cached::new(Arc::new(inner), Arc::new(Memory::new()), 8 * BLOCK)) as Arc<dyn Storage>
        };
        check_objects(&make, 2 * PART_BYTES + 1);
    }
}

#[test]
fn what_was_read_is_not_asked_for_again_and_readers_share_a_request() {
    let world = World::new();
    let directory = Memory::new();
    let cached = Cached::new(Arc::new(world.backend("a")), Arc::new(directory), 8 * BLOCK);
    let bytes = content(1, 3 * BLOCK as usize + 100);
    put(&cached, "a.table", &bytes);
    let file = cached.open_read_known("a.table", bytes.len() as u64).unwrap();
    world.server.set_faults(Faults { delay: Duration::from_millis(100), ..Faults::default() });
    let before = world.server.counts();
    let gets = || world.server.counts().reads - before.reads;
    std::thread::scope(|scope| {
        for reader in 0..8_usize {
            let (file, bytes) = (&file, &bytes);
            // All of two blocks, of which each reader wants others.
            scope.spawn(move || {
                let (offset, count) = (200_000 + 1000 * reader, 100_000);
                let found = read(&**file, offset as u64, count).unwrap();
                assert!(found == bytes[offset..offset + count], "reader {reader}");
            });
        }
    });
    assert_eq!(gets(), 1);
    for (offset, count) in
        [(0, 10), (BLOCK as usize - 5, 10), (2 * BLOCK as usize - 1, 1), (100_000, 200_000)]
    {
        assert!(read(&*file, offset as u64, count).unwrap() == bytes[offset..offset + count]);
    }
    assert_eq!(gets(), 1, "it is here");
    let again = cached.open_read_known("a.table", bytes.len() as u64).unwrap();
    assert!(read(&*again, 77, 1000).unwrap() == bytes[77..1077]);
    assert_eq!(gets(), 1, "whoever opens it again finds it");
    assert!(read(&*file, 3 * BLOCK, 100).unwrap() == bytes[3 * BLOCK as usize..]);
    assert_eq!(gets(), 2, "the end, shorter than others");
    let counters = cached.counters();
    assert_eq!((counters.misses, counters.held_bytes, counters.failures), (3, 3 * BLOCK, 0), "{counters:?}");
    // What is removed is gone, though it be here.
    cached.remove("a.table").unwrap();
    assert_eq!(cached.counters().held_bytes, 0);
    assert_eq!(read(&*file, 0, 10).unwrap_err().kind, ErrorKind::NotFound);
    let other = cached.open_read_known("a.table", bytes.len() as u64).unwrap();
    assert_eq!(read(&*other, 0, 10).unwrap_err().kind, ErrorKind::NotFound);
}

#[test]
fn large_reads_and_what_is_asked_for_ahead_go_past() {
    let world = World::new();
    let cached = Cached::new(Arc::new(world.backend("a")), Arc::new(Memory::new()), 64 * BLOCK);
    let inputs = (0..2).map(|run| {
        let table =
            table(&cached, &format!("in-{run}.table"), run + 1, (0..3000).filter(|n| n % 2 == run), 1000);
        JobInput { table, level: 0, run }
    });
    let spec =
        CompactSpec { inputs: inputs.collect(), output_stem: "out".to_owned(), ..CompactSpec::default() };
    let result = run_compact(&spec, &cached, &Semantics::new(), &Control::new()).unwrap();
    let cache = Arc::new(BlockCache::new(0));
    for table in &result.tables {
        TableReader::open(&cached, table, &cache, ReaderOptions::default()).unwrap();
    }
    let counters = cached.counters();
    assert_eq!((counters.held_bytes, counters.misses), (0, 0), "{counters:?}");
    let all: u64 = spec.inputs.iter().map(|input| input.table.bytes).sum();
    assert!((all..2 * all).contains(&counters.passed_bytes), "{all}: {counters:?}");
}

/// Single reads that are asked for together: the store answers all of them in the time of one, and
/// what came stays.
#[test]
fn what_is_looked_up_is_asked_for_together_and_kept() {
    let world = World::new();
    let cached = Cached::new(Arc::new(world.backend("a")), Arc::new(Memory::new()), 64 * BLOCK);
    let bytes = content(8, 20 * BLOCK as usize);
    put(&cached, "a.blobs", &bytes);
    let file = cached.open_read_known("a.blobs", bytes.len() as u64).unwrap();
    // Long: what the machine does beside that is little.
    let delay = Duration::from_secs(1);
    world.server.set_faults(Faults { delay, ..Faults::default() });
    let (clock, before) = (clock(), world.server.counts().reads);
    let gets = || world.server.counts().reads - before;
    // Two in each block, and one read that lies in two.
    let parts: Vec<usize> =
        (0..16).flat_map(|block| [1000, 90_000].map(|at| block * BLOCK as usize + at)).collect();
    let parts = || parts.iter().copied().chain([17 * BLOCK as usize - 500]);
    let begin = clock.now();
    parts().for_each(|at| file.will_look_up(at as u64, 1000));
    parts().for_each(|at| assert!(read(&*file, at as u64, 1000).unwrap() == bytes[at..at + 1000]));
    let took = clock.now() - begin;
    assert!(gets() == 18 && took < 9 * delay, "{} requests, {took:?}", gets());
    for round in 0..2 {
        parts().for_each(|at| file.will_look_up(at as u64, 1000));
        parts().for_each(|at| assert!(read(&*file, at as u64, 1000).unwrap() == bytes[at..at + 1000]));
        assert_eq!(gets(), 18, "round {round}: it is here");
    }
    let counters = cached.counters();
    assert_eq!((counters.held_bytes, counters.passed_bytes), (18 * BLOCK, 0), "{counters:?}");
    // A large one goes past, as a read does that was not looked up.
    file.will_look_up(18 * BLOCK, BLOCK + 1);
    let at = 18 * BLOCK as usize;
    assert!(read(&*file, at as u64, BLOCK as usize + 1).unwrap() == bytes[at..at + BLOCK as usize + 1]);
    let counters = cached.counters();
    assert_eq!(
        (gets(), counters.passed_bytes, counters.held_bytes),
        (19, BLOCK + 1, 18 * BLOCK),
        "{counters:?}"
    );
    file.will_look_up(bytes.len() as u64, 1000);
}

/// As many ranges of one file as may be asked for are on their way at once, and each is asked for
/// once.
#[test]
fn as_many_ranges_as_are_promised_come_together() {
    let world = World::new();
    let backend = world.backend("a");
    let bytes = content(9, 100 * ASKED_MAX);
    put(&backend, "a.blobs", &bytes);
    let file = backend.open_read_known("a.blobs", bytes.len() as u64).unwrap();
    let delay = Duration::from_millis(200);
    world.server.set_faults(Faults { delay, ..Faults::default() });
    let (clock, before) = (clock(), world.server.counts().reads);
    let begin = clock.now();
    (0..ASKED_MAX).for_each(|index| file.will_look_up(100 * index as u64, 100));
    for index in 0..ASKED_MAX {
        assert!(read(&*file, 100 * index as u64, 100).unwrap() == bytes[100 * index..][..100]);
    }
    let (took, gets) = (clock.now() - begin, world.server.counts().reads - before);
    assert!(gets == ASKED_MAX as u64 && took < delay * (ASKED_MAX as u32) / 2, "{gets} requests, {took:?}");
}

#[test]
#[ignore = "figures: `cargo test -p firn-objects --test it -- --ignored --nocapture cache`"]
fn figures_of_point_reads() {
    let (world, directory) = (World::new(), tempfile::tempdir().unwrap());
    let backend = Arc::new(world.backend("a"));
    let bytes = content(6, 16 << 20);
    put(&*backend, "a.table", &bytes);
    let local = Local::open(directory.path(), LocalOptions { create: true }).unwrap();
    let cached = Arc::new(Cached::new(Arc::clone(&backend) as _, Arc::new(local), 32 << 20));
    for delay in [0, 5, 20].map(Duration::from_millis) {
        world.server.set_faults(Faults { delay, ..Faults::default() });
        for (what, backend) in
            [("uncached", Arc::clone(&backend) as Arc<dyn Storage>), ("cached", Arc::clone(&cached) as _)]
        {
            let file = backend.open_read_known("a.table", bytes.len() as u64).unwrap();
            for round in ["first", "again"] {
                let mut random = fastrand::Rng::with_seed(7);
                let (clock, before) = (clock(), world.server.counts().reads);
                let begin = clock.now();
                for _ in 0..500 {
                    let offset = random.usize(..bytes.len() - 16_384);
                    assert!(read(&*file, offset as u64, 16_384).unwrap() == bytes[offset..offset + 16_384]);
                }
                let (each, requests) = ((clock.now() - begin) / 500, world.server.counts().reads - before);
                println!(
                    "reads of 16 KiB, answers after {delay:?}, {what}, {round}: {each:?} each, {requests} requests"
                );
            }
        }
    }
    println!("{:?}", cached.counters());
}

#[test]
fn whether_a_whole_file_is_there_the_store_says_and_not_what_was_kept() {
    let world = World::new();
    let (backend, other) = (world.backend("a"), world.backend("a"));
    let cached = Cached::new(Arc::new(backend), Arc::new(Memory::new()), 8 * BLOCK);
    let (name, bytes) = ("manifest-0000000000000007", content(1, 700));
    put(&cached, name, &bytes);
    // A read of a part has it kept.
    assert_eq!(read(&*cached.open_read_known(name, 700).unwrap(), 0, 100).unwrap(), bytes[..100]);
    let whole = || read_whole(&cached, [(name.to_owned(), 700)]).next().unwrap();
    assert_eq!(whole().unwrap(), bytes);
    other.remove(name).unwrap();
    assert_eq!(read(&*cached.open_read_known(name, 700).unwrap(), 0, 100).unwrap(), bytes[..100]);
    assert_eq!(whole().unwrap_err().kind, ErrorKind::NotFound);
}
