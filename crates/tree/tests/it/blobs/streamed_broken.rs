//! Values that do not come to their end: nothing is left of them, and nothing else suffers.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use firn_engine::conformance::semantics;
use firn_engine::{
    Compression, Engine, Error, ErrorKind, KEYSPACE_DEFAULT, KeyspaceId, Ordered, Outcome, Result,
    WriteOptions,
};
use firn_storage::backend::{Crash, Effect, Fault, Faulty, Operation, When};
use firn_storage::{Clock, ErrorKind as Kind, Storage, SystemClock};
use firn_tree::{Background, Settings, Tree, VerifyOptions, VerifyReport, verify};

use crate::blobs::streamed::{MIB, Source, begun, beside, blob_files, put_from, read_into, value};
use crate::support::world::{DISK, Hook, World, describe, get_in, session, settle, tiny};

/// Puts a value that comes by `source`, which fails.
fn refused(tree: &Tree, keyspace: KeyspaceId, bytes: usize, source: &mut dyn io::Read) -> Error {
    tree.put_from(keyspace, b"key", bytes as u64, source, WriteOptions::default()).unwrap_err()
}

fn verified(machine: &World) -> VerifyReport {
    let storage = Arc::new(machine.storage.clone()) as Arc<dyn Storage>;
    verify(VerifyOptions { storage, semantics: semantics() }, &mut |_| {}).unwrap()
}

/// Everything in the directory is sound, each value is referred to or dead, and no file is too
/// many.
fn check(machine: &World, what: &str) {
    let report = verified(machine);
    let is_beside = report.findings.iter().all(|finding| !finding.file.ends_with(".blobs"));
    assert!(report.is_sound() && is_beside, "{what}: {:?}", report.findings);
}

#[test]
fn a_source_that_fails_ends_early_or_has_more_leaves_nothing() {
    let (machine, tree, keyspace) = begun(tiny());
    let (old, new) = (value(1, 5 * MIB), value(2, 6 * MIB));
    put_from(&tree, keyspace, b"key", &old, WriteOptions::default()).unwrap();
    let files = blob_files(&machine);
    let session = &mut session(&tree);
    let mut expect = |error: Error, expected: &str| {
        let found = describe(&error);
        assert!(error.kind() == ErrorKind::Invalid && found.contains(expected), "{found}, not {expected}");
        assert!(found.contains("nothing was written"), "{found}");
        assert_eq!(blob_files(&machine), files, "{expected}");
        assert!(get_in(session, keyspace, b"key").as_deref() == Some(&old[..]), "{expected}");
    };
    for bytes in [0, 1, 3 * MIB, 4 * MIB, 6 * MIB] {
        let mut source = Source::of(&new).at(bytes, || Err(io::Error::other("the line is cut")));
        let error = refused(&tree, keyspace, new.len(), &mut source);
        expect(error, "of 6291456 bytes: nothing was written: the line is cut");
    }
    expect(refused(&tree, keyspace, new.len() + 1, &mut Source::of(&new)), "ended after 6291456 bytes");
    expect(refused(&tree, keyspace, new.len() - 1, &mut Source::of(&new)), "more than the 6291455 bytes");
    // The same where it would be held in memory.
    expect(refused(&tree, keyspace, 100, &mut Source::of(&new[..99])), "ended after 99 bytes");
    expect(refused(&tree, keyspace, 100, &mut Source::of(&new[..101])), "more than the 100 bytes");
    // What a reader says when a signal comes is no failure.
    let interrupted = || Err(io::Error::from(io::ErrorKind::Interrupted));
    let mut source = Source::of(&new).at(5 * MIB, interrupted);
    tree.put_from(keyspace, b"key", new.len() as u64, &mut source, WriteOptions::default()).unwrap();
    // Numbers of segments that came to nothing are not used again.
    let last = blob_files(&machine).pop().unwrap();
    assert_eq!(last, format!("{:08x}.blobs", 1 + 5 + 2), "{:?}", blob_files(&machine));
    tree.flush().unwrap();
    tree.close().unwrap();
    check(&machine, "closed");
}

#[test]
fn a_source_that_panics_leaves_nothing() {
    let (machine, tree, keyspace) = begun(tiny());
    let value = value(3, 5 * MIB);
    let mut source = Source::of(&value).then(2 * MIB, || panic!("a bug of the caller's"));
    let options = WriteOptions::default();
    let put =
        catch_unwind(AssertUnwindSafe(|| tree.put_from(keyspace, b"key", 5 << 20, &mut source, options)));
    assert!(put.is_err());
    assert_eq!(blob_files(&machine), Vec::<String>::new());
    put_from(&tree, keyspace, b"key", &value, DISK).unwrap();
    assert!(get_in(&mut session(&tree), keyspace, b"key").as_deref() == Some(&value[..]));
}

