//! A log whose segments carry numbers, over files in memory.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use firn_format::file_name::log_segment;
use firn_format::key::GRANULE_BYTES;
use firn_format::log::{Record, SEGMENT_HEADER_BYTES, encode_single, scan_frames, single_frame_bytes};
use firn_format::{Kind, Position};

use super::{Log, LogStart, Referred};
use crate::backend::{Effect, Fault, Faulty, Memory, Operation, When};
use crate::{ErrorKind, Result, Storage, WriteFile};

pub(super) const DATABASE: u128 = 7;
pub(super) const GENERATION: u64 = 3;

/// One file that records refer to.
#[derive(Debug)]
pub(super) struct Blobs(Arc<dyn WriteFile>);

impl Referred for Blobs {
    fn hand_over(&self) -> Result<()> {
        self.0.hand_over()
    }

    fn sync(&self) -> Result<()> {
        self.0.sync()
    }
}

pub(super) type Numbered = Log<u32, Blobs>;

/// A log with one segment, which carries 1, and its backend.
fn begun() -> (Faulty, Numbered) {
    let faulty = Faulty::new(Arc::new(Memory::new()));
    let log = begun_on(&faulty);
    (faulty, log)
}

/// A log with one segment, which carries 1.
pub(super) fn begun_on(faulty: &Faulty) -> Numbered {
    let start = LogStart {
        storage: Arc::new(faulty.clone()),
        database: DATABASE,
        generation: GENERATION,
        segment_bytes: GRANULE_BYTES,
        recycled_max: 1,
        obsolete: Arc::default(),
        base: Position(0),
        recovered_end: Position(0),
        durable_through: Position(0),
        recovered: Vec::new(),
        writable: true,
    };
    let log = Log::start(start, 1).unwrap();
    log.set_referred(&Arc::new(Blobs(faulty.create("blobs").unwrap())));
    log
}

/// Publishes one frame in the active segment; everything below the answer is published.
pub(super) fn append(log: &Numbered) -> Position {
    append_value(log, b"")
}

/// The same for a frame with `value`.
pub(super) fn append_value(log: &Numbered, value: &[u8]) -> Position {
    let segment = log.active();
    let mut reservation = segment.region().reserve(single_frame_bytes(1, value.len(), false)).unwrap();
    let start = segment.position(reservation.offset());
    let record = Record { keyspace: 0, kind: Kind::Put, expires_at_ms: 0, key: b"k", value };
    let word =
        encode_single(reservation.bytes_mut(), &record, log.durable_through(), start, log.generation());
    reservation.publish(word);
    log.advance().unwrap()
}

/// Makes a segment active that carries `number`.
fn roll(log: &Numbered, number: u32) {
    roll_to(log, number, GRANULE_BYTES);
}

/// Makes a segment of `capacity` active that carries `number`.
pub(super) fn roll_to(log: &Numbered, number: u32, capacity: u64) {
    let base = log.active().base();
    let mut next = log.lock_roll(base).unwrap().unwrap();
    let segment = log.prepare_next(&mut next, (capacity, capacity), number).unwrap();
    log.activate(&mut next, &segment, false);
}

/// How many frames the file of the segment at `base` has.
fn written(storage: &Faulty, base: Position) -> usize {
    let file = storage.open_read(&log_segment(base)).unwrap();
    let mut bytes = vec![0; file.len() as usize];
    file.read_at(0, &mut bytes).unwrap();
    scan_frames(&bytes, base, SEGMENT_HEADER_BYTES, GENERATION).count()
}

/// Writes `log` through `end` on another thread: a call that goes round for ever fails here and
/// does not hang.
fn write_in_time(log: Numbered, end: Position) -> Numbered {
    let (done, ended) = mpsc::channel();
    #[expect(clippy::disallowed_methods, reason = "a test must not wait for a thread that hangs")]
    std::thread::spawn(move || {
        log.write_through(end).unwrap();
        done.send(log).unwrap();
    });
    ended.recv_timeout(Duration::from_secs(60)).expect("the write ended, within a minute")
}

pub(super) fn fail_once(faulty: &Faulty, on: Operation, file: &str, kind: ErrorKind) {
    let (when, effect) = (When::Once { after: 0 }, Effect::Fail(kind));
    faulty.inject(Fault { on, file: file.to_owned(), when, effect });
}

#[test]
fn frames_of_several_segments_are_written_by_one_call() {
    let (faulty, log) = begun();
    append(&log);
    let first = log.active().base();
    roll(&log, 2);
    append(&log);
    let end = append(&log);
    let second = log.active().base();
    assert_eq!((*log.active().carried(), log.watermark()), (2, end));
    assert_eq!((written(&faulty, first), written(&faulty, second)), (0, 0));
    let log = write_in_time(log, end);
    assert_eq!((written(&faulty, first), written(&faulty, second)), (1, 2));
    assert_eq!(log.unwritten_bytes(), 0);
    assert!(log.lock_roll(first).unwrap().is_none(), "another segment is active");
    assert_eq!(log.end().unwrap(), end);
    assert_eq!(log.lock_roll(second).unwrap_err().kind, ErrorKind::Closed);
}

#[test]
fn what_records_refer_to_is_synced_first_and_a_failed_sync_is_final() {
    let (faulty, log) = begun();
    let end = append(&log);
    fail_once(&faulty, Operation::Sync, "blobs", ErrorKind::Unsynced);
    let refused = log.sync_through(end).unwrap_err();
    assert!(refused.kind == ErrorKind::Closed && refused.to_string().contains("blobs"), "{refused}");
    assert_eq!((log.sync_count(), log.durable_through()), (0, Position(0)));
    for later in [log.check(), log.sync_through(end)] {
        assert_eq!(later.unwrap_err().to_string(), refused.to_string(), "the first cause stays");
    }
}

#[test]
fn a_full_disk_poisons_nothing() {
    let (faulty, log) = begun();
    let end = append(&log);
    let file = log.active().name().to_owned();
    fail_once(&faulty, Operation::Write, &file, ErrorKind::Full);
    assert_eq!(log.write_through(end).unwrap_err().kind, ErrorKind::Full);
    log.check().unwrap();
    log.sync_through(end).unwrap();
    assert_eq!((log.durable_through(), written(&faulty, Position(0))), (end, 1));
}
