//! Faults strike where the script says, and nowhere else.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::backend::conformance;
use crate::backend::{Crash, Memory};

fn over_memory() -> (Memory, Faulty) {
    let memory = Memory::new();
    (memory.clone(), Faulty::new(Arc::new(memory)))
}

fn fault(on: Operation, file: &str, when: When, effect: Effect) -> Fault {
    Fault { on, file: file.to_owned(), when, effect }
}

fn len(backend: &dyn Storage, name: &str) -> u64 {
    backend.open_read(name).unwrap().len()
}

#[test]
fn conforms_without_faults() {
    conformance::check(&|| Arc::new(over_memory().1));
    conformance::check_links(&over_memory().1, Path::new("backup"));
    conformance::check(&|| {
        let backend = over_memory().1;
        backend.limit_space(Some(1 << 30)).unwrap();
        Arc::new(backend)
    });
}

#[test]
fn the_nth_operation_on_matching_files_fails_and_does_nothing() {
    let (_, backend) = over_memory();
    let effect = Effect::Fail(ErrorKind::Io);
    backend.inject(fault(Operation::Create, "*.log", When::Once { after: 1 }, effect));
    backend.create("1.log").unwrap();
    backend.create("1.table").unwrap();
    let error = backend.create("2.log").unwrap_err();
    assert_eq!((error.kind, error.file.as_str()), (ErrorKind::Io, "2.log"));
    assert_eq!(backend.list().unwrap().len(), 2);
    backend.create("2.log").unwrap();
    assert_eq!(backend.struck_count(), 1);
    backend.inject(fault(Operation::SyncDir, "*", When::Always { after: 1 }, effect));
    backend.sync_dir().unwrap();
    assert!(backend.sync_dir().is_err() && backend.sync_dir().is_err());
    backend.clear_faults();
    backend.sync_dir().unwrap();
}

#[test]
fn an_operation_may_be_done_and_yet_fail() {
    let (_, backend) = over_memory();
    let effect = Effect::FailAfter(ErrorKind::Io);
    backend.inject(fault(Operation::Publish, "*", When::Once { after: 0 }, effect));
    assert_eq!(backend.publish("1.manifest", b"edit").unwrap_err().kind, ErrorKind::Io);
    assert_eq!(backend.publish("1.manifest", b"edit").unwrap_err().kind, ErrorKind::Exists);
}

#[test]
fn a_write_may_be_short() {
    let (_, backend) = over_memory();
    let file = backend.create("a").unwrap();
    let effect = Effect::ShortWrite { bytes: 3, kind: ErrorKind::Io };
    backend.inject(fault(Operation::Write, "a", When::Once { after: 0 }, effect));
    assert_eq!(file.write_at(0, b"0123456789").unwrap_err().kind, ErrorKind::Io);
    assert_eq!(len(&backend, "a"), 3);
    file.write_at(3, b"3456789").unwrap();
    assert_eq!(len(&backend, "a"), 10);
}

#[test]
fn a_write_may_be_wrong_and_say_nothing() {
    let (_, backend) = over_memory();
    let file = backend.create("a").unwrap();
    backend.inject(fault(Operation::Write, "a", When::Once { after: 0 }, Effect::Turn));
    file.write_at(0, b"0123").unwrap();
    file.write_at(4, b"4567").unwrap();
    let mut found = [0; 8];
    file.read_at(0, &mut found).unwrap();
    assert_eq!(&found, b"01224567");
}

#[test]
fn after_a_failed_sync_success_means_nothing() {
    let (memory, backend) = over_memory();
    let file = backend.create("a").unwrap();
    backend.sync_dir().unwrap();
    file.write_at(0, b"lost?").unwrap();
    backend.inject(fault(Operation::Sync, "a", When::Once { after: 0 }, Effect::Fail(ErrorKind::Io)));
    file.sync().unwrap_err();
    file.sync().unwrap();
    backend.rename("a", "b").unwrap();
    backend.open_write("b").unwrap().sync().unwrap();
    backend.sync_dir().unwrap();
    let lost = (0..200).any(|seed| len(&memory.crash(Crash::PowerLoss { seed }), "b") == 0);
    assert!(lost, "a later sync must not make the bytes durable");
    let other = backend.create("a").unwrap();
    other.write_at(0, b"kept").unwrap();
    other.sync().unwrap();
    backend.sync_dir().unwrap();
    for seed in 0..200 {
        assert_eq!(len(&memory.crash(Crash::PowerLoss { seed }), "a"), 4, "a new file of the name is sound");
    }
}