#[test]
fn closing_does_not_wait_and_whoever_opens_next_is_not_disturbed() {
    let (machine, tree, keyspace) = begun(tiny());
    let (first, second) = (value(4, 6 * MIB), value(5, 7 * MIB));
    let mut next = None;
    let closed = {
        let source = &mut Source::of(&first).then(3 * MIB, || {
            tree.close().unwrap();
            assert_eq!(blob_files(&machine), Vec::<String>::new());
            // It gets the number that the first one had.
            let opened = machine.open().unwrap();
            put_from(&opened, keyspace, b"key", &second, WriteOptions::default()).unwrap();
            assert_eq!(blob_files(&machine), ["00000000.blobs"]);
            next = Some(opened);
        });
        let closed = refused(&tree, keyspace, first.len(), source);
        assert!(source.taken() < 5 * MIB, "it is told at once, not after {} bytes", source.taken());
        closed
    };
    assert_eq!(closed.kind(), ErrorKind::Closed, "{}", describe(&closed));
    drop(tree);
    let tree = next.unwrap();
    assert!(get_in(&mut session(&tree), keyspace, b"key").as_deref() == Some(&second[..]));
    tree.close().unwrap();
    let tree = machine.open().unwrap();
    assert!(get_in(&mut session(&tree), keyspace, b"key") == Some(second));
    // Where it is closed as the last bytes come, too.
    let mut source = Source::of(&first).then(first.len(), || tree.close().unwrap());
    assert_eq!(refused(&tree, keyspace, first.len(), &mut source).kind(), ErrorKind::Closed);
    drop(source);
    assert_eq!(blob_files(&machine).len(), 1);
    drop(tree);
    check(&machine, "closed");
}

#[test]
fn a_value_that_is_whole_when_the_database_closes_is_there_only_if_that_is_said() {
    let machine = World::new(tiny());
    let hook = Arc::new(Hook::default());
    let faulty = hook.before(&machine.storage, Operation::Sync, "*.blobs");
    let tree = machine.open_on(Arc::new(faulty), Background::Manual);
    let keyspace = tree.create_keyspace("large", beside(Compression::None)).unwrap();
    let value = value(30, 5 * MIB);
    hook.set({
        let tree = Arc::clone(&tree);
        move || tree.close().unwrap()
    });
    // Whatever could refuse it earlier has been asked by then.
    assert_eq!(refused(&tree, keyspace, 5 * MIB, &mut Source::of(&value)).kind(), ErrorKind::Closed);
    assert_eq!(blob_files(&machine), Vec::<String>::new());
    hook.set(|| {});
    drop(tree);
    check(&machine, "closed");
    assert_eq!(get_in(&mut session(&machine.open().unwrap()), keyspace, b"key"), None);
}

/// A machine that goes at any operation of a value that overwrites another one, until all of it is
/// in tables.
#[test]
fn a_machine_that_goes_at_any_step_has_the_old_value_or_the_new_one() {
    let settings = || Settings { manifest_edits_max: 6, ..tiny() };
    let (old, new) = (value(6, 4 * MIB + 77), value(7, 4 * MIB + 5000));
    let crashes = [
        (Crash::Kill, WriteOptions::default(), Compression::None),
        (Crash::Kill, WriteOptions::default(), Compression::Zstd),
        (Crash::PowerLoss { seed: 1 }, DISK, Compression::None),
        (Crash::PowerLoss { seed: 2 }, DISK, Compression::Lz4),
        (Crash::PowerLoss { seed: 3 }, WriteOptions::default(), Compression::None),
    ];
    for (crash, options, codec) in crashes {
        let mut seen = [0, 0];
        for step in 0.. {
            let machine = World::new(settings());
            let tree = machine.open().unwrap();
            let keyspace = tree.create_keyspace("large", beside(codec)).unwrap();
            put_from(&tree, keyspace, b"key", &old, DISK).unwrap();
            // So that the next one's file was another one's before, every other time.
            if step % 2 == 1 {
                put_from(&tree, keyspace, b"other", &old, DISK).unwrap();
                session(&tree).delete(keyspace, b"other", DISK).unwrap();
                tree.compact_range(keyspace, b"", None).unwrap();
                settle(&tree);
            }
            machine.storage.cut_write_at(machine.storage.operations() + step, (step as usize * 70_001) % MIB);
            let put = put_from(&tree, keyspace, b"key", &new, options);
            let after = put.as_ref().map_or(Ok(()), |()| tree.flush());
            let Some(operation) = machine.storage.cut_operation() else {
                after.unwrap();
                break;
            };
            let what = format!("{crash:?} at step {step}, `{operation}`");
            let left = machine.crash(crash);
            drop(tree);
            let report = verified(&left);
            assert!(report.is_sound(), "{what}: {:?}", report.findings);
            let tree = left.open().unwrap();
            let found = get_in(&mut session(&tree), keyspace, b"key").unwrap();
            let is_new = found == new;
            assert!(is_new || found == old, "{what}");
            assert!(is_new || put.is_err() || options != DISK && crash != Crash::Kill, "{what}: lost");
            seen[usize::from(is_new)] += 1;
            // What is left of the other one goes with a compaction.
            tree.compact_range(keyspace, b"", None).unwrap();
            tree.wait_idle().unwrap();
            assert!(read_into(&tree, &mut session(&tree), keyspace, b"key") == Some(found), "{what}");
            assert_eq!(blob_files(&left).len(), 1, "{what}");
            tree.close().unwrap();
            check(&left, &what);
        }
        let is_synced = options == DISK || crash == Crash::Kill;
        assert!(seen[0] > 5 && seen[1] > if is_synced { 5 } else { 0 }, "{crash:?}: {seen:?}");
    }
}

