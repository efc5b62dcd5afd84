//! Writers faster than the backend: memory stays within its bound, writes wait and do not fail, and
//! the wait is counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use firn_engine::{
    Completion, Engine, ErrorKind, KEYSPACE_DEFAULT, Ordered, OrderedSession, Outcome, Stats, WriteOptions,
};
use firn_storage::Storage;
use firn_storage::backend::{Effect, Fault, Faulty, Operation, When};
use firn_tree::{Background, Settings, Tree};

use crate::support::in_time::{in_time, now};
use crate::support::world::{World, describe, get, put, session, settle, slow, tiny};

const MIB: u64 = 1 << 20;

fn bounded(buffer_bytes: u64, buffer_bytes_max: u64) -> Settings {
    tiny().with_engine(|tree| {
        tree.buffer_bytes = buffer_bytes;
        tree.buffer_bytes_max = buffer_bytes_max;
    })
}

/// A backend that takes `delay` longer for each write to a table.
fn slow_tables(world: &World, delay: Duration) -> Faulty {
    slow(world, "*.table", Operation::Write, delay)
}

fn write_inline(tree: &Tree, thread: u8, count: u32, value: &[u8]) {
    let mut session = session(tree);
    for number in 0..count {
        let key = [&[thread][..], &number.to_be_bytes()].concat();
        session.put(KEYSPACE_DEFAULT, &key, value, WriteOptions::default()).expect("delayed, not failed");
    }
}

/// As [`write_inline`], with up to eight writes under way.
fn write_ahead(session: &mut dyn OrderedSession, thread: u8, count: u32, value: &[u8]) {
    let mut under_way = 0;
    for number in 0..count {
        let key = [&[thread][..], &number.to_be_bytes()].concat();
        if let Outcome::Pending(_) =
            session.put(KEYSPACE_DEFAULT, &key, value, WriteOptions::default()).expect("delayed, not failed")
        {
            under_way += 1;
        }
        while under_way > if number + 1 == count { 0 } else { 8 } {
            session.wait(None);
            let mut answers = |_, completion| {
                assert!(matches!(completion, Completion::Written(_)), "{completion:?}");
                under_way -= 1;
            };
            session.poll(&mut answers);
        }
    }
}

/// The largest buffer seen until `done`.
fn largest_buffer(tree: &Tree, done: &AtomicBool) -> u64 {
    let mut largest = 0;
    while !done.load(Ordering::Acquire) {
        largest = largest.max(tree.stats().tree.expect("a tree").buffer_bytes);
        std::thread::yield_now();
    }
    largest
}

/// Writes on three threads to a slow backend; the largest buffer on the way, the time, and the
/// counters at the end.
fn overwhelm(settings: Settings, delay: Duration, count: u32, value: &[u8]) -> (u64, Duration, Stats) {
    let world = World::new(settings);
    let tree = world.open_timed(Arc::new(slow_tables(&world, delay)));
    let done = AtomicBool::new(false);
    let begun = now();
    let largest = std::thread::scope(|scope| {
        let watcher = scope.spawn(|| largest_buffer(&tree, &done));
        std::thread::scope(|scope| {
            let tree = &tree;
            scope.spawn(move || write_inline(tree, 0, count, value));
            scope.spawn(move || write_inline(tree, 1, count, value));
            scope.spawn(move || write_ahead(&mut *tree.ordered_session(), 2, count, value));
        });
        done.store(true, Ordering::Release);
        watcher.join().unwrap()
    });
    let (took, stats) = (begun.elapsed(), tree.stats());
    let mut session = session(&tree);
    for (thread, number) in
        (0..3_u8).flat_map(|thread| [(thread, 0), (thread, count / 2), (thread, count - 1)])
    {
        let key = [&[thread][..], &number.to_be_bytes()].concat();
        assert_eq!(get(&mut session, &key).as_deref(), Some(value), "thread {thread} number {number}");
    }
    (largest, took, stats)
}

