//! Log objects that are refused, lost, sent twice or in parts, and what becomes of the log.

use std::sync::atomic::Ordering;

use firn_format::Position;
use firn_format::file_name::log_object;
use firn_format::key::{GRANULE_BYTES, POSITION_END};

use super::super::{By, NamedObjects};
use super::engine::Engine;
use crate::backend::{Effect, Fault, Operation, When};
use crate::file::log::tests::{GENERATION, append, fail_once};
use crate::{ErrorKind, Storage};

/// The next log object is asked for, and goes as `effect` says after `after` others.
fn strike(engine: &Engine, after: u64, effect: Effect) {
    let (on, when) = (Operation::Publish, When::Once { after });
    engine.faulty.inject(Fault { on, file: "*.group".to_owned(), when, effect });
}

#[test]
fn what_is_refused_goes_under_its_number_with_the_next_call() {
    for kind in [ErrorKind::Refused, ErrorKind::Full, ErrorKind::Undecided] {
        let engine = Engine::new();
        let end = engine.append();
        strike(&engine, 0, Effect::Fail(kind));
        let refused = engine.share(end).unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Refused, "{refused}");
        assert_eq!(refused.message, "shared storage does not take the log now");
        assert_eq!((engine.acknowledged(), engine.named()), ((0, Position(0)), None));
        engine.log.check().unwrap();
        let later = engine.append();
        engine.share(end).unwrap();
        // It is what it was, since it may be there already.
        assert_eq!((engine.acknowledged(), engine.listed().len()), ((1, end), 1), "{kind:?}");
        engine.share(later).unwrap();
        assert_eq!((engine.acknowledged(), engine.listed().len()), ((2, later), 2), "{kind:?}");
        assert_eq!(engine.failures.lock().unwrap()[..], [""; 0]);
    }
}

#[test]
fn what_is_sent_twice_is_acknowledged_once() {
    let engine = Engine::new();
    let end = engine.append();
    strike(&engine, 0, Effect::FailAfter(ErrorKind::Undecided));
    assert_eq!(engine.share(end).unwrap_err().kind, ErrorKind::Refused);
    assert_eq!((engine.acknowledged(), engine.listed().len()), ((0, Position(0)), 1), "the answer is lost");
    engine.share(end).unwrap();
    engine.share(end).unwrap();
    assert_eq!((engine.asked(), engine.acknowledged(), engine.listed().len()), (2, (1, end), 1));
    assert!(engine.shared_log.has(end) && engine.failures.lock().unwrap().is_empty());
}

#[test]
fn a_log_object_of_another_machine_ends_writing() {
    let engine = Engine::new();
    let end = engine.append();
    engine.faulty.publish(&log_object(GENERATION, 0), b"not this one's").unwrap();
    let closed = engine.share(end).unwrap_err();
    assert_eq!(closed.kind, ErrorKind::Closed);
    assert!(closed.to_string().contains("opened on another machine"), "{closed}");
    assert_eq!((engine.acknowledged(), engine.named()), ((0, Position(0)), None));
    assert_eq!(engine.failures.lock().unwrap().len(), 1);
    assert_eq!(engine.log.check().unwrap_err().to_string(), closed.to_string());
}

#[test]
fn a_failure_of_unknown_outcome_ends_writing() {
    let engine = Engine::new();
    let end = engine.append();
    strike(&engine, 0, Effect::Fail(ErrorKind::Io));
    let closed = engine.share(end).unwrap_err();
    assert_eq!((closed.kind, engine.failures.lock().unwrap().len()), (ErrorKind::Closed, 1));
    // The first cause stays, and nothing more is asked for.
    let again = engine.shared_log.send_through(&engine, end, By::Writer).unwrap_err();
    assert_eq!((again.to_string(), engine.asked()), (closed.to_string(), 1));
    assert_eq!(engine.acknowledged(), (0, Position(0)));
}

#[test]
fn a_closed_database_does_not_try_again_and_one_that_closes_commits_no_flush() {
    let engine = Engine::new();
    let end = engine.append();
    engine.is_stopping.store(true, Ordering::Relaxed);
    let given_up = engine.shared_log.send_through(&engine, end, By::Flush).unwrap_err();
    assert_eq!((given_up.kind, engine.asked()), (ErrorKind::Refused, 0));
    assert_eq!(given_up.message, "the database closes: the flush is not committed");
    strike(&engine, 0, Effect::Fail(ErrorKind::Refused));
    let send = || engine.shared_log.send_through(&engine, end, By::Writer);
    let refused = send().unwrap_err();
    engine.is_closed.store(true, Ordering::Relaxed);
    assert_eq!((send().unwrap_err().to_string(), engine.asked()), (refused.to_string(), 1));
    engine.is_closed.store(false, Ordering::Relaxed);
    send().unwrap();
    assert_eq!(engine.acknowledged(), (1, end), "a writer is not held up by the end of flushes");
}

