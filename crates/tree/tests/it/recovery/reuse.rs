//! Log segments and tables in files that others had before: what is found after crashes is never
//! theirs.

use std::sync::Arc;
use std::time::Duration;

use firn_engine::{Engine, ErrorKind, KEYSPACE_DEFAULT, Ordered, ReadAt, ScanRange, WriteOptions};
use firn_storage::Storage;
use firn_storage::backend::{Crash, Effect, Fault, Faulty, Memory, Operation, When};
use firn_tree::{Background, Tree, VerifyOptions, VerifyReport};

use crate::support::unmapped::Unmapped;
use crate::support::world::{World, get, prefixed, put, put_disk, seed, session, settle, tiny};

const VALUE_BYTES: usize = 60_000;

/// Rewrites `count` keys, so that segments die and their files are given on; values name their
/// round.
fn churn(tree: &Tree, rounds: std::ops::Range<u32>, count: u32) {
    let mut session = session(tree);
    for round in rounds {
        for number in 0..count {
            put(&mut session, &number.to_be_bytes(), &value(round, number));
            if number % 50 == 0 {
                settle(tree);
            }
        }
    }
}

fn value(round: u32, number: u32) -> Vec<u8> {
    (round * 1000 + number).to_be_bytes().repeat(VALUE_BYTES / 4)
}

fn verify(storage: &Memory) -> VerifyReport {
    let storage = Arc::new(storage.clone());
    firn_tree::verify(VerifyOptions { storage, semantics: Default::default() }, &mut |_| {}).unwrap()
}

fn log_files(storage: &dyn Storage) -> Vec<(String, u64)> {
    storage.list().unwrap().into_iter().filter(|(name, _)| name.ends_with(".log")).collect()
}

#[test]
fn files_of_dead_segments_become_new_ones() {
    let world = World::new(tiny());
    let faulty = Faulty::new(Arc::new(world.storage.clone()));
    let tree = world.open_on(Arc::new(faulty.clone()), Background::Manual);
    churn(&tree, 0..4, 400);
    let counters = faulty.counters();
    let made = counters.of_extension(Operation::Create, "log").operations;
    let reused = counters.of_extension(Operation::Rename, "log").operations;
    assert!(reused > 5 && made > 0, "{reused} reused, {made} made");
    tree.flush().unwrap();
    settle(&tree);
    assert!(tree.stats().recycled_bytes >= tiny().engine.log_segment_bytes, "{:?}", tree.stats());
    // At rest the log is made short, whose segments others may have for as long again.
    for _ in 0..2 {
        world.clock.advance(Duration::from_secs(10));
        settle(&tree);
    }
    let left = log_files(&world.storage);
    assert_eq!(tree.stats().recycled_bytes, 0);
    assert!(left.len() <= 2, "a while after a flush only the segment in use and one before it: {left:?}");
}

#[test]
fn a_crash_at_any_moment_finds_nothing_of_an_earlier_life() {
    let first = seed(11);
    let world = World::new(tiny());
    let tree = world.open().unwrap();
    churn(&tree, 0..2, 300);
    let mut survivors = session(&tree);
    for number in 0..60_u32 {
        put(&mut survivors, b"acknowledged", &number.to_be_bytes());
        put_disk(&mut survivors, b"durable", &number.to_be_bytes()).unwrap();
        for filler in 0..10_u32 {
            put(&mut survivors, &filler.to_be_bytes(), &value(2 + number, filler));
        }
        settle(&tree);
        assert!(verify(&world.crash(Crash::Kill).storage).is_sound());
        let kill = world.crash(Crash::Kill).open().unwrap();
        let mut killed = session(&kill);
        assert_eq!(get(&mut killed, b"acknowledged").as_deref(), Some(&number.to_be_bytes()[..]));
        for filler in 0..10_u32 {
            assert_eq!(get(&mut killed, &filler.to_be_bytes()), Some(value(2 + number, filler)), "{number}");
        }
        let loss = Crash::PowerLoss { seed: first + u64::from(number) };
        let lost = world.crash(loss).open().unwrap();
        let mut lost = session(&lost);
        assert_eq!(get(&mut lost, b"durable").as_deref(), Some(&number.to_be_bytes()[..]), "{loss:?}");
        for filler in 10..300_u32 {
            assert_eq!(get(&mut lost, &filler.to_be_bytes()), Some(value(1, filler)), "{loss:?} {filler}");
        }
    }
}