#[test]
fn the_buffer_stays_within_its_bound_and_stalls_are_counted() {
    // Between limits that are a segment apart no writer is paced: there the bound alone stops
    // writers. One writer's part of what is written, by the size of its values: small ones make
    // large indexes.
    let cases =
        [(8, 20, 4000, 4000, 4), (8, 20, 16, 120_000, 60), (9, 13, 4000, 4000, 4), (9, 13, 16, 120_000, 60)];
    for (soft_mib, max_mib, value_bytes, count, delay_ms) in cases {
        let settings = bounded(soft_mib * MIB, max_mib * MIB);
        let bound = settings.engine.buffer_bytes_max + settings.engine.log_segment_bytes;
        let stalls = |slower: u64| {
            let delay = Duration::from_millis(delay_ms * slower);
            let (largest, took, stats) = overwhelm(settings.clone(), delay, count, &vec![9; value_bytes]);
            println!("{max_mib} MiB, values of {value_bytes}: {largest} bytes held");
            assert!(largest <= bound, "values of {value_bytes}: {largest} bytes held, bound {bound}");
            assert!(largest > 8 * MIB, "the backend was never slow: {largest}");
            let stalled = Duration::from_micros(stats.slowdown_us_total + stats.stop_us_total);
            println!("{stalled:?} counted of {took:?}");
            // Of three writers that wait at once the clock's time counts once.
            for us in [stats.slowdown_wall_us_total, stats.stop_wall_us_total] {
                assert!(Duration::from_micros(us) <= took, "{us} us of {took:?}");
            }
            let wall = Duration::from_micros(stats.slowdown_wall_us_total + stats.stop_wall_us_total);
            // Ten writes at most wait at once. What is less than a microsecond is none in the sum.
            let is_share = wall <= stalled + Duration::from_secs(1) && wall * 16 >= stalled;
            assert!(is_share, "{wall:?} of the clock, {stalled:?} of all");
            stalled > took / 10
        };
        // Writers that get little of a processor wait for that more than for the backend, unless it
        // is slower still.
        assert!([1, 4, 16].into_iter().any(stalls), "values of {value_bytes}: too few stalls are counted");
    }
}

#[test]
fn a_stopped_session_that_does_not_block_is_counted_too() {
    let world = World::new(bounded(8 * MIB, 8 * MIB));
    let tree = world.open_timed(Arc::new(slow_tables(&world, Duration::from_millis(10))));
    let (begun, writing) = (now(), Arc::clone(&tree));
    in_time("40 MB", move || write_ahead(&mut *writing.ordered_session(), 0, 100, &vec![9; 400_000]));
    let (took, stats) = (begun.elapsed(), tree.stats());
    let stopped = Duration::from_micros(stats.stop_us_total);
    assert!(stopped > took / 4, "{stopped:?} counted of {took:?}");
    let wall = Duration::from_micros(stats.stop_wall_us_total);
    assert!((stopped * 9 / 10..=took).contains(&wall), "{wall:?} of {stopped:?}");
}

#[test]
fn a_batch_that_finds_no_room_in_a_quiet_buffer_makes_it() {
    let world = World::new(bounded(12 * MIB, 32 * MIB));
    let tree = world.open_threads();
    let mut small = session(&tree);
    for number in 0..60_u32 {
        put(&mut small, &number.to_be_bytes(), &vec![1; 100_000]);
    }
    tree.freeze().unwrap();
    tree.wait_idle().unwrap();
    let stats = tree.stats();
    assert!(
        stats.tree.as_ref().expect("a tree").buffer_bytes < 12 * MIB
            && stats.tree.as_ref().expect("a tree").flush_count == 0,
        "no pressure yet: {stats:?}"
    );
    let writer = Arc::clone(&tree);
    in_time("a batch of 26 MiB", move || {
        put(&mut session(&writer), b"large", &vec![2; 26 << 20]);
    });
    assert_eq!(get(&mut session(&tree), b"large").map(|value| value.len()), Some(26 << 20));
    assert!(tree.stats().tree.expect("a tree").flush_count > 0);
}

#[test]
fn a_buffer_that_may_be_full_before_it_flushes_keeps_taking_writes() {
    let world = World::new(bounded(24 * MIB, 24 * MIB));
    let tree = world.open_threads();
    let writer = Arc::clone(&tree);
    in_time("64 MiB", move || write_inline(&writer, 0, 1300, &vec![3; 50_000]));
    assert!(tree.stats().tree.expect("a tree").buffer_bytes <= 28 * MIB, "{:?}", tree.stats());
}

