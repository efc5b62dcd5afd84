//! Answers that a worker never had: its connection broke, or it began to drain just then.

use super::*;

/// A pool that has handed job 1 to A, which has not named it yet.
fn handed() -> (Pool, Lease) {
    let mut pool = pool();
    let _nothing = pull(&mut pool, seconds(0), A);
    pool.submit(seconds(0), key(1), order()).unwrap();
    let lease = only(pool.take(seconds(0), A));
    (pool, lease)
}

#[test]
fn whoever_asks_again_without_it_has_it_anew_at_once() {
    let (mut pool, lost) = handed();
    let lease = only(pull(&mut pool, seconds(1), A));
    assert_eq!(lease.key, key(1));
    assert_ne!(lease.token, lost.token, "another attempt: its files have names of their own");
    // The first answer came after all, and late: it does not count, and the second does.
    assert_eq!(pool.beat(seconds(1), A, &[held(&lost), held(&lease)]), Some(vec![lost.token]));
    assert!(finish(&mut pool, seconds(2), A, &lease, done()));
    assert_eq!(end_of(&mut pool, seconds(2), 1).unwrap().outcome, done());
    let Figures { counts, .. } = pool.figures(seconds(2));
    assert_eq!((counts.expired_silent, counts.given_up), (0, ByFailure::default()), "it is nobody's failure");
}

#[test]
fn whoever_drains_just_then_leaves_it_to_another() {
    let (mut pool, _lost) = handed();
    let _nothing = pull(&mut pool, seconds(1), B);
    pool.hear(seconds(1), Profile { is_draining: true, ..profile(A, 1) }, &[]);
    assert_eq!(pool.take(seconds(1), A), Pulled::default());
    assert_eq!(only(pool.take(seconds(1), B)).key, key(1), "without waiting for the lease to end");
}

/// What was named once may have ended, with a word that is on its way.
#[test]
fn what_was_named_is_not_taken_for_lost() {
    let (mut pool, lease) = handed();
    assert_eq!(pool.beat(seconds(1), A, &[held(&lease)]), Some(vec![]));
    let _nothing = pull(&mut pool, seconds(1), B);
    assert_eq!(pull(&mut pool, seconds(1), A), Pulled::default());
    assert_eq!(pool.take(seconds(1), B), Pulled::default());
    assert!(finish(&mut pool, seconds(2), A, &lease, done()));
}

/// A job that waits to be handed out has no answer that could be lost.
#[test]
fn what_was_not_handed_out_yet_comes_with_the_next_answer() {
    let mut pool = pool();
    let _nothing = pull(&mut pool, seconds(0), A);
    pool.submit(seconds(0), key(1), order()).unwrap();
    let attempts = |pool: &Pool| pool.jobs.all().map(|job| job.attempts).sum::<u32>();
    assert_eq!(attempts(&pool), 1);
    assert_eq!(only(pull(&mut pool, seconds(1), A)).key, key(1));
    assert_eq!(attempts(&pool), 1);
}
