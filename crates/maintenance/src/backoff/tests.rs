//! Which units may begin after which failures.

use std::time::Duration;

use firn_engine::{Error, ErrorKind};

use super::{Backoff, Room};

const SECOND: Duration = Duration::from_secs(1);

fn full() -> Error {
    Error::new(ErrorKind::Retry, "the disk is full")
}

#[test]
fn each_failure_after_another_rests_twice_as_long_up_to_a_limit() {
    let mut backoff = Backoff::default();
    let mut now = Duration::ZERO;
    for rest in [1, 2, 4, 8, 16, 30, 30] {
        backoff.rest('a', full(), now);
        let over = now + SECOND * rest;
        assert!(!backoff.may_try('a', over - Duration::from_nanos(1)), "after {rest} s");
        assert!(backoff.may_try('a', over), "after {rest} s");
        now = over;
    }
    backoff.note_done('a');
    assert!(!backoff.has_failed('a'));
    backoff.rest('a', full(), now);
    assert!(backoff.may_try('a', now + SECOND), "it begins anew");
}

#[test]
fn a_kind_that_rests_holds_up_no_other() {
    let mut backoff = Backoff::default();
    backoff.refuse('a', Room::None, full(), Duration::ZERO);
    assert!(!backoff.may_try('a', Duration::ZERO) && backoff.may_try('b', Duration::ZERO));
    assert!(backoff.may_write(Duration::ZERO) && !backoff.is_refused());
    assert_eq!(backoff.refusals(|kind| *kind == 'b').count(), 0);
    backoff.forget(|kind| *kind == 'b');
    assert!(backoff.has_failed('a'));
    backoff.forget(|kind| *kind == 'a');
    assert!(backoff.may_try('a', Duration::ZERO));
}

#[test]
fn room_that_is_left_does_not_hold_up_what_has_room_kept_for_it() {
    let mut backoff = Backoff::default();
    backoff.refuse('a', Room::Left, full(), Duration::ZERO);
    assert!(!backoff.may_write(Duration::ZERO) && backoff.may_use_kept_room(Duration::ZERO));
    assert!(backoff.kept_refusal().is_none() && backoff.is_refused());
    backoff.forget_room();
    backoff.refuse('a', Room::Kept, full(), Duration::ZERO);
    assert!(!backoff.may_write(Duration::ZERO) && !backoff.may_use_kept_room(Duration::ZERO));
    assert!(backoff.may_write(SECOND), "it is tried again by itself");
    backoff.forget_kept_room();
    assert!(!backoff.is_refused() && backoff.may_write(Duration::ZERO));
}

#[test]
fn what_is_gone_holds_up_nothing_and_is_not_told() {
    for room in [Room::Left, Room::Kept] {
        let mut backoff = Backoff::default();
        backoff.refuse('a', room, full(), Duration::ZERO);
        backoff.rest('a', full(), Duration::ZERO);
        backoff.rest('b', full(), Duration::ZERO);
        assert_eq!(backoff.refusals(|_| true).count(), 3);
        assert_eq!(backoff.refusals(|kind| *kind == 'b').count(), 1, "room is of the kind that found none");
        backoff.forget_gone(|kind| *kind == 'c');
        assert!(backoff.is_refused() && backoff.has_failed('a'));
        backoff.forget_gone(|kind| *kind == 'a');
        assert!(!backoff.is_refused() && backoff.may_write(Duration::ZERO));
        assert!(!backoff.has_failed('a') && backoff.has_failed('b'));
    }
}

#[test]
fn what_a_kind_that_rests_was_refused_says_nothing_of_others() {
    let mut backoff = Backoff::default();
    backoff.rest('a', full(), Duration::ZERO);
    backoff.refuse('a', Room::Left, full(), Duration::ZERO);
    assert!(backoff.may_write(Duration::ZERO));
    backoff.refuse('a', Room::Left, full(), SECOND);
    assert!(!backoff.may_write(SECOND), "it does not rest any more");
}
