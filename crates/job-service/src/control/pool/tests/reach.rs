//! Workers that do not reach a location, and what is stopped for which job.

use super::*;

/// Deep work of `bytes`.
fn deep(bytes: u64) -> Order {
    Order { lane: Lane::Deep, bytes, ..order() }
}

fn far() -> Order {
    Order { location: "/far".to_owned(), ..order() }
}

fn unreached(pool: &mut Pool, now: Duration, worker: u128, lease: &Lease) {
    assert!(finish(pool, now, worker, lease, failed(FailureKind::Unavailable)));
}

#[test]
fn a_worker_that_does_not_reach_a_location_is_left_alone_there_and_nobody_waits_for_it() {
    let mut pool = pool();
    let mut offered = Vec::new();
    for number in 0..100 {
        // Ten jobs a second, each of which no other worker can have.
        let now = Duration::from_millis(100 * number);
        pool.hear(now, profile(A, 1), &[]);
        pool.submit(now, key(number), far()).unwrap();
        for lease in pool.take(now, A).leases {
            offered.push(number);
            unreached(&mut pool, now, A, &lease);
        }
        pool.tick(now);
        let end = end_of(&mut pool, now, number).unwrap().outcome;
        let Outcome::Failed(Failure { kind: FailureKind::Unavailable, message }) = end else { panic!() };
        assert!(message.contains("no luck"), "{message}");
        // What it reaches it gets.
        pool.submit(now, key(1000 + number), order()).unwrap();
        let near = only(pool.take(now, A));
        assert!(finish(&mut pool, now, A, &near, done()));
    }
    // After 0.5, 1, 2 and 4 seconds.
    assert_eq!(offered, [0, 5, 15, 35, 75]);
    assert_eq!(super::rows(&pool, seconds(10)).workers[0].failing, "5 failed at /far: no luck");
    // Others that reach it are waited for.
    pool.hear(seconds(10), profile(A, 1), &[]);
    pool.hear(seconds(10), profile(B, 1), &[]);
    for number in [500, 501] {
        pool.submit(seconds(10), key(number), far()).unwrap();
    }
    let lease = only(pool.take(seconds(10), B));
    pool.tick(seconds(10));
    assert_eq!(pool.take(seconds(10), A), Pulled::default());
    assert!(finish(&mut pool, seconds(11), B, &lease, done()));
    let lease = only(pool.take(seconds(11), B));
    assert!(finish(&mut pool, seconds(11), B, &lease, done()));
    // Once it reaches the location it is as good as any.
    pool.hear(seconds(16), profile(A, 2), &[]);
    pool.hear(seconds(16), Profile { is_draining: true, ..profile(B, 1) }, &[]);
    pool.submit(seconds(16), key(502), far()).unwrap();
    let lease = only(pool.take(seconds(16), A));
    assert!(finish(&mut pool, seconds(16), A, &lease, done()));
    assert_eq!(super::rows(&pool, seconds(16)).workers[0].failing, "");
}

#[test]
fn a_location_that_one_does_not_reach_and_another_cannot_read_fails_for_what_can_be_read() {
    let mut pool = pool();
    let mut now = seconds(0);
    let mut number = 0;
    // B's jobs fail until it gets none for longer than any job waits.
    let end = loop {
        (number, now) = (number + 1, now + seconds(1));
        pool.submit(now, key(number), far()).unwrap();
        let mut offered = 0;
        let end = loop {
            for worker in [A, B] {
                pool.hear(now, profile(worker, 1), &[]);
                for lease in pool.take(now, worker).leases {
                    offered += 1;
                    let kind = if worker == A { FailureKind::Unavailable } else { FailureKind::Storage };
                    assert!(finish(&mut pool, now, worker, &lease, failed(kind)));
                }
            }
            pool.tick(now);
            if let Some(end) = end_of(&mut pool, now, number) {
                break end.outcome;
            }
            now += Duration::from_millis(100);
        };
        let Outcome::Failed(failure) = end else { panic!() };
        // Both are left alone.
        if offered == 0 {
            break failure;
        }
        assert!(number < 100, "{failure:?}");
    };
    assert_eq!(end.kind, FailureKind::Storage);
    assert!(end.message.starts_with("jobs at /far fail at all workers"), "{end:?}");
}