#[test]
fn a_linked_segment_keeps_its_bytes() {
    let world = World::new(tiny());
    let tree = world.open().unwrap();
    churn(&tree, 0..1, 100);
    let copy = std::path::Path::new("copy");
    let copy = tree.copy_to(copy).unwrap();
    churn(&tree, 1..5, 400);
    drop(tree);
    let copied = World { storage: world.storage.directory(&copy.path).unwrap(), ..world };
    let tree = copied.open().unwrap();
    let mut session = session(&tree);
    for number in 0..100_u32 {
        assert_eq!(get(&mut session, &number.to_be_bytes()), Some(value(0, number)), "{number}");
    }
}

#[test]
fn a_closed_log_ends_where_its_records_end() {
    let world = World::new(tiny());
    let faulty = Faulty::new(Arc::new(world.storage.clone()));
    let tree = world.open_on(Arc::new(faulty.clone()), Background::Manual);
    churn(&tree, 0..4, 400);
    let reused = || faulty.counters().of_extension(Operation::Rename, "log").operations;
    let before = reused();
    let mut writer = session(&tree);
    for number in 0..4000_u32 {
        put(&mut writer, &(number % 400).to_be_bytes(), &value(4, number % 400));
        if reused() > before {
            break;
        }
        if number % 50 == 0 {
            settle(&tree);
        }
    }
    assert!(reused() > before, "no file was used again");
    put(&mut writer, b"last", b"one");
    drop(writer);
    tree.close().unwrap();
    drop(tree);
    assert_eq!(verify(&world.storage).findings, [], "{:?}", log_files(&world.storage));
    let tree = world.open().unwrap();
    assert_eq!(get(&mut session(&tree), b"last").as_deref(), Some(&b"one"[..]));
}

#[test]
fn a_disk_that_is_full_at_times_costs_no_record_of_a_reused_file() {
    let mut random = fastrand::Rng::with_seed(seed(12));
    let world = World::new(tiny());
    let faulty = Faulty::new(Arc::new(world.storage.clone()));
    let tree = world.open_on(Arc::new(faulty.clone()), Background::Manual);
    churn(&tree, 0..3, 400);
    let mut writer = session(&tree);
    let (mut kept, mut refused) = (Vec::new(), 0);
    for number in 0..3000_u32 {
        if random.u8(..4) == 0 {
            // Ends inside a page, at its end, or before the first byte.
            let bytes = [0, 1, random.usize(..6000), 4096][random.usize(..4)];
            let effect = Effect::ShortWrite { bytes, kind: firn_storage::ErrorKind::Full };
            let when = When::Once { after: random.u64(..2) };
            faulty.inject(Fault { on: Operation::Write, file: "*.log".to_owned(), when, effect });
        }
        let value = number.to_be_bytes().repeat(random.usize(1..2000));
        match writer.put(KEYSPACE_DEFAULT, &number.to_be_bytes(), &value, WriteOptions::default()) {
            Ok(_) => kept.push((number, value)),
            // Durable with what follows.
            Err(error) if error.kind() == ErrorKind::NotDurable => {
                kept.push((number, value));
                refused += 1;
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Retry, "{error}");
                assert_eq!(get(&mut writer, &number.to_be_bytes()), None, "{number}: nothing was done");
                refused += 1;
            }
        }
        if number % 50 == 0 {
            while tree.step().is_ok_and(|more| more) {}
        }
    }
    assert!(refused > 100, "{refused} writes met a full disk");
    faulty.clear_faults();
    put(&mut writer, b"last", b"one");
    let found = world.crash(Crash::Kill);
    let tree = found.open().unwrap();
    let mut reader = session(&tree);
    for (number, value) in &kept {
        assert_eq!(get(&mut reader, &number.to_be_bytes()).as_ref(), Some(value), "{number}");
    }
    assert_eq!(get(&mut reader, b"last").as_deref(), Some(&b"one"[..]));
}

