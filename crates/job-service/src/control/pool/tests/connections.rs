//! Workers that are lost with their connections.

use super::*;

fn on(pool: &mut Pool, now: Duration, worker: u128, connection: u64) {
    pool.hear(now, profile(worker, 2), &[]);
    pool.note_connection(now, worker, ConnectionId(connection));
}

fn lost(pool: &Pool, now: Duration, row: usize) -> Option<(Duration, String)> {
    rows(pool, now).workers[row].lost.clone().map(|lost| (lost.since, lost.jobs))
}

#[test]
fn jobs_of_a_worker_whose_connection_broke_go_to_others_long_before_its_lease_is_over() {
    let mut pool = pool();
    on(&mut pool, seconds(0), A, 1);
    for number in [1, 2] {
        pool.submit(seconds(0), key(number), order()).unwrap();
    }
    let leases = pool.take(seconds(0), A).leases;
    assert_eq!(leases.len(), 2);
    on(&mut pool, seconds(1), B, 2);
    pool.end_connection(seconds(2), ConnectionId(1));
    pool.submit(seconds(2), key(3), order()).unwrap();
    assert_eq!(pool.take(seconds(2), A), Pulled::default(), "it may be gone");
    let third = only(pool.take(seconds(2), B));
    assert_eq!(lost(&pool, seconds(2), 0), Some((seconds(0), String::new())), "people see it at once");
    pool.tick(seconds(2) + Duration::from_millis(900));
    assert_eq!(pool.figures(seconds(2)).counts.expired_lost, 0, "it may come back");
    pool.tick(seconds(3));
    assert_eq!(pool.take_log(), ["lost worker w1; its 2 jobs wait for others"]);
    assert_eq!(lost(&pool, seconds(3), 0).unwrap().1, "its 2 jobs wait for another worker");
    let message = &rows(&pool, seconds(3)).jobs[0].failure;
    assert_eq!(message, "its worker w1 was lost: the connection to it broke");
    pool.hear(seconds(4), profile(B, 2), &[held(&third)]);
    assert_eq!(pool.take(seconds(4), B).leases.len(), 1, "two at a time");
    assert_eq!(
        lost(&pool, seconds(4), 0).unwrap().1,
        "of its 2 jobs 1 went to w2, 1 wait for another worker"
    );
    let figures = pool.figures(seconds(4));
    assert_eq!((figures.workers.lost, figures.workers.silent, figures.workers.ready), (1, 0, 1));
    assert_eq!((figures.counts.expired_lost, figures.counts.expired_silent), (2, 0));
    assert_eq!(rows(&pool, seconds(4)).workers[0].failing, "", "it is lost, which says more");
    // It was the network: what it says of the one that no other has counts again.
    pool.hear(seconds(5), profile(A, 2), &[held(&leases[0]), held(&leases[1])]);
    pool.note_connection(seconds(5), A, ConnectionId(3));
    assert_eq!(pool.take_log(), ["worker w1 is back"]);
    assert_eq!(lost(&pool, seconds(5), 0), None);
    assert_eq!(pool.take(seconds(5), A).stop.len(), 1);
}

#[test]
fn a_worker_that_comes_back_at_once_has_lost_nothing() {
    let mut pool = pool();
    on(&mut pool, seconds(0), A, 1);
    pool.submit(seconds(0), key(1), order()).unwrap();
    let lease = only(pool.take(seconds(0), A));
    pool.hear(seconds(1), profile(A, 2), &[held(&lease)]);
    pool.end_connection(seconds(2), ConnectionId(1));
    pool.beat(seconds(2), A, &[held(&lease)]);
    pool.note_connection(seconds(2), A, ConnectionId(2));
    pool.tick(seconds(4));
    assert_eq!((pool.figures(seconds(4)).counts.expired_lost, pool.take_log().len()), (0, 0));
    // Of two connections one is enough.
    pool.note_connection(seconds(4), A, ConnectionId(3));
    pool.end_connection(seconds(4), ConnectionId(2));
    pool.tick(seconds(6));
    assert_eq!(lost(&pool, seconds(6), 0), None);
    assert!(finish(&mut pool, seconds(6), A, &lease, done()));
}

#[test]
fn a_worker_that_drains_and_has_no_job_leaves() {
    let mut pool = pool();
    on(&mut pool, seconds(0), A, 1);
    pool.hear(seconds(1), Profile { is_draining: true, ..profile(A, 2) }, &[]);
    pool.end_connection(seconds(2), ConnectionId(1));
    pool.tick(seconds(3));
    assert_eq!((rows(&pool, seconds(3)).workers.len(), pool.take_log().len()), (0, 0));
}

#[test]
fn where_the_jobs_of_a_lost_worker_went_is_known_after_their_end() {
    let mut pool = pool();
    on(&mut pool, seconds(0), A, 1);
    pool.submit(seconds(0), key(1), order()).unwrap();
    let _lease = only(pool.take(seconds(0), A));
    pool.end_connection(seconds(1), ConnectionId(1));
    pool.tick(seconds(2));
    on(&mut pool, seconds(3), B, 2);
    let lease = only(pool.take(seconds(3), B));
    let jobs = |pool: &Pool| lost(pool, seconds(5), 0).unwrap().1;
    assert_eq!(jobs(&pool), "its job went to w2");
    assert!(finish(&mut pool, seconds(4), B, &lease, done()));
    assert_eq!(jobs(&pool), "its job went to w2");
    pool.follow(seconds(5), CLIENT, &[1], &[1]);
    assert_eq!(jobs(&pool), "its job went to w2", "its database has the result");
}