#[test]
fn a_disk_that_is_full_midway_refuses_the_value_and_has_its_room_again() {
    let machine = World::new(tiny());
    let faulty = Faulty::new(Arc::new(machine.storage.clone()));
    let tree = machine.open_on(Arc::new(faulty.clone()), Background::Manual);
    let keyspace = tree.create_keyspace("large", beside(Compression::None)).unwrap();
    let value = value(8, 6 * MIB);
    let mut source = Source::of(&value);
    let faults = [
        (Operation::Create, 0),
        (Operation::Allocate, 0),
        (Operation::Write, 0),
        (Operation::Write, 3),
        (Operation::Write, 7),
        (Operation::Sync, 0),
    ];
    for (on, after) in faults {
        let fault = |on| Fault {
            on,
            file: "*.blobs".to_owned(),
            when: When::Once { after },
            effect: Effect::Fail(Kind::Full),
        };
        faulty.inject(fault(on));
        let put = put_from(&tree, keyspace, b"key", &value, WriteOptions::default());
        assert_eq!(put.unwrap_err().kind(), ErrorKind::Retry, "{on:?} {after}");
        assert_eq!(faulty.struck_count(), 1, "{on:?} {after}");
        faulty.clear_faults();
        assert_eq!(blob_files(&machine).len(), 0, "{on:?} {after}");
    }
    // Little room is known before anything is taken from the source.
    faulty.limit_space(Some(5 << 20)).unwrap();
    let put = tree.put_from(keyspace, b"key", value.len() as u64, &mut source, WriteOptions::default());
    assert_eq!(put.unwrap_err().kind(), ErrorKind::Retry);
    assert_eq!((source.taken(), blob_files(&machine).len()), (0, 0));
    // 8 MiB are kept for removals.
    faulty.limit_space(Some(22 << 20)).unwrap();
    for round in 0..2 {
        tree.put_from(keyspace, &[round], value.len() as u64, &mut Source::of(&value), DISK).unwrap();
    }
    assert!(put_from(&tree, keyspace, b"third", &value, DISK).is_err());
    assert!(get_in(&mut session(&tree), keyspace, &[1]).as_deref() == Some(&value[..]));
}

#[test]
fn a_copy_has_what_was_whole_and_nothing_of_what_was_not() {
    let (machine, tree, keyspace) = begun(tiny());
    let [whole, coming] = [value(9, 5 * MIB), value(10, 5 * MIB)];
    put_from(&tree, keyspace, b"whole", &whole, WriteOptions::default()).unwrap();
    let mut source = Source::of(&coming).then(3 * MIB, || {
        tree.copy_to("during".as_ref()).unwrap();
    });
    let bytes = coming.len() as u64;
    tree.put_from(keyspace, b"coming", bytes, &mut source, WriteOptions::default()).unwrap();
    tree.copy_to("after".as_ref()).unwrap();
    for (path, is_there) in [("during", false), ("after", true)] {
        let storage = machine.storage.directory(path.as_ref()).unwrap();
        let copy = World { storage, ..machine.clone() };
        assert_eq!(blob_files(&copy).len(), 1 + usize::from(is_there), "{path}");
        check(&copy, path);
        let copied = copy.open().unwrap();
        let session = &mut session(&copied);
        assert!(get_in(session, keyspace, b"whole").as_deref() == Some(&whole[..]), "{path}");
        let found = get_in(session, keyspace, b"coming");
        assert!(found.as_deref() == is_there.then_some(&coming[..]), "{path}");
        // The copy's numbers are its own.
        put_from(&copied, keyspace, b"more", &whole, WriteOptions::default()).unwrap();
        assert!(get_in(session, keyspace, b"more").as_deref() == Some(&whole[..]), "{path}");
    }
}