#[test]
fn each_part_of_what_is_large_is_created_once() {
    let engine = Engine::new();
    engine.blob_bytes.store(40 << 20, Ordering::Relaxed);
    let end = engine.append();
    strike(&engine, 1, Effect::Fail(ErrorKind::Refused));
    assert_eq!(engine.share(end).unwrap_err().kind, ErrorKind::Refused);
    assert_eq!((engine.acknowledged(), engine.asked()), ((1, Position(0)), 2), "a part is nothing whole");
    engine.share(end).unwrap();
    assert_eq!((engine.acknowledged(), engine.asked()), ((3, end), 4));
    let bytes: Vec<u64> = engine.listed().into_iter().map(|(_, bytes)| bytes >> 20).collect();
    assert_eq!(bytes, [16, 16, 8]);
}

#[test]
fn log_objects_are_named_by_one_edit_and_those_in_tables_by_the_next() {
    let engine = Engine::new();
    let first = engine.append();
    engine.share(first).unwrap();
    let named = |first| Some(NamedObjects { generation: GENERATION, first, cut: POSITION_END });
    assert_eq!(engine.named(), named(0));
    engine.roll(GRANULE_BYTES);
    let second = engine.append();
    // Nothing more is said, as long as the log is needed from its begin.
    fail_once(&engine.faulty, Operation::Publish, "manifest-*", ErrorKind::Io);
    engine.share(second).unwrap();
    assert!(engine.shared_log.unneeded(Position(0)).is_none());
    let unneeded = engine.shared_log.unneeded(engine.log.active().base()).unwrap();
    assert_eq!(Some(unneeded.named), named(1));
    engine.shared_log.remove_unneeded(&engine, unneeded);
    assert_eq!(engine.removed.lock().unwrap()[..], [(log_object(GENERATION, 0), false)]);
}

#[test]
fn many_small_log_objects_become_one() {
    let engine = Engine::new();
    for _ in 0..999 {
        engine.share(engine.append()).unwrap();
    }
    assert!(!engine.shared_log.has_too_many(&engine));
    let end = engine.append();
    engine.share(end).unwrap();
    assert!(engine.shared_log.has_too_many(&engine));
    engine.shared_log.merge(&engine).unwrap();
    let removed = engine.removed.lock().unwrap();
    assert_eq!((removed.len(), engine.named().map(|named| named.first)), (1000, Some(1000)));
    assert!(!engine.shared_log.has_too_many(&engine));
    // It has what the others had.
    let frames = |(_, bytes): &(u64, u64)| bytes - 64 - 80;
    let (last, before) = (engine.listed(), engine.listed());
    let (last, before) = (last.last().map(frames), before[..1000].iter().map(frames).sum());
    assert_eq!((last, engine.shared_log.through()), (Some(before), end));
}

#[test]
fn what_a_flush_leaves_is_sent_where_a_batch_may_be_divided() {
    let engine = Engine::new();
    let end = append(&engine.log);
    let before_flush = || engine.shared_log.send_before_flush(&engine, end, Position(0));
    before_flush().unwrap();
    assert_eq!(engine.asked(), 0, "no batch may be divided, and no other machine looks for log objects");
    engine.share(end).unwrap();
    let end = append(&engine.log);
    engine.shared_log.send_before_flush(&engine, end, Position(0)).unwrap();
    assert_eq!((engine.acknowledged(), engine.log.durable_through()), ((2, end), end));
}

/// Otherwise a write that finds itself in a log object is acknowledged before this machine has it.
#[test]
fn nothing_is_sent_that_is_not_on_the_device() {
    let engine = Engine::new();
    let synced = engine.append();
    let published = append(&engine.log);
    engine.shared_log.send_through(&engine, synced, By::Writer).unwrap();
    assert_eq!((engine.acknowledged(), engine.log.durable_through()), ((1, synced), synced));
    engine.share(published).unwrap();
    assert_eq!((engine.acknowledged(), engine.log.durable_through()), ((2, published), published));
}
