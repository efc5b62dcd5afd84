//! When groups are named, and when they go.

mod engine; // whose log they have
mod sending;
mod restoring;

use std::sync::atomic::Ordering;

use firn_format::Position;
use firn_format::file_name;
use firn_format::group::GROUP_HEADER_BYTES;
use firn_format::key::POSITION_END;

use super::{Groups, NamedGroups, Older, stale};

#[test]
fn groups_are_named_once_they_have_all_that_was_recovered() {
    let older =
        Older { generation: 1, names: vec![file_name::group(1, 0)], next: 1, needed_to: Position(100) };
    let groups = Groups::new((7, 2), true, Some(older), (Position(100), Position(0)));
    groups.lock_sent().own.push_back((0, Position(50)));
    groups.through.store(50, Ordering::Release);
    // A drain that needs the first half alone.
    assert!(groups.unneeded(Position(0)).is_none());
    groups.through.store(100, Ordering::Release);
    let naming = groups.unneeded(Position(0)).unwrap();
    assert_eq!(naming.named, NamedGroups { generation: 2, first: 0, cut: POSITION_END });
    assert_eq!(groups.forget(naming), [file_name::group(1, 0)]);
    assert!(groups.unneeded(Position(0)).is_none() && groups.unneeded(Position(50)).is_some());
}

#[test]
fn of_an_opening_before_ends_stay_and_the_rest_goes_once_all_is_in_tables() {
    let header = GROUP_HEADER_BYTES as u64;
    let files =
        [(1, 3, 500), (1, 4, header), (2, 5, 500), (2, 6, 500), (2, 7, header), (3, 0, 500), (4, 0, 500)]
            .map(|(generation, number, bytes)| (file_name::group(generation, number), bytes));
    let named = NamedGroups { generation: 2, first: 6, cut: POSITION_END };
    let older = Older { generation: 2, names: Vec::new(), next: 6, needed_to: Position(0) };
    let groups = Groups::new((7, 3), true, Some(older), (Position(0), Position(0)));
    let stale_now = |groups: &Groups| -> Vec<String> {
        let stale = stale(&files, Some(groups.needed_of(named)), 3);
        stale.into_iter().map(str::to_owned).collect()
    };
    let (first, second) = (file_name::group(1, 3), file_name::group(2, 5));
    assert_eq!(stale_now(&groups), [first.clone(), second.clone()]);
    let over = groups.unneeded(Position(0)).unwrap();
    assert!(groups.forget(over).is_empty());
    assert_eq!(stale_now(&groups), [first, second, file_name::group(2, 6)]);
}
