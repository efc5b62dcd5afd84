//! Workers with jobs that fail for reasons that may pass.

use super::*;

fn fails(pool: &mut Pool, now: Duration, worker: u128, lease: &Lease) {
    assert!(finish(pool, now, worker, lease, failed(FailureKind::Storage)));
}

#[test]
fn failures_that_may_pass_are_tried_again_and_others_are_not() {
    let mut pool = pool();
    let _nothing = pull(&mut pool, seconds(0), A);
    let mut tried = Vec::new();
    let kinds = [FailureKind::Storage, FailureKind::Invalid, FailureKind::NotConserved, FailureKind::Corrupt];
    for (number, kind) in (1..).zip(kinds) {
        // What the one before says of the worker is long forgotten.
        let begin = seconds(100 * number);
        pool.hear(begin, profile(A, 1), &[]);
        pool.tick(begin);
        pool.submit(begin, key(number), order()).unwrap();
        let mut attempts = 0;
        let mut now = begin;
        while end_of(&mut pool, now, number).is_none() {
            pool.hear(now, profile(A, 1), &[]);
            for lease in pool.take(now, A).leases {
                attempts += 1;
                assert!(finish(&mut pool, now, A, &lease, failed(kind)));
                assert_eq!(pool.take(now, A), Pulled::default(), "not at once");
            }
            now += Duration::from_millis(100);
            pool.tick(now);
        }
        tried.push((attempts, (now - begin).as_millis()));
    }
    // 500 ms and 1 s of pause.
    assert_eq!(tried, [(3, 1600), (1, 100), (1, 100), (1, 100)]);
    assert_eq!(
        rows(&pool, seconds(401)).workers[0].failing,
        "",
        "damaged files say nothing of who reads them"
    );
}

#[test]
fn a_job_that_failed_at_one_worker_waits_for_another() {
    // The default would wait for the other one anyhow, which it believes to be faster.
    let mut pool = Pool::new(Limits { scheduler: Scheduler::Fifo, ..Limits::default() }, 1);
    let _nothing = (pull(&mut pool, seconds(0), A), pull(&mut pool, seconds(0), B));
    let elsewhere = Order { location: "/elsewhere".to_owned(), ..order() };
    for (number, order) in [(1, elsewhere.clone()), (2, order())] {
        pool.submit(seconds(0), key(number), order).unwrap();
    }
    let leases = [only(pool.take(seconds(0), A)), only(pool.take(seconds(0), B))];
    let (second, (failing, other)) = match leases[0].key == key(2) {
        true => (&leases[0], (A, B)),
        false => (&leases[1], (B, A)),
    };
    let first = leases.iter().find(|lease| lease.key == key(1)).unwrap();
    fails(&mut pool, seconds(0), failing, second);
    // Files at other locations are another matter.
    pool.submit(seconds(0), key(3), elsewhere).unwrap();
    let third = only(pool.take(seconds(0), failing));
    assert!(finish(&mut pool, seconds(1), failing, &third, done()));
    for now in 1..8 {
        pool.hear(seconds(now), profile(other, 1), &[held(first)]);
        assert_eq!(pull(&mut pool, seconds(now), failing), Pulled::default(), "the other one is tried first");
        pool.tick(seconds(now));
    }
    assert!(finish(&mut pool, seconds(8), other, first, done()));
    let again = only(pool.take(seconds(8), other));
    assert!(finish(&mut pool, seconds(8), other, &again, done()));
    let end = end_of(&mut pool, seconds(8), 2).unwrap();
    assert_eq!((end.outcome, end.worker), (done(), format!("w{other}")));
}