fn tables(storage: &dyn Storage) -> Vec<(String, u64)> {
    storage.list().unwrap().into_iter().filter(|(name, _)| name.ends_with(".table")).collect()
}

/// A tree on a backend that counts and fails, with files of dead tables at hand.
fn with_recycled_tables(world: &World) -> (Faulty, Arc<Tree>) {
    let faulty = Faulty::new(Arc::new(world.storage.clone()));
    let tree = world.open_on(Arc::new(faulty.clone()), Background::Manual);
    churn(&tree, 0..6, 400);
    let live = tree.stats().tree.expect("a tree").table_count as usize;
    assert!(tables(&world.storage).len() > live, "{live} tables live, no file is kept");
    (faulty, tree)
}

/// Does background work until the disk is found full.
fn step_to_refusal(tree: &Tree) {
    let refused = loop {
        match tree.step() {
            Ok(more) => assert!(more, "nothing met the full disk"),
            Err(error) => break error,
        }
    };
    assert_eq!(refused.kind(), ErrorKind::Retry, "{refused}");
}

fn reused_tables(faulty: &Faulty) -> u64 {
    faulty.counters().of_extension(Operation::Rename, "table").operations
}

#[test]
fn files_of_dead_tables_become_new_ones_and_the_rest_goes_when_nothing_is_written() {
    let world = World::new(tiny());
    let (faulty, tree) = with_recycled_tables(&world);
    assert!(reused_tables(&faulty) > 20, "{} reused", reused_tables(&faulty));
    let kept = tables(&world.storage).iter().map(|(_, bytes)| bytes).sum::<u64>()
        - tree.stats().tree.expect("a tree").table_bytes;
    let settings = tiny();
    assert!(
        kept <= settings.engine.level0_runs_max as u64 * settings.engine.buffer_bytes,
        "{kept} bytes are kept"
    );
    world.clock.advance(Duration::from_secs(9));
    settle(&tree);
    assert!(tables(&world.storage).len() as u64 > tree.stats().tree.expect("a tree").table_count);
    world.clock.advance(Duration::from_secs(1));
    settle(&tree);
    assert_eq!(tables(&world.storage).len() as u64, tree.stats().tree.expect("a tree").table_count);
    assert!(verify(&world.crash(Crash::Kill).storage).is_sound());
}

#[test]
fn whoever_asks_for_rest_finds_no_recycled_tables() {
    type Ask = fn(&Tree) -> firn_engine::Result<()>;
    let asks: [(&str, Ask); 2] = [
        ("wait_idle", |tree| tree.wait_idle()),
        ("compact_range", |tree| tree.compact_range(KEYSPACE_DEFAULT, b"", None)),
    ];
    for (name, ask) in asks {
        let world = World::new(tiny());
        let (_, tree) = with_recycled_tables(&world);
        ask(&tree).unwrap();
        settle(&tree);
        assert_eq!(
            tables(&world.storage).len() as u64,
            tree.stats().tree.expect("a tree").table_count,
            "{name}"
        );
    }
    let world = World::new(tiny());
    let (_, tree) = with_recycled_tables(&world);
    tree.close().unwrap();
    assert_eq!(tables(&world.storage).len() as u64, tree.stats().tree.expect("a tree").table_count, "close");
}

