//! One budget: what the buffer does not hold is the cache's, and what it needs the cache gives up
//! first.

use std::sync::atomic::{AtomicBool, Ordering};

use firn_engine::Engine;
use firn_tree::{Settings, Tree};

use crate::support::world::{World, get, put, seed, session, settle, tiny};

const RECORD_COUNT: u64 = 80_000;

/// 80 MB of records and a budget of 64 MiB, of which the buffer may take half.
fn small() -> Settings {
    Settings { page_cache_bytes: 1, ..tiny() }
}

fn key(number: u64) -> [u8; 8] {
    // Neighbours in time are none in the tables.
    (number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).to_be_bytes()
}

/// What is held beside the buffer: nearly all of it is the cache's.
fn cached(tree: &Tree) -> u64 {
    let stats = tree.stats();
    assert!(stats.memory_bytes <= stats.memory_bytes_max, "{} are held", stats.memory_bytes);
    stats.memory_bytes - stats.tree.as_ref().expect("a tree").buffer_bytes
}

#[test]
fn the_cache_has_what_the_buffer_leaves_and_gives_it_back() {
    let world = World::new(small());
    let tree = world.open().unwrap();
    let mut session = session(&tree);
    for number in 0..RECORD_COUNT {
        put(&mut session, &key(number), &[number as u8; 1000]);
        if number.is_multiple_of(64) {
            cached(&tree);
            tree.step().unwrap();
        }
    }
    tree.flush().unwrap();
    settle(&tree);
    let most = most_held(&tree);
    for round in 0..3 {
        // Two thirds of the records, again and again.
        for number in (0..RECORD_COUNT).filter(|number| number % 3 > 0) {
            assert_eq!(get(&mut session, &key(number)).map(|value| value[0]), Some(number as u8));
            if number.is_multiple_of(64) {
                cached(&tree);
            }
        }
        assert!(cached(&tree) > most / 4 * 3, "round {round}: {}", cached(&tree));
    }
    assert_all_but_the_reserve_is_held(&tree);
    // There are no background threads: the writes themselves make the cache give way.
    let before = cached(&tree);
    for number in 0..28_000 {
        put(&mut session, &key(number), &[1; 1000]);
        cached(&tree);
    }
    let after = cached(&tree);
    assert!(
        tree.stats().tree.expect("a tree").buffer_bytes > 28_000_000 && after + (16 << 20) < before,
        "{before}, now {after}"
    );
    tree.flush().unwrap();
    settle(&tree);
    for number in 0..RECORD_COUNT {
        get(&mut session, &key(number)).unwrap();
    }
    assert_all_but_the_reserve_is_held(&tree);
}

#[test]
fn the_reserve_is_restored_and_small_flushes_count_too() {
    let world = World::new(small());
    let tree = world.open().unwrap();
    let mut session = session(&tree);
    let mut write = |numbers: std::ops::Range<u64>| {
        for number in numbers {
            put(&mut session, &key(number), &[2; 1000]);
        }
    };
    write(0..RECORD_COUNT);
    tree.flush().unwrap();
    // Until nothing is kept for segments to come.
    tree.wait_idle().unwrap();
    let read_all = || {
        let mut session = crate::support::world::session(&tree);
        (0..2 * RECORD_COUNT).for_each(|number| drop(get(&mut session, &key(number % RECORD_COUNT))));
        assert_all_but_the_reserve_is_held(&tree);
    };
    read_all();
    let most = most_held(&tree);
    write(0..6_000);
    let held = tree.stats().memory_bytes;
    assert!(held > most, "{held}: a roll took of the reserve");
    tree.step().unwrap();
    let held = tree.stats().memory_bytes;
    assert!(held <= most, "{held}: nobody restored it");
    tree.flush().unwrap();
    settle(&tree);
    read_all();
}

/// All but two segments, and an eighth for what is not counted.
fn most_held(tree: &Tree) -> u64 {
    let budget = tree.stats().memory_bytes_max;
    budget - budget / 8 - 2 * small().engine.log_segment_bytes
}

/// After many reads and with nothing left to do, the reserve is free, and some chunks of the cache.
fn assert_all_but_the_reserve_is_held(tree: &Tree) {
    let stats = tree.stats();
    let most = most_held(tree);
    let held = stats.memory_bytes;
    assert!(held <= most && held > most - (3 << 20), "{held} of {most} are held");
}

#[test]
fn the_budget_holds_for_small_records_and_large_ones() {
    let mut random = fastrand::Rng::with_seed(seed(4));
    let world = World::new(small());
    let tree = world.open().unwrap();
    let mut session = session(&tree);
    for phase in 0..10 {
        let bytes = [0, 8, 100, 1000, 30_000, 1 << 20, 9 << 20][random.usize(0..7)];
        let count = ((24 << 20) / (bytes + 40)).clamp(4, 100_000) as u64;
        for number in 0..count {
            let number = number << 32 | random.u64(0..1 << 20);
            put(&mut session, &key(number), &vec![3; bytes]);
            get(&mut session, &key(random.u64(0..RECORD_COUNT)));
            if number.is_multiple_of(16) {
                let stats = tree.stats();
                let (held, most) = (stats.memory_bytes, stats.memory_bytes_max);
                assert!(held <= most, "phase {phase}, {bytes} B: {held}");
            }
            if random.u32(0..200) == 0 {
                tree.step().unwrap();
            }
        }
        settle(&tree);
    }
}

#[test]
fn the_budget_holds_while_threads_work() {
    let world = World::new(small());
    let tree = world.open_threads();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Its parts are read one after the other, so what moves between them may be counted
            // twice: one segment.
            let slack = small().engine.log_segment_bytes;
            while !done.load(Ordering::Relaxed) {
                let stats = tree.stats();
                assert!(stats.memory_bytes <= stats.memory_bytes_max + slack, "{} held", stats.memory_bytes);
                std::thread::yield_now();
            }
        });
        let writers: Vec<_> = (0..2)
            .map(|writer| {
                let tree = &tree;
                scope.spawn(move || {
                    let mut session = session(tree);
                    for number in 0..60_000 {
                        let number = number * 2 + writer;
                        // Now mostly writes, now mostly reads.
                        if number % 30_000 < 20_000 {
                            put(&mut session, &key(number), &[number as u8; 1000]);
                        }
                        if number % 30_000 > 10_000 {
                            get(&mut session, &key(number / 2));
                        }
                    }
                })
            })
            .collect();
        let ended: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        done.store(true, Ordering::Relaxed);
        ended.into_iter().for_each(|ended| ended.unwrap());
    });
    tree.flush().unwrap();
    let stats = tree.stats();
    assert!(stats.tree.as_ref().expect("a tree").buffer_bytes < 8 << 20, "{stats:?}");
}