#[test]
fn a_worker_whose_jobs_all_fail_is_asked_less_and_less_and_trusted_again_once_one_is_done() {
    let mut pool = pool();
    let (mut submitted, mut done_by_b, mut asked, mut busy) = (0, 0, Vec::new(), None::<(Duration, Lease)>);
    for tick in 0..1200_u64 {
        let now = Duration::from_millis(100 * tick);
        while submitted < done_by_b + 5 {
            submitted += 1;
            pool.submit(now, key(submitted), order()).unwrap();
        }
        pool.hear(now, profile(A, 2), &[]);
        let in_hand: Vec<Held> = busy.iter().map(|(_, lease)| held(lease)).collect();
        pool.hear(now, profile(B, 1), &in_hand);
        for lease in pool.take(now, A).leases {
            asked.push(tick / 10);
            fails(&mut pool, now, A, &lease);
        }
        if let Some((begin, lease)) = busy.take() {
            match now - begin >= seconds(1) {
                true => {
                    assert!(finish(&mut pool, now, B, &lease, done()));
                    done_by_b += 1;
                    assert_eq!(end_of(&mut pool, now, lease.key.number).unwrap().outcome, done());
                    let all: Vec<u64> = (1..=submitted).collect();
                    pool.follow(now, CLIENT, &all, &[lease.key.number]);
                }
                false => busy = Some((begin, lease)),
            }
        }
        if let Some(lease) = pool.take(now, B).leases.into_iter().next() {
            busy = Some((now, lease));
        }
        pool.tick(now);
    }
    assert!(done_by_b >= 100, "{done_by_b} jobs in two minutes, one a second");
    // Two at once, which is one failure, and then one at a time, after 0.5, 1, 2, 4, 8, 16, 32 and
    // 32 seconds.
    assert_eq!(asked, [0, 0, 0, 1, 3, 7, 15, 31, 63, 95]);
    let now = seconds(121);
    let failing = |pool: &Pool| rows(pool, now).workers[0].failing.clone();
    assert_eq!(failing(&pool), "9 failed at /shared: no luck");
    // An attempt that was given back says nothing, and the next begins at once; an attempt that is
    // done ends it.
    pool.hear(seconds(130), profile(A, 2), &[]);
    let lease = only(pool.take(seconds(130), A));
    assert!(finish(&mut pool, seconds(130), A, &lease, failed(FailureKind::Cancelled)));
    pool.hear(seconds(130), profile(A, 2), &[]);
    let lease = only(pool.take(seconds(130), A));
    pool.hear(seconds(130), profile(A, 2), &[held(&lease)]);
    assert_eq!(pool.take(seconds(130), A), Pulled::default(), "one at a time");
    assert!(finish(&mut pool, seconds(131), A, &lease, done()));
    assert_eq!(failing(&pool), "");
    pool.hear(seconds(131), profile(A, 2), &[]);
    assert_eq!(pool.take(seconds(131), A).leases.len(), 2);
}

#[test]
fn jobs_that_fail_together_are_one_failure_and_one_that_says_nothing_ends_no_pause() {
    let mut pool = pool();
    pool.hear(seconds(0), profile(A, 8), &[]);
    for number in 0..8 {
        pool.submit(seconds(0), key(number), order()).unwrap();
    }
    let leases = pool.take(seconds(0), A).leases;
    assert_eq!(leases.len(), 8);
    for lease in &leases[..7] {
        fails(&mut pool, seconds(1), A, lease);
    }
    assert_eq!(rows(&pool, seconds(1)).workers[0].failing, "1 failed at /shared: no luck");
    assert!(finish(&mut pool, seconds(1), A, &leases[7], failed(FailureKind::Cancelled)));
    pool.hear(seconds(1), profile(A, 8), &[]);
    assert_eq!(pool.take(seconds(1), A), Pulled::default(), "the pause goes on");
    pool.tick(seconds(2));
    assert_eq!(
        pool.take(seconds(2), A).leases.len(),
        1,
        "half a second after the failure, and one at a time"
    );
}

#[test]
fn where_everybody_fails_for_long_jobs_go_back_at_once_and_before_that_they_wait() {
    let mut pool = pool();
    let mut now = seconds(0);
    let mut ends = Vec::new();
    for number in 0..40 {
        pool.hear(now, profile(A, 1), &[]);
        pool.submit(now, key(number), order()).unwrap();
        let begun = now;
        let end = loop {
            pool.hear(now, profile(A, 1), &[]);
            for lease in pool.take(now, A).leases {
                fails(&mut pool, now, A, &lease);
            }
            pool.tick(now);
            if let Some(end) = end_of(&mut pool, now, number) {
                break end;
            }
            now += Duration::from_millis(100);
        };
        assert!(matches!(&end.outcome, Outcome::Failed(failure) if failure.kind == FailureKind::Storage));
        ends.push((now - begun).as_secs_f64());
        now += seconds(1);
    }
    assert!(ends.iter().all(|waited| *waited <= 10.0), "{ends:?}");
    assert!(ends.iter().filter(|waited| **waited == 0.0).count() > 20, "most are told at once: {ends:?}");
}

