//! Workers that do jobs of other control planes too.

use super::*;

fn deep() -> Order {
    Order { lane: Lane::Deep, ..order() }
}

fn late() -> Order {
    Order { stalls_in: Some(seconds(5)), ..order() }
}

/// `slots` are taken, of which those give way that have run for so many seconds.
fn taken(slots: u32, gives_way: &[u64]) -> Elsewhere {
    Elsewhere { slots, gives_way: gives_way.iter().map(|ran| seconds(*ran)).collect() }
}

fn hear(pool: &mut Pool, now: Duration, slots: u32, elsewhere: Elsewhere) {
    pool.hear(now, Profile { elsewhere, ..profile(A, slots) }, &[]);
}

#[test]
fn a_worker_gets_no_more_than_what_others_leave_of_it() {
    for scheduler in Scheduler::ALL {
        let mut pool = Pool::new(Limits { scheduler, ..Limits::default() }, 1);
        hear(&mut pool, seconds(0), 4, taken(3, &[]));
        for number in 0..4 {
            pool.submit(seconds(0), key(number), order()).unwrap();
        }
        let had: Vec<Held> = pool.take(seconds(0), A).leases.iter().map(held).collect();
        assert_eq!(had.len(), 1, "{scheduler:?}");
        pool.beat(seconds(1), A, &had).unwrap();
        pool.note_elsewhere(seconds(1), A, taken(4, &[]));
        assert_eq!(pool.take(seconds(1), A), Pulled::default(), "{scheduler:?}");
        // What the others leave it gets at once, not with the next round.
        pool.note_elsewhere(seconds(2), A, taken(2, &[]));
        assert_eq!(pool.take(seconds(2), A).leases.len(), 1, "{scheduler:?}");
        pool.note_elsewhere(seconds(3), A, taken(0, &[]));
        assert_eq!(pool.take(seconds(3), A).leases.len(), 2, "{scheduler:?}");
    }
}

#[test]
fn l0_work_that_would_be_late_goes_where_deep_work_of_others_gives_way_and_nothing_else_does() {
    let mut pool = pool();
    hear(&mut pool, seconds(0), 2, taken(2, &[9, 7]));
    let at = |client| JobKey { client, number: 1 };
    for (client, order) in [(1, deep()), (2, order())] {
        pool.submit(seconds(0), at(client), order).unwrap();
    }
    assert_eq!(pool.take(seconds(0), A), Pulled::default(), "deep work, and L0 work that nothing presses");
    // A minute each, with nothing else to wait for.
    let late = Order { bytes: 64 << 30, ..late() };
    pool.submit(seconds(0), at(3), late.clone()).unwrap();
    assert_eq!(only(pool.take(seconds(0), A)).key, at(3));
    // Until it is heard of again the worker is believed to have one job that gives way.
    for client in 4..7 {
        pool.submit(seconds(0), at(client), late.clone()).unwrap();
    }
    assert_eq!(pool.take(seconds(0), A).leases.len(), 1);
    let rows = rows(&pool, seconds(0));
    assert_eq!((rows.workers[0].running, rows.waiting_count), (2, 4));
    assert_eq!(pool.figures(seconds(0)).counts.preempted, 0, "nothing of ours");
}

#[test]
fn l0_work_waits_for_a_slot_that_is_free_in_time_rather_than_stop_something() {
    let mut pool = pool();
    hear(&mut pool, seconds(0), 1, taken(1, &[1]));
    pool.hear(seconds(0), profile(B, 1), &[]);
    // A GiB, in a second.
    pool.submit(seconds(0), key(1), Order { bytes: 1 << 30, ..order() }).unwrap();
    assert_eq!(only(pool.take(seconds(0), B)).key, key(1));
    pool.submit(seconds(0), JobKey { client: 1, number: 1 }, late()).unwrap();
    assert_eq!((pool.take(seconds(0), A), pool.take(seconds(0), B)), Default::default());
}

#[test]
fn what_lies_in_a_workers_queue_is_given_to_others_and_is_no_failure() {
    let mut pool = pool();
    let _nothing = pull(&mut pool, seconds(0), A);
    pool.submit(seconds(0), key(1), order()).unwrap();
    let lease = only(pool.take(seconds(0), A));
    let waits = Held { is_waiting: true, ..held(&lease) };
    for now in 1..=10 {
        assert_eq!(pool.beat(seconds(now), A, &[waits]), Some(vec![]), "{now}");
        pool.tick(seconds(now));
        assert_eq!(pool.unbegun(CLIENT, &[1]), [1]);
    }
    // It takes no more, and says so.
    pool.note_elsewhere(seconds(10), A, taken(1, &[]));
    pool.tick(seconds(11));
    assert_eq!(pool.beat(seconds(11), A, &[waits]), Some(vec![lease.token]));
    let Rows { jobs, workers, .. } = rows(&pool, seconds(11));
    assert_eq!((jobs[0].state, workers[0].failing.as_str()), (JobState::Waiting, ""));
    assert_eq!(jobs[0].failure, "its worker did not begin it for 10 s");
    let counts = pool.figures(seconds(11)).counts;
    assert_eq!((counts.expired_stuck, counts.expired_silent, counts.expired_unbegun), (0, 0, 1));
    assert!(pool.attempts(CLIENT, &[1]).is_as(&Default::default()), "nobody has failed");
    assert_eq!(only(pull(&mut pool, seconds(11), B)).key, key(1), "without a pause");
}

#[test]
fn what_is_begun_late_has_its_whole_time() {
    let mut pool = pool();
    let _nothing = pull(&mut pool, seconds(0), A);
    pool.submit(seconds(0), key(1), order()).unwrap();
    let lease = only(pool.take(seconds(0), A));
    let lost_at = (1..200).find(|now| {
        pool.follow(seconds(*now), CLIENT, &[1], &[]);
        let report = Held { is_waiting: *now < 9, ..held(&lease) };
        let stop = pool.beat(seconds(*now), A, &[report]).unwrap();
        pool.tick(seconds(*now));
        !stop.is_empty()
    });
    assert_eq!(lost_at, Some(71), "60 s after it began at 9 s");
}