#[test]
fn stopped_writers_are_refused_where_a_full_disk_keeps_flushes_from_making_room() {
    let world = World::new(bounded(8 * MIB, 12 * MIB));
    let faulty = Faulty::new(Arc::new(world.storage.clone()));
    faulty.inject(Fault {
        on: Operation::Create,
        file: "*.table".to_owned(),
        when: When::Always { after: 0 },
        effect: Effect::Fail(firn_storage::ErrorKind::Full),
    });
    let tree = world.open_timed(Arc::new(faulty.clone()));
    let refuse = |inline: bool| {
        let tree = Arc::clone(&tree);
        in_time("a refusal", move || {
            let mut session = tree.ordered_session();
            session.set_inline(inline);
            for number in 0..1000_u32 {
                let value = vec![4; 100_000];
                match session.put(KEYSPACE_DEFAULT, &number.to_be_bytes(), &value, WriteOptions::default()) {
                    Ok(Outcome::Done(_)) => continue,
                    Ok(Outcome::Pending(_)) => {}
                    Err(error) => return error,
                }
                let mut failed = None;
                while failed.is_none() && session.wait(None) {
                    session.poll(&mut |_, completion| match completion {
                        Completion::Failed(error) => failed = Some(error),
                        other => assert!(matches!(other, Completion::Written(_)), "{other:?}"),
                    });
                }
                if let Some(error) = failed {
                    return error;
                }
            }
            panic!("100 MB found room in 12 MiB");
        })
    };
    for inline in [true, false, true] {
        let error = refuse(inline);
        assert_eq!(error.kind(), ErrorKind::Retry, "{}", describe(&error));
        assert!(describe(&error).contains("free some space"), "{}", describe(&error));
    }
    faulty.clear_faults();
    let writer = Arc::clone(&tree);
    in_time("64 MB", move || write_inline(&writer, 9, 640, &vec![3; 100_000]));
    assert!(tree.stats().tree.expect("a tree").flush_count > 0);
}

/// Lets the second part of each flush find the disk full.
fn refuse_second_parts(world: &World) -> Faulty {
    let faulty = Faulty::new(Arc::new(world.storage.clone()));
    faulty.inject(Fault {
        on: Operation::Write,
        file: "*-1-*.table".to_owned(),
        when: When::Always { after: 0 },
        effect: Effect::Fail(firn_storage::ErrorKind::Full),
    });
    faulty
}

#[test]
fn a_flush_is_refused_once_where_one_part_finds_the_disk_full() {
    let settings = bounded(64 * MIB, 96 * MIB).with_engine(|tree| tree.table_bytes = MIB);
    let world = World::new(settings);
    let faulty = refuse_second_parts(&world);
    let tree = world.open_timed(Arc::new(faulty.clone()));
    write_inline(&tree, 0, 200, &vec![3; 50_000]);
    let flushing = Arc::clone(&tree);
    in_time("a refused flush", move || {
        for _ in 0..8 {
            let error = flushing.flush().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Retry, "{error}");
        }
    });
    // What the first part wrote is removed, and that is no space freed for another try.
    assert_eq!(faulty.struck_count(), 8, "a flush for each flush, each with a second part");
    faulty.clear_faults();
    tree.flush().unwrap();
}

#[test]
fn a_refused_flush_leaves_no_table_and_is_not_tried_again_by_itself() {
    let world = World::new(bounded(64 * MIB, 96 * MIB).with_engine(|tree| tree.table_bytes = MIB));
    let faulty = refuse_second_parts(&world);
    let tree = world.open_on(Arc::new(faulty.clone()), Background::Manual);
    write_inline(&tree, 0, 200, &vec![3; 50_000]);
    assert_eq!(tree.flush().unwrap_err().kind(), ErrorKind::Retry);
    let begun = faulty.counters().of_extension(Operation::Create, "table").operations;
    assert!(begun > 2, "the first part wrote several: {begun}");
    let left = world.storage.list().unwrap();
    assert!(!left.iter().any(|(name, _)| name.ends_with(".table")), "{left:?}");
    settle(&tree);
    assert_eq!(faulty.struck_count(), 1);
}

#[test]
fn a_thread_that_is_alone_compacts_although_writers_never_rest() {
    let settings = Settings { background_threads: 1, ..tiny() }.with_engine(|tree| tree.level0_runs_max = 4);
    let full = settings.engine.buffer_bytes;
    let world = World::new(settings);
    let tree = world.open().unwrap();
    let mut session = session(&tree);
    let mut random = fastrand::Rng::with_seed(1);
    let mut deepest = 0;
    while tree.stats().tree.expect("a tree").flush_count < 25 {
        // Always a flush's worth: a single thread would find one to do each time.
        while tree.stats().tree.expect("a tree").buffer_bytes <= full {
            put(&mut session, &random.u64(..5000).to_be_bytes(), &[1; 4000]);
        }
        tree.step().unwrap();
        deepest = deepest.max(tree.stats().keyspaces[0].tree.as_ref().expect("a tree").levels[0].1);
    }
    // A flush writes some 8 MB; twice the sorted runs that level 0 may have are far too many.
    assert!(deepest < 9 * 9_000_000, "level 0 grew to {deepest} bytes");
}
