//! The contract behind a throttle, and what each call costs.

use std::time::Duration;

use super::*;
use crate::backend::{Limits, Memory, conformance};
use crate::{Clock, ManualClock};

/// A directory in memory behind a throttle of `limits`, and the clock that its waits move.
fn throttled(memory: Memory, limits: &Limits) -> (Throttled, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new(0));
    let throttle = Throttle::new(limits, Arc::clone(&clock) as Arc<dyn Clock>);
    (Throttled::new(Arc::new(memory), Arc::new(throttle)), clock)
}

#[test]
fn a_backend_behind_a_throttle_keeps_the_contract() {
    let limits = Limits {
        reads_per_second: Some(1000),
        writes_per_second: Some(1000),
        lists_per_second: Some(1),
        removals_per_second: Some(1),
        read_bytes_per_second: Some(1 << 20),
        write_bytes_per_second: Some(1 << 20),
    };
    let clock = Arc::new(ManualClock::new(0));
    let throttle = Arc::new(Throttle::new(&limits, Arc::clone(&clock) as Arc<dyn Clock>));
    let fresh = || Throttled::new(Arc::new(Memory::new()), Arc::clone(&throttle));
    conformance::check(&|| Arc::new(fresh()));
    conformance::check_links(&fresh(), Path::new("backup"));
    assert!(clock.now() > Duration::from_secs(1), "the suite met the limits: {:?}", clock.now());
}

/// What a call does to a backend that has the file `a` of 400 bytes, and an unfinished upload.
type Call = fn(&dyn Storage) -> Result<()>;

const READS: [(&str, u64, Call); 6] = [
    ("open_read", 0, |backend| backend.open_read("a").map(drop)),
    ("open_read_known", 0, |backend| backend.open_read_known("a", 400).map(drop)),
    ("open_part", 0, |backend| backend.open_part("a", 10, 20).map(drop)),
    ("read_at", 1400, |backend| {
        let file = backend.open_read("a")?;
        (0..3).try_for_each(|_| file.read_at(0, &mut [0; 400]))?;
        file.read_at(100, &mut [0; 200])
    }),
    ("read_at of a part", 20, |backend| backend.open_part("a", 10, 20)?.read_at(0, &mut [0; 20])),
    ("read_at of a file being written", 400, |backend| backend.open_write("a")?.read_at(0, &mut [0; 400])),
];

const WRITES: [(&str, u64, Call); 10] = [
    ("create", 0, |backend| backend.create("b").map(drop)),
    ("open_write", 0, |backend| backend.open_write("a").map(drop)),
    ("publish", 500, |backend| backend.publish("b", &[1; 500])),
    ("rename", 0, |backend| backend.rename("a", "b")),
    ("link_into", 0, |backend| backend.link_into(&["a".to_owned()], Path::new("linked")).map(drop)),
    ("write_at", 300, |backend| backend.open_write("a")?.write_at(0, &[1; 300])),
    ("write_zeroing", 300, |backend| backend.open_write("a")?.write_zeroing(0, &[1; 300])),
    ("write_combined", 300, |backend| backend.open_write("a")?.write_combined(0, &[1; 300])),
    ("sync", 0, |backend| backend.open_write("a")?.sync()),
    ("set_len", 0, |backend| backend.open_write("a")?.set_len(7)),
];

const OTHERS: [(&str, Call); 3] = [
    ("sync_dir", |backend| backend.sync_dir()),
    ("lock", |backend| backend.lock(true).map(drop)),
    ("free_bytes", |backend| backend.free_bytes().map(drop)),
];

/// How long `call` waits where what `limits` names may be asked for once a second, after as much
/// was asked for as may be at once.
fn wait(limits: &Limits, call: Call) -> Duration {
    let memory = Memory::new();
    memory.publish("a", &[7; 400]).unwrap();
    memory.leave_upload("c", "1");
    let (backend, clock) = throttled(memory, limits);
    for class in [RequestClass::Read, RequestClass::Write, RequestClass::List, RequestClass::Remove] {
        backend.throttle.pass(class, 1);
    }
    let before = clock.now();
    call(&backend).unwrap();
    clock.now() - before
}

#[test]
fn each_call_waits_for_its_class_alone() {
    let none = Limits::default();
    let reads = Limits { reads_per_second: Some(1), ..none };
    let writes = Limits { writes_per_second: Some(1), ..none };
    let lists = Limits { lists_per_second: Some(1), ..none };
    let removals = Limits { removals_per_second: Some(1), ..none };
    let waits = |call: Call| [reads, writes, lists, removals].map(|limits| wait(&limits, call).as_secs());
    let calls = |waits: [u64; 4]| waits.map(|seconds| seconds > 0);
    for (name, _, call) in READS {
        // To open a file for writing is a request to write.
        let writes_too = name == "read_at of a file being written";
        assert_eq!(calls(waits(call)), [true, writes_too, false, false], "{name}");
    }
    for (name, _, call) in WRITES {
        assert_eq!(calls(waits(call)), [false, true, false, false], "{name}");
    }
    let list: Call = |backend| backend.list().map(drop);
    let uploads: Call = |backend| backend.unfinished_uploads().map(drop);
    assert_eq!([list, uploads].map(waits), [[0, 0, 1, 0]; 2]);
    let remove: Call = |backend| backend.remove("a");
    let abort: Call =
        |backend| backend.abort_upload(&UnfinishedUpload { name: "c".to_owned(), id: "1".to_owned() });
    assert_eq!([remove, abort].map(waits), [[0, 0, 0, 1]; 2]);
    for (name, call) in OTHERS {
        assert_eq!(waits(call), [0; 4], "{name}");
    }
}

#[test]
fn bytes_count_as_they_are_moved() {
    let none = Limits::default();
    let read_bytes = Limits { read_bytes_per_second: Some(1), ..none };
    let write_bytes = Limits { write_bytes_per_second: Some(1), ..none };
    let waits = |call: Call| [read_bytes, write_bytes].map(|limits| wait(&limits, call).as_secs());
    for (name, bytes, call) in READS {
        assert_eq!(waits(call), [bytes, 0], "{name}");
    }
    for (name, bytes, call) in WRITES {
        assert_eq!(waits(call), [0, bytes], "{name}");
    }
    let ahead: Call = |backend| {
        let file = backend.open_read("a")?;
        file.will_need(0, 400);
        file.will_look_up(0, 400);
        assert!(file.bytes()?.is_none(), "memory could be read uncounted");
        file.read_at(0, &mut [0; 100])
    };
    assert_eq!(waits(ahead), [100, 0], "bytes that are asked for ahead count when they are read");
}

#[test]
fn a_linked_directory_has_the_same_throttle() {
    let limits = Limits { lists_per_second: Some(1), ..Limits::default() };
    let memory = Memory::new();
    memory.publish("a", b"bytes").unwrap();
    let (backend, clock) = throttled(memory, &limits);
    let linked = backend.link_into(&["a".to_owned()], Path::new("linked")).unwrap();
    backend.list().unwrap();
    let before = clock.now();
    assert_eq!(linked.list().unwrap(), [("a".to_owned(), 5)]);
    assert_eq!((clock.now() - before).as_secs(), 1);
}
