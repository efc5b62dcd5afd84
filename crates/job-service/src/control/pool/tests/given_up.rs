//! Jobs that their clients wait for no more.

use super::*;

/// A pool with one worker that has job 1, and in which job 2 waits.
fn busy() -> (Pool, Lease) {
    let mut pool = pool();
    let _nothing = pull(&mut pool, seconds(0), A);
    for number in [1, 2] {
        pool.submit(seconds(0), key(number), order()).unwrap();
    }
    let lease = only(pool.take(seconds(0), A));
    assert_eq!(lease.key, key(1));
    (pool, lease)
}

fn numbers(pool: &Pool) -> Vec<u64> {
    pool.jobs.of_client(CLIENT, u64::MAX).map(|(number, _)| number).collect()
}

#[test]
fn what_a_client_gave_up_while_it_was_not_heard_is_stopped_and_forgotten() {
    let (mut pool, lease) = busy();
    // It heard nothing for a while, took both jobs for lost, and hands in another one.
    pool.submit(seconds(5), key(3), order()).unwrap();
    assert_eq!(pool.follow(seconds(5), CLIENT, &[3], &[]), (vec![], vec![]));
    assert_eq!(numbers(&pool), [3]);
    let pulled = pool.take(seconds(5), A);
    assert_eq!((pulled.stop, pulled.leases[0].key), (vec![lease.token], key(3)), "at once");
    assert!(!finish(&mut pool, seconds(6), A, &lease, done()), "nobody wants it");
    pool.hear(seconds(6), profile(A, 2), &[held(&pulled.leases[0]), held(&lease)]);
    assert_eq!((pool.take(seconds(6), A).stop, numbers(&pool)), (vec![lease.token], vec![3]));
    let Figures { waiting, running, counts, .. } = pool.figures(seconds(6));
    assert_eq!((waiting.all(), running.all(), counts.abandoned.l0), (0, 1, 2));
}

#[test]
fn a_job_that_was_given_up_before_its_end_needs_no_other_word() {
    let (mut pool, lease) = busy();
    // Its cancellation was not told.
    assert_eq!(pool.follow(seconds(1), CLIENT, &[2], &[1]), (vec![], vec![]));
    assert_eq!((numbers(&pool), pool.take(seconds(1), A).stop), (vec![2], vec![lease.token]));
    // What only a worker has told of is given up as well.
    let other = Held { key: key(0), token: Token(7), ..held(&lease) };
    pool.hear(seconds(1), profile(A, 2), &[other]);
    assert_eq!(numbers(&pool), [0, 2]);
    pool.follow(seconds(1), CLIENT, &[2], &[]);
    assert!(pool.take(seconds(1), A).stop.contains(&other.token));
    assert_eq!(numbers(&pool), [2]);
}

#[test]
fn what_an_old_question_says_holds_for_no_newer_job() {
    let (mut pool, lease) = busy();
    // The question of before the second submission is still there, or comes only now.
    pool.follow(seconds(1), CLIENT, &[1], &[]);
    pool.follow(seconds(1), CLIENT, &[], &[]);
    assert_eq!((numbers(&pool), pool.take(seconds(1), A).stop), (vec![1, 2], vec![]));
    // And no other client's.
    pool.follow(seconds(1), CLIENT + 1, &[9], &[]);
    assert_eq!(numbers(&pool), [1, 2]);
    assert!(finish(&mut pool, seconds(1), A, &lease, done()));
}
