//! What is counted, and that it is true.

use super::*;

#[test]
fn figures_say_what_is_there_and_what_has_happened() {
    let mut pool = pool();
    let _nothing = pull(&mut pool, seconds(0), A);
    let deep = Order { lane: Lane::Deep, bytes: 7, tenant: "other".to_owned(), ..order() };
    pool.submit(seconds(0), key(1), order()).unwrap();
    pool.submit(seconds(2), key(2), deep.clone()).unwrap();
    let now = pool.figures(seconds(5));
    let l0 = ByLane { l0: 1, deep: 0 };
    assert_eq!((now.running, now.waiting), (l0, ByLane { l0: 0, deep: 1 }));
    assert_eq!((now.waiting_bytes, now.waiting_max, now.clients), (7, seconds(3), 1));
    assert_eq!(now.waiting_bytes_by_tenant, [(None, 7)].into(), "nothing was leased to it yet");
    assert_eq!(now.workers, Workers { ready: 1, slots: 1, ..Workers::default() });
    assert_eq!(now.counts.tenants().collect::<Vec<_>>(), [("db", 1 << 20)]);
    let lease = only(pool.take(seconds(5), A));
    assert!(finish(&mut pool, seconds(6), A, &lease, done()));
    let lease = only(pool.take(seconds(6), A));
    assert!(finish(&mut pool, seconds(6), A, &lease, failed(FailureKind::Storage)));
    // The worker of the next attempt is not heard of again, and then no worker takes the job.
    pool.beat(seconds(7), A, &[]);
    pool.tick(seconds(7));
    let _lease = only(pool.take(seconds(7), A));
    pool.follow(seconds(18), CLIENT, &[1, 2], &[]);
    pool.tick(seconds(18));
    let then = pool.figures(seconds(18));
    assert_eq!((then.done, then.workers.silent, then.workers.ready), (l0, 1, 0));
    assert_eq!(
        (then.waiting, then.waiting_bytes_by_tenant),
        (ByLane { l0: 0, deep: 1 }, [(Some("other".to_owned()), 7)].into())
    );
    let Counts { submitted, leased, expired_silent, expired_stuck, given_up, .. } = then.counts;
    assert_eq!((submitted, leased), (ByLane { l0: 1, deep: 1 }, 3));
    assert_eq!(
        (expired_silent, expired_stuck, given_up),
        (1, 0, ByFailure { storage: 1, ..ByFailure::default() })
    );
    pool.tick(seconds(60));
    let end = pool.figures(seconds(60));
    let deep = ByLane { l0: 0, deep: 1 };
    assert_eq!((end.counts.done, end.counts.failed), (l0, ByLane::default()));
    assert_eq!((end.counts.abandoned, end.clients), (deep, 0), "its client was not heard of for 30 s");
}

#[test]
fn so_many_tenants_are_counted_by_name_and_the_others_together() {
    let mut pool = pool();
    for number in 0..TENANTS_MAX as u64 + 5 {
        let order = Order { tenant: format!("t{number}"), bytes: 3, ..order() };
        pool.submit(seconds(0), key(number), order).unwrap();
    }
    pool.hear(seconds(0), profile(A, 1000), &[]);
    let counts = pool.figures(seconds(0)).counts;
    assert_eq!((counts.tenants().count(), counts.other_tenants()), (TENANTS_MAX, 15));
}