#[test]
fn who_has_failed_at_a_job_gets_it_again_while_nobody_else_may() {
    let mut pool = pool();
    let ms = Duration::from_millis;
    let _nothing = pull(&mut pool, seconds(0), B);
    pool.submit(seconds(0), key(1), order()).unwrap();
    for at in [ms(0), ms(500), ms(1500)] {
        pool.hear(at, profile(B, 1), &[]);
        pool.tick(at);
        let lease = only(pool.take(at, B));
        fails(&mut pool, at, B, &lease);
    }
    // B has failed three times and gets nothing until 3.5 s.
    pool.submit(seconds(2), key(2), order()).unwrap();
    let first = only(pull(&mut pool, seconds(2), A));
    fails(&mut pool, seconds(2), A, &first);
    pool.hear(ms(2600), profile(A, 1), &[]);
    pool.tick(ms(2600));
    assert_eq!(only(pool.take(ms(2600), A)).key, key(2));
}

#[test]
fn what_was_said_of_a_location_is_forgotten_a_minute_after_its_pause() {
    let mut pool = pool();
    let _nothing = pull(&mut pool, seconds(0), A);
    pool.submit(seconds(0), key(1), order()).unwrap();
    let lease = only(pool.take(seconds(0), A));
    fails(&mut pool, seconds(0), A, &lease);
    pool.cancel(seconds(0), key(1));
    let failing = |pool: &mut Pool, now| {
        pool.hear(now, profile(A, 1), &[]);
        pool.tick(now);
        rows(pool, now).workers[0].failing.clone()
    };
    assert_eq!(failing(&mut pool, seconds(60)), "1 failed at /shared: no luck");
    assert_eq!(failing(&mut pool, seconds(61)), "");
}

#[test]
fn a_job_that_fails_everywhere_says_what_failed() {
    let mut pool = pool();
    let _nothing = (pull(&mut pool, seconds(0), A), pull(&mut pool, seconds(0), B));
    pool.submit(seconds(0), key(1), order()).unwrap();
    let first = only(pool.take(seconds(0), A));
    assert!(finish(&mut pool, seconds(0), A, &first, failed(FailureKind::Rejected)));
    let mut tries = 0;
    let mut now = seconds(0);
    let end = loop {
        pool.hear(now, profile(A, 1), &[]);
        for lease in pull(&mut pool, now, B).leases {
            tries += 1;
            fails(&mut pool, now, B, &lease);
        }
        pool.tick(now);
        if let Some(end) = end_of(&mut pool, now, 1) {
            break end;
        }
        now += Duration::from_millis(100);
    };
    assert_eq!(tries, 3);
    assert!(matches!(end.outcome, Outcome::Failed(Failure { kind: FailureKind::Storage, .. })), "{end:?}");
    // And once the worker that failed has gone, the one left has refused it: the last that is known
    // was the store.
    let (now, mut left) = (now + seconds(40), [A, B]);
    for worker in left {
        pool.hear(now, profile(worker, 1), &[]);
    }
    pool.submit(now, key(2), order()).unwrap();
    let first = left.into_iter().find_map(|id| Some((id, pool.take(now, id).leases.into_iter().next()?)));
    let (worker, lease) = first.unwrap();
    assert!(finish(&mut pool, now, worker, &lease, failed(FailureKind::Rejected)));
    left.sort_by_key(|id| *id == worker);
    let lease = only(pool.take(now, left[0]));
    fails(&mut pool, now, left[0], &lease);
    for now in (1..10).map(|after| now + seconds(after)) {
        pool.hear(now, Profile { is_draining: true, ..profile(left[0], 1) }, &[]);
        pool.hear(now, profile(left[1], 1), &[]);
        pool.tick(now);
    }
    let end = end_of(&mut pool, now + seconds(10), 2).unwrap().outcome;
    assert!(matches!(end, Outcome::Failed(Failure { kind: FailureKind::Storage, .. })), "{end:?}");
}
