//! When log objects are named, and when they go.

mod engine; // whose log they have
mod sending;
mod restoring;

use std::sync::atomic::Ordering;

use firn_format::Position;
use firn_format::file_name;
use firn_format::key::POSITION_END;
use firn_format::log_object::LOG_OBJECT_HEADER_BYTES;

use super::{NamedObjects, Older, SharedLog, stale};

#[test]
fn log_objects_are_named_once_they_have_all_that_was_recovered() {
    let older =
        Older { generation: 1, names: vec![file_name::log_object(1, 0)], next: 1, needed_to: Position(100) };
    let shared_log = SharedLog::new((7, 2), true, Some(older), (Position(100), Position(0)));
    shared_log.lock_sent().own.push_back((0, Position(50)));
    shared_log.through.store(50, Ordering::Release);
    // A flush that needs the first half alone.
    assert!(shared_log.unneeded(Position(0)).is_none());
    shared_log.through.store(100, Ordering::Release);
    let naming = shared_log.unneeded(Position(0)).unwrap();
    assert_eq!(naming.named, NamedObjects { generation: 2, first: 0, cut: POSITION_END });
    assert_eq!(shared_log.forget(naming), [file_name::log_object(1, 0)]);
    assert!(shared_log.unneeded(Position(0)).is_none() && shared_log.unneeded(Position(50)).is_some());
}

#[test]
fn of_an_opening_before_ends_stay_and_the_rest_goes_once_all_is_in_tables() {
    let header = LOG_OBJECT_HEADER_BYTES as u64;
    let files =
        [(1, 3, 500), (1, 4, header), (2, 5, 500), (2, 6, 500), (2, 7, header), (3, 0, 500), (4, 0, 500)]
            .map(|(generation, number, bytes)| (file_name::log_object(generation, number), bytes));
    let named = NamedObjects { generation: 2, first: 6, cut: POSITION_END };
    let older = Older { generation: 2, names: Vec::new(), next: 6, needed_to: Position(0) };
    let shared_log = SharedLog::new((7, 3), true, Some(older), (Position(0), Position(0)));
    let stale_now = |shared_log: &SharedLog| -> Vec<String> {
        let stale = stale(&files, Some(shared_log.needed_of(named)), 3);
        stale.into_iter().map(str::to_owned).collect()
    };
    let (first, second) = (file_name::log_object(1, 3), file_name::log_object(2, 5));
    assert_eq!(stale_now(&shared_log), [first.clone(), second.clone()]);
    let over = shared_log.unneeded(Position(0)).unwrap();
    assert!(shared_log.forget(over).is_empty());
    assert_eq!(stale_now(&shared_log), [first, second, file_name::log_object(2, 6)]);
}