#[test]
fn jobs_wait_for_one_that_finds_out() {
    let mut pool = pool();
    let mut now = seconds(0);
    // A's jobs fail until it gets none for 8 s, longer than any job waits.
    for (number, pause) in (0..).zip([500, 1000, 2000, 4000, 8000]) {
        pool.hear(now, profile(A, 2), &[]);
        pool.submit(now, key(number), order()).unwrap();
        let lease = only(pool.take(now, A));
        assert!(finish(&mut pool, now, A, &lease, failed(FailureKind::Storage)));
        pool.cancel(now, key(number));
        now += Duration::from_millis(pause);
    }
    pool.hear(now, profile(A, 2), &[]);
    for number in [10, 11] {
        pool.submit(now, key(number), order()).unwrap();
    }
    let probe = only(pool.take(now, A));
    // While that runs nothing is known, though the worker gets no other for longer than any job
    // waits.
    pool.tick(now);
    let other = if probe.key == key(10) { 11 } else { 10 };
    assert_eq!(end_of(&mut pool, now, other), None);
    pool.hear(now + seconds(1), profile(A, 2), &[held(&probe)]);
    assert!(finish(&mut pool, now + seconds(1), A, &probe, done()));
    assert_eq!(only(pool.take(now + seconds(1), A)).key, key(other));
}

#[test]
fn nothing_is_stopped_for_what_would_not_begin() {
    let mut pool = pool();
    // Jobs at the location fail at A, which gets the next there from 0.5 s on.
    pool.hear(seconds(0), profile(A, 4), &[]);
    pool.submit(seconds(0), key(0), far()).unwrap();
    let lease = only(pool.take(seconds(0), A));
    assert!(finish(&mut pool, seconds(0), A, &lease, failed(FailureKind::Storage)));
    pool.cancel(seconds(0), key(0));
    // Deep work of other clients, which takes minutes, in three of its four slots; L0 work that is
    // owed nothing has the fourth.
    for number in 1..4 {
        let key = JobKey { client: 1, number };
        pool.submit(seconds(0), key, Order { tenant: "other".to_owned(), ..deep(64 << 30) }).unwrap();
    }
    let slow = Order { tenant: "other".to_owned(), bytes: 64 << 30, ..order() };
    pool.submit(seconds(0), JobKey { client: 1, number: 9 }, slow).unwrap();
    let leases = pool.take(seconds(0), A).leases;
    assert_eq!(leases.len(), 4);
    let all: Vec<Held> = leases.iter().map(held).collect();
    // Two jobs that writers wait for, both at the location where one alone finds out.
    let late = Order { stalls_in: Some(seconds(2)), bytes: 1 << 30, ..far() };
    for number in [11, 12] {
        pool.submit(seconds(0), key(number), late.clone()).unwrap();
    }
    pool.tick(seconds(1));
    let stop = pool.take(seconds(1), A).stop;
    assert_eq!((stop.len(), pool.figures(seconds(1)).counts.preempted), (1, 1), "{stop:?}");
    let left: Vec<Held> = all.into_iter().filter(|held| held.token != stop[0]).collect();
    pool.hear(seconds(1), profile(A, 4), &left);
    let probe = only(pool.take(seconds(1), A));
    pool.tick(seconds(2));
    assert_eq!(pool.take(seconds(2), A), Pulled::default(), "while it finds out");
    assert_eq!(pool.figures(seconds(2)).counts.preempted, 1);
    assert!(finish(&mut pool, seconds(3), A, &probe, done()));
    let keys = [key(11), key(12)];
    let second = only(pool.take(seconds(3), A)).key;
    assert!(keys.contains(&probe.key) && keys.contains(&second) && probe.key != second);
}
