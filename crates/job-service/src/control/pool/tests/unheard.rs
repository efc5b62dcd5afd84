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

/// A worker that loses each answer with a job in it, too large or unreadable, is not given the job
/// for ever.
#[test]
fn a_job_that_answers_are_lost_with_again_and_again_is_left_to_its_lease() {
    let (mut pool, mut lease) = handed();
    for now in [1, 2] {
        let next = only(pull(&mut pool, seconds(now), A));
        assert_ne!(next.token, std::mem::replace(&mut lease, next.clone()).token, "{now}");
    }
    for now in 3..12 {
        assert_eq!(pull(&mut pool, seconds(now), A), Pulled::default(), "{now}");
        pool.tick(seconds(now));
    }
    pool.tick(seconds(13));
    let Figures { counts, .. } = pool.figures(seconds(13));
    assert_eq!((counts.expired_silent, counts.given_up), (1, ByFailure::default()));
    // Once it is named all is as before.
    let lease = only(pull(&mut pool, seconds(15), A));
    assert_eq!(pool.beat(seconds(15), A, &[held(&lease)]), Some(vec![]));
    assert!(pool.jobs.all().all(|job| job.unheard == 0));
}

/// Nor is one left for long to a worker that drains, which is given nothing more.
#[test]
fn whoever_drains_after_answers_were_lost_leaves_its_jobs_to_others() {
    let (mut pool, _lost) = handed();
    for now in [1, 2] {
        let _lost = only(pull(&mut pool, seconds(now), A));
    }
    let _nothing = pull(&mut pool, seconds(2), B);
    pool.hear(seconds(3), Profile { is_draining: true, ..profile(A, 1) }, &[]);
    assert_eq!(only(pool.take(seconds(3), B)).key, key(1));
}

/// What was to find out whether a location can be read again has found out nothing.
#[test]
fn an_answer_that_was_lost_says_nothing_of_a_location() {
    let (mut pool, first) = handed();
    assert!(finish(&mut pool, seconds(0), A, &first, failed(FailureKind::Storage)));
    let _lost = only(pull(&mut pool, seconds(2), A));
    assert_eq!(only(pull(&mut pool, seconds(3), A)).key, key(1), "no pause of ten seconds");
}

/// A question on a connection that is gone is held for a while, and gets nothing that the newest
/// one would get.
#[test]
fn only_the_newest_question_is_answered() {
    let mut pool = pool();
    let first = pool.hear(seconds(0), profile(A, 1), &[]);
    let others = pool.hear(seconds(0), profile(B, 1), &[]);
    let second = pool.hear(seconds(1), profile(A, 1), &[]);
    for number in [1, 2] {
        pool.submit(seconds(1), key(number), order()).unwrap();
    }
    assert_eq!(pool.answer(seconds(1), first), Pulled::default());
    let lease = only(pool.answer(seconds(1), second));
    assert_ne!(only(pool.answer(seconds(1), others)).key, lease.key, "whatever others have asked");
    // Nor is it told what to stop.
    assert!(pool.cancel(seconds(1), lease.key));
    assert_eq!(pool.answer(seconds(1), first), Pulled::default());
    assert_eq!(pool.answer(seconds(1), second).stop, [lease.token]);
    // A worker that was forgotten and comes again has asked something else.
    pool.tick(seconds(100));
    pool.submit(seconds(100), key(3), order()).unwrap();
    assert_eq!(pool.answer(seconds(100), second), Pulled::default());
    let again = pool.hear(seconds(100), profile(A, 1), &[]);
    for question in [first, second] {
        assert_eq!(pool.answer(seconds(100), question), Pulled::default());
    }
    assert_eq!(only(pool.answer(seconds(100), again)).key, key(3));
}