#[test]
fn a_linked_table_keeps_its_bytes() {
    let world = World::new(tiny());
    let (faulty, tree) = with_recycled_tables(&world);
    let copy = tree.copy_to(std::path::Path::new("copy")).unwrap();
    let before = reused_tables(&faulty);
    churn(&tree, 6..12, 400);
    assert!(reused_tables(&faulty) > before + 20);
    drop(tree);
    let copied = World { storage: world.storage.directory(&copy.path).unwrap(), ..world };
    assert_eq!(verify(&copied.storage).findings, []);
    let tree = copied.open().unwrap();
    let mut session = session(&tree);
    for number in 0..400_u32 {
        assert_eq!(get(&mut session, &number.to_be_bytes()), Some(value(5, number)), "{number}");
    }
}

#[test]
fn a_scan_reads_on_in_tables_that_died_meanwhile() {
    // It holds the version they are in; with a prefix it holds their readers, too.
    for range in [ScanRange::all(), ScanRange::with_prefix(b"pref")] {
        let world = World::new(tiny());
        let faulty = Faulty::new(Arc::new(world.storage.clone()));
        let storage = Arc::new(Unmapped { inner: Arc::new(faulty.clone()) });
        let tree = world.open_on(storage, Background::Manual);
        let keyspace = tree.create_keyspace("prefixed", prefixed()).unwrap();
        let key = |number: u32| [&b"pref"[..], &number.to_be_bytes()].concat();
        let write = |rounds: std::ops::Range<u32>| {
            let mut session = session(&tree);
            for (round, number) in rounds.flat_map(|round| (0..400).map(move |number| (round, number))) {
                let value = value(round, number);
                session.put(keyspace, &key(number), &value, WriteOptions::default()).unwrap();
                if number % 50 == 0 {
                    settle(&tree);
                }
            }
        };
        write(0..6);
        let snapshot = tree.snapshot().unwrap();
        let mut reader = session(&tree);
        let mut scan = reader.scan(ReadAt::Snapshot(&snapshot), keyspace, range.clone()).unwrap();
        for number in 0..400_u32 {
            if number == 5 {
                let before = reused_tables(&faulty);
                write(6..10);
                assert!(reused_tables(&faulty) > before + 20);
            }
            let (found, read) = scan.next().unwrap().unwrap();
            assert!(found == key(number) && read == value(5, number), "{range:?}: {number}");
        }
    }
}

#[test]
fn a_full_disk_takes_the_files_of_dead_tables_first() {
    let world = World::new(tiny());
    let (faulty, tree) = with_recycled_tables(&world);
    let (on, effect) = (Operation::Create, Effect::Fail(firn_storage::ErrorKind::Full));
    // The next segment's file: the writer does not notice.
    faulty.inject(Fault { on, file: "*.log".to_owned(), when: When::Once { after: 0 }, effect });
    let mut writer = session(&tree);
    let made = || faulty.counters().of_extension(Operation::Create, "log").operations;
    let before = made();
    for number in 0..4000_u32 {
        put(&mut writer, &(number % 400).to_be_bytes(), &value(6, number % 400));
        if made() > before {
            break;
        }
    }
    assert!(made() > before, "no segment was made");
    assert_eq!(tables(&world.storage).len() as u64, tree.stats().tree.expect("a tree").table_count);
}

#[test]
fn a_flush_that_meets_a_full_disk_gives_up_the_files_of_dead_tables_and_is_done_then() {
    let world = World::new(tiny());
    let (faulty, tree) = with_recycled_tables(&world);
    let mut writer = session(&tree);
    for number in 0..200_u32 {
        put(&mut writer, &number.to_be_bytes(), &value(6, number));
    }
    let before = tree.stats().tree.expect("a tree").flush_count;
    let (on, effect) = (Operation::Write, Effect::Fail(firn_storage::ErrorKind::Full));
    faulty.inject(Fault { on, file: "*.table".to_owned(), when: When::Once { after: 0 }, effect });
    step_to_refusal(&tree);
    assert_eq!(tree.stats().tree.expect("a tree").flush_count, before);
    assert!(tree.step().unwrap(), "what was kept is to be removed");
    assert_eq!(tables(&world.storage).len() as u64, tree.stats().tree.expect("a tree").table_count);
    settle(&tree);
    assert!(tree.stats().tree.expect("a tree").flush_count > before, "nobody asked for it again");
}