#[test]
fn space_runs_out_and_comes_back() {
    let (memory, backend) = over_memory();
    memory.create("old").unwrap().write_at(0, &[0; 1_000]).unwrap();
    let old = backend.open_write("old").unwrap();
    backend.limit_space(Some(100)).unwrap();
    assert_eq!(backend.free_bytes().unwrap(), Some(100));
    let file = backend.create("a").unwrap();
    file.write_at(0, &[1; 60]).unwrap();
    old.write_at(500, &[1; 500]).unwrap();
    let error = file.write_at(60, &[2; 60]).unwrap_err();
    assert_eq!((error.kind, len(&backend, "a")), (ErrorKind::Full, 100), "written as far as it goes");
    assert_eq!(backend.publish("1.manifest", b"x").unwrap_err().kind, ErrorKind::Full);
    assert_eq!(old.allocate(1_001).unwrap_err().kind, ErrorKind::Full);
    file.set_len(90).unwrap();
    backend.publish("1.manifest", &[3; 10]).unwrap();
    assert_eq!(backend.free_bytes().unwrap(), Some(0));
    backend.remove("old").unwrap();
    assert_eq!(backend.free_bytes().unwrap(), Some(1_000));
    file.allocate(500).unwrap();
    assert_eq!(backend.free_bytes().unwrap(), Some(590), "what is allocated is taken");
    file.write_at(90, &[4; 410]).unwrap();
    assert_eq!(backend.free_bytes().unwrap(), Some(590));
    assert!(file.write_at(5_000, b"x").is_err(), "a hole takes space too");
    backend.limit_space(None).unwrap();
    file.write_at(5_000, b"x").unwrap();
}

#[test]
fn delays_are_slept_on_the_clock() {
    let clock = Arc::new(ManualClock::new(0));
    let backend = Faulty::with_clock(Arc::new(Memory::new()), clock.clone());
    let late = Effect::Delay(Duration::from_millis(20));
    backend.inject(fault(Operation::Write, "*", When::Always { after: 0 }, late));
    let later = Effect::Delay(Duration::from_millis(5));
    backend.inject(fault(Operation::Write, "*", When::Once { after: 0 }, later));
    let fails = Effect::Fail(ErrorKind::Io);
    backend.inject(fault(Operation::Write, "*", When::Once { after: 1 }, fails));
    let file = backend.create("a").unwrap();
    assert_eq!(clock.now(), Duration::ZERO);
    file.write_at(0, b"x").unwrap();
    file.write_at(0, b"x").unwrap_err();
    assert_eq!(clock.now(), Duration::from_millis(45));
}

#[test]
fn counters_tell_operations_and_bytes_by_extension() {
    let (_, backend) = over_memory();
    let log = backend.create("1.log").unwrap();
    log.write_at(0, &[1; 100]).unwrap();
    let before = backend.counters();
    log.write_at(100, &[1; 50]).unwrap();
    backend.create("1.table").unwrap().write_at(0, &[1; 7]).unwrap();
    backend.publish("1.manifest", &[1; 3]).unwrap();
    backend.open_read("1.log").unwrap().read_at(5, &mut [0; 9]).unwrap();
    backend.open_read("1.log").unwrap().read_at(500, &mut [0; 9]).unwrap_err();
    let all = backend.counters();
    assert_eq!(all.of(Operation::Write), Count { operations: 3, bytes: 157 });
    assert_eq!(all.of_extension(Operation::Write, "log"), Count { operations: 2, bytes: 150 });
    assert_eq!(all.of(Operation::Read), Count { operations: 2, bytes: 9 });
    assert_eq!(all.bytes_written(), 160);
    let since = all.since(&before);
    assert_eq!(since.of(Operation::Write), Count { operations: 2, bytes: 57 });
    assert_eq!(since.of(Operation::Create), Count { operations: 1, bytes: 0 });
}

#[test]
fn what_is_linked_meets_the_same_faults() {
    let (_, backend) = over_memory();
    let linked = backend.link_into(&[], Path::new("backup")).unwrap();
    backend.inject(fault(
        Operation::Create,
        "*.table",
        When::Always { after: 0 },
        Effect::Fail(ErrorKind::Io),
    ));
    assert_eq!(linked.create("1.table").map(drop).unwrap_err().kind, ErrorKind::Io);
    assert_eq!(backend.struck_count(), 1);
    assert_eq!(backend.counters().of(Operation::Create).operations, 0);
    backend.clear_faults();
    linked.create("1.table").unwrap();
}