#[test]
fn a_keyspace_that_is_dropped_meanwhile_refuses_the_value() {
    let (machine, tree, keyspace) = begun(tiny());
    let value = value(11, 5 * MIB);
    let mut source = Source::of(&value).then(3 * MIB, || tree.drop_keyspace(keyspace).unwrap());
    let error = refused(&tree, keyspace, value.len(), &mut source);
    assert_eq!(error.kind(), ErrorKind::Invalid, "{}", describe(&error));
    tree.wait_idle().unwrap();
    assert_eq!(blob_files(&machine), Vec::<String>::new());
    tree.close().unwrap();
    check(&machine, "closed");
}

#[test]
fn a_writer_that_is_stopped_keeps_its_value() {
    // Less than three segments, however little their indexes take.
    let room = 11 << 20;
    let (_machine, tree, keyspace) = begun(tiny().with_engine(|tree| {
        tree.buffer_bytes = room;
        tree.buffer_bytes_max = room;
    }));
    let value = value(12, 5 * MIB);
    let mut source = Source::of(&value).then(3 * MIB, || {
        let session = &mut *tree.ordered_session();
        let record = vec![7; 50_000];
        for key in 0_u32.. {
            let key = key.to_be_bytes();
            let put = session.put(KEYSPACE_DEFAULT, &key, &record, WriteOptions::default()).unwrap();
            // There is no room for it, so there is none for a longer key.
            if let Outcome::Pending(_) = put {
                break;
            }
        }
    });
    let key = vec![b'k'; 65_000];
    let before = tree.stats();
    let written = tree.put_from(keyspace, &key, value.len() as u64, &mut source, WriteOptions::default());
    written.unwrap();
    let after = tree.stats();
    assert!(
        after.tree.as_ref().expect("a tree").flush_count > before.tree.as_ref().expect("a tree").flush_count,
        "nobody had to make room"
    );
    assert!(get_in(&mut session(&tree), keyspace, &key).as_deref() == Some(&value[..]));
    settle(&tree);
    let stats = tree.stats().tree.expect("a tree").blobs;
    assert_eq!((stats.segment_count, stats.dead_bytes), (1, 0), "{stats:?}");
}

/// Results of writers, in threads, while one source is slow and others are not.
#[test]
fn sources_come_side_by_side_with_everything_else() -> Result<()> {
    let machine = World::new(tiny());
    let tree = machine.open_threads();
    let keyspace = tree.create_keyspace("large", beside(Compression::Lz4)).unwrap();
    let values: Vec<Vec<u8>> = (0..4).map(|seed| value(20 + seed, 5 * MIB + seed as usize * 1000)).collect();
    std::thread::scope(|scope| {
        for (index, value) in values.iter().enumerate() {
            let tree = &tree;
            scope.spawn(move || {
                for round in 0..4 {
                    let mut source = Source::of(value);
                    for at in (0..value.len()).step_by(MIB) {
                        source = source.then(at, || SystemClock::new().sleep(Duration::from_millis(2)));
                    }
                    let key = [index as u8, round % 2];
                    tree.put_from(keyspace, &key, value.len() as u64, &mut source, DISK).unwrap();
                }
            });
        }
        let tree = &tree;
        scope.spawn(move || {
            let session = &mut session(tree);
            for key in 0..3000_u32 {
                session.put(keyspace, &key.to_be_bytes(), &[7; 2000], WriteOptions::default()).unwrap();
                if key % 500 == 0 {
                    tree.compact_range(keyspace, b"", None).unwrap();
                }
            }
        });
    });
    let session = &mut session(&tree);
    for (index, value) in values.iter().enumerate() {
        for round in [0, 1] {
            assert!(get_in(session, keyspace, &[index as u8, round]).as_deref() == Some(&value[..]));
        }
    }
    tree.compact_range(keyspace, b"", None)?;
    tree.wait_idle()?;
    tree.close()?;
    check(&machine, "closed");
    Ok(())
}
