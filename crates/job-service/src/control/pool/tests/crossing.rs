//! What workers say of attempts that they have just been told to stop.

use super::*;

fn deep(bytes: u64) -> Order {
    Order { lane: Lane::Deep, bytes, ..order() }
}

/// A pool in which a deep job of the worker A was stopped for L0 work, and the lease of that deep
/// job.
fn preempted() -> (Pool, Lease) {
    let mut pool = pool();
    let _nothing = pull(&mut pool, seconds(0), A);
    pool.submit(seconds(0), key(1), deep(64 << 30)).unwrap();
    let lease = only(pool.take(seconds(0), A));
    pool.beat(seconds(1), A, &[held(&lease)]).unwrap();
    pool.submit(seconds(1), key(2), Order { stalls_in: Some(seconds(2)), ..order() }).unwrap();
    assert_eq!(pool.figures(seconds(1)).counts.preempted, 1);
    (pool, lease)
}

/// Which worker has job 1, by what people see.
fn holder(pool: &Pool, now: Duration) -> (JobState, String, u32) {
    let row = rows(pool, now).jobs.into_iter().find(|row| row.key == key(1)).unwrap();
    (row.state, row.worker, row.attempts)
}

#[test]
fn a_word_that_crosses_a_stop_takes_nothing_up_again() {
    let waits = (JobState::Waiting, String::new(), 1);
    // Before the stop is on its way, and after.
    for is_notified in [false, true] {
        let (mut pool, lease) = preempted();
        if is_notified {
            assert_eq!(pool.take(seconds(1), A).stop, [lease.token]);
        }
        let stop = pool.beat(seconds(1), A, &[held(&lease)]).unwrap();
        assert_eq!((holder(&pool, seconds(1)), stop), (waits.clone(), vec![lease.token]), "{is_notified}");
        // A worker whose answer was lost hears it again, however often.
        let stop = pool.beat(seconds(8), A, &[held(&lease)]).unwrap();
        assert_eq!((holder(&pool, seconds(8)), stop), (waits.clone(), vec![lease.token]), "{is_notified}");
    }
}

#[test]
fn a_word_that_crosses_an_end_takes_nothing_up_again() {
    for kind in [FailureKind::Cancelled, FailureKind::Storage, FailureKind::Rejected] {
        let mut pool = pool();
        let _nothing = pull(&mut pool, seconds(0), A);
        pool.submit(seconds(0), key(1), order()).unwrap();
        let lease = only(pool.take(seconds(0), A));
        // It drains, so that no worker has the job when the word comes.
        let drains = Profile { is_draining: true, ..profile(A, 1) };
        pool.hear(seconds(1), drains, &[held(&lease)]);
        assert!(finish(&mut pool, seconds(1), A, &lease, failed(kind)));
        pool.beat(seconds(1), A, &[held(&lease)]).unwrap();
        assert_eq!(holder(&pool, seconds(1)), (JobState::Waiting, String::new(), 1), "{kind:?}");
    }
}

#[test]
fn what_was_stopped_and_is_done_nevertheless_is_done() {
    let (mut pool, lease) = preempted();
    assert_eq!(pool.take(seconds(1), A).stop, [lease.token]);
    assert!(finish(&mut pool, seconds(1), A, &lease, done()));
    assert_eq!(end_of(&mut pool, seconds(1), 1).unwrap().outcome, done());
    // Unless another worker is at it.
    let (mut pool, lease) = preempted();
    pool.hear(seconds(1), profile(B, 2), &[]);
    let other = only(pool.take(seconds(1), B));
    assert_eq!(other.key, key(1));
    assert!(!finish(&mut pool, seconds(1), A, &lease, done()));
    assert!(finish(&mut pool, seconds(1), B, &other, done()));
}

#[test]
fn what_got_nowhere_is_not_taken_up_again_by_whoever_got_nowhere() {
    let mut pool = pool();
    let _nothing = pull(&mut pool, seconds(0), A);
    pool.submit(seconds(0), key(1), deep(1 << 30)).unwrap();
    let lease = only(pool.take(seconds(0), A));
    for now in 1..63 {
        pool.follow(seconds(now), CLIENT, &[1], &[]);
        assert_eq!(pool.beat(seconds(now), A, &[held(&lease)]), Some(vec![]), "{now}");
        pool.tick(seconds(now));
    }
    assert_eq!(pool.figures(seconds(62)).counts.expired_stuck, 1);
    assert_eq!(pool.beat(seconds(63), A, &[held(&lease)]), Some(vec![lease.token]));
    assert_eq!(holder(&pool, seconds(63)).0, JobState::Waiting);
}

#[test]
fn a_worker_that_was_silent_goes_on_with_what_nobody_else_has() {
    let mut pool = pool();
    let _nothing = pull(&mut pool, seconds(0), A);
    pool.submit(seconds(0), key(1), order()).unwrap();
    let lease = only(pool.take(seconds(0), A));
    pool.tick(seconds(11));
    assert_eq!(
        (holder(&pool, seconds(11)).0, pool.figures(seconds(11)).counts.expired_silent),
        (JobState::Waiting, 1)
    );
    // Which it is not told to drop with the same answer.
    pool.hear(seconds(12), profile(A, 1), &[held(&lease)]);
    assert_eq!(pool.take(seconds(12), A), Pulled::default());
    assert_eq!(holder(&pool, seconds(12)), (JobState::Running, "w1".to_owned(), 2));
    assert!(finish(&mut pool, seconds(13), A, &lease, done()));
}

#[test]
fn what_a_worker_had_already_counts_to_what_its_tenant_was_given() {
    const GIB: u64 = 1 << 30;
    let of = |tenant: &str, bytes| Order { tenant: tenant.to_owned(), ..deep(bytes) };
    let owed = |pool: &Pool, tenant: TenantId| pool.ledger.owed().get(&tenant).copied();
    for client_first in [false, true] {
        let mut pool = pool();
        // Both have more that waits.
        for (number, tenant) in [(11, "one"), (12, "other")] {
            pool.submit(seconds(0), key(number), of(tenant, GIB)).unwrap();
        }
        let one = pool.tenant("one");
        if client_first {
            pool.submit(seconds(0), key(1), of("one", 16 * GIB)).unwrap();
        }
        let token = Token(7);
        let (done_bytes, moved_bytes) = (0, 0);
        let had = Held { key: key(1), token, done_bytes, moved_bytes, is_syncing: false, is_waiting: false };
        // It takes no more, so that nothing else is given.
        pool.hear(seconds(1), Profile { is_draining: true, ..profile(A, 1) }, &[had]);
        if !client_first {
            pool.submit(seconds(1), key(1), of("one", 16 * GIB)).unwrap();
        }
        // It was given 16 GiB, and its share of that is half.
        assert_eq!(owed(&pool, one), Some(-8.0 * GIB as f64), "{client_first}");
        // And nothing if that is taken back: a quarter of its share is owed.
        let lease = Lease {
            key: key(1),
            token,
            location: String::new(),
            spec: Vec::new(),
            lane: Lane::Deep,
            waited: seconds(0),
        };
        assert!(finish(&mut pool, seconds(2), A, &lease, failed(FailureKind::Cancelled)));
        assert_eq!(owed(&pool, one), Some(2.0 * GIB as f64), "{client_first}");
    }
}