#[test]
fn a_table_that_dies_while_the_disk_is_full_makes_room() {
    let world = World::new(tiny());
    let (faulty, tree) = with_recycled_tables(&world);
    let mut reader = session(&tree);
    let scan = reader.scan(ReadAt::Latest, KEYSPACE_DEFAULT, ScanRange::all()).unwrap();
    churn(&tree, 6..8, 400);
    tree.wait_idle().unwrap();
    let held = tables(&world.storage).len() as u64 - tree.stats().tree.expect("a tree").table_count;
    assert!(held > 0, "the scan holds no dead table");
    let mut writer = session(&tree);
    for number in 0..200_u32 {
        put(&mut writer, &number.to_be_bytes(), &value(8, number));
    }
    let before = tree.stats().tree.expect("a tree").flush_count;
    let (on, effect) = (Operation::Write, Effect::Fail(firn_storage::ErrorKind::Full));
    faulty.inject(Fault { on, file: "*.table".to_owned(), when: When::Once { after: 0 }, effect });
    step_to_refusal(&tree);
    settle(&tree);
    assert_eq!(tree.stats().tree.expect("a tree").flush_count, before, "nothing was freed");
    drop(scan);
    settle(&tree);
    assert!(
        tree.stats().tree.expect("a tree").flush_count > before,
        "the tables were kept for whoever does not begin"
    );
}

#[test]
fn a_dropped_keyspace_leaves_no_files() {
    let world = World::new(tiny());
    let tree = world.open().unwrap();
    let keyspace = tree.create_keyspace("other", prefixed()).unwrap();
    let mut writer = session(&tree);
    for number in 0..200_u32 {
        let value = value(1, number);
        writer.put(keyspace, &number.to_be_bytes(), &value, WriteOptions::default()).unwrap();
    }
    tree.flush().unwrap();
    assert!(tree.stats().tree.expect("a tree").table_count > 0);
    tree.drop_keyspace(keyspace).unwrap();
    drop(writer);
    settle(&tree);
    assert_eq!(tables(&world.storage), []);
}

#[test]
fn a_crash_finds_nothing_of_an_earlier_table() {
    let first = seed(13);
    let world = World::new(tiny());
    let (faulty, tree) = with_recycled_tables(&world);
    for round in 0..40_u32 {
        let before = reused_tables(&faulty);
        let mut writer = session(&tree);
        for number in 0..400_u32 {
            put(&mut writer, &number.to_be_bytes(), &value(6 + round, number));
            if number % 50 == 0 {
                // Not all there is to do: the crash comes amid it.
                for _ in 0..round % 5 {
                    tree.step().unwrap();
                }
            }
        }
        tree.sync().unwrap();
        for crash in [Crash::Kill, Crash::PowerLoss { seed: first + u64::from(round) }] {
            let found = world.crash(crash);
            assert!(verify(&found.storage).is_sound(), "{crash:?}");
            let tree = found.open().unwrap();
            assert_eq!(
                tables(&found.storage).len() as u64,
                tree.stats().tree.expect("a tree").table_count,
                "{crash:?}"
            );
            let mut session = session(&tree);
            for number in 0..400_u32 {
                assert_eq!(
                    get(&mut session, &number.to_be_bytes()),
                    Some(value(6 + round, number)),
                    "{crash:?}"
                );
            }
        }
        settle(&tree);
        assert!(round < 3 || reused_tables(&faulty) > before, "nothing was given on in round {round}");
    }
}
