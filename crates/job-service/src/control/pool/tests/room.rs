//! How many jobs are taken, and of which tenant.

use super::*;

fn limited(jobs_max: usize, held_bytes_max: u64) -> Pool {
    Pool::new(Limits { jobs_max, held_bytes_max, ..Limits::default() }, 1)
}

fn of(tenant: &str, bytes: usize) -> Order {
    Order { tenant: tenant.to_owned(), spec: vec![7; bytes], ..order() }
}

/// Why `order` is refused.
fn refusal(pool: &mut Pool, now: Duration, number: u64, order: Order) -> String {
    let refused = pool.figures(now).counts.refused;
    let Failure { kind, message } = pool.submit(now, key(number), order).unwrap_err();
    assert_eq!(kind, FailureKind::Unavailable, "its database does it itself, or asks again");
    assert_eq!(pool.figures(now).counts.refused, refused + 1);
    message
}

#[test]
fn there_is_a_limit_to_jobs() {
    let mut pool = limited(2, u64::MAX);
    pool.submit(seconds(0), key(0), of("a", 1)).unwrap();
    pool.submit(seconds(0), key(1), of("b", 1)).unwrap();
    let message = refusal(&mut pool, seconds(0), 2, of("c", 1));
    assert!(message.contains("2 jobs are here already"), "{message}");
    pool.submit(seconds(0), key(1), of("b", 1)).unwrap();
}

#[test]
fn there_is_a_limit_to_what_jobs_take_of_memory() {
    let mut pool = limited(100, 100);
    pool.submit(seconds(0), key(0), of("a", 60)).unwrap();
    let message = refusal(&mut pool, seconds(0), 1, of("b", 41));
    assert!(message.contains("41 bytes beside 60 of other jobs is more than 100"), "{message}");
    let lease = only(pull(&mut pool, seconds(1), A));
    assert!(
        finish(&mut pool, seconds(2), A, &lease, Outcome::Done(vec![8; 30])),
        "a result is never refused"
    );
    refusal(&mut pool, seconds(2), 1, of("b", 11));
    pool.submit(seconds(2), key(1), of("b", 10)).unwrap();
    pool.submit(seconds(2), key(1), of("b", 10)).unwrap();
    pool.follow(seconds(3), CLIENT, &[0, 1], &[0]);
    pool.submit(seconds(3), key(2), of("a", 90)).unwrap();
    assert_eq!(rows(&pool, seconds(3)).jobs.len(), 3, "with what ended");
}

#[test]
fn whoever_hands_in_more_than_is_done_leaves_room_for_others() {
    let mut pool = limited(90, u64::MAX);
    let mut numbers = 0..;
    let mut fill = |pool: &mut Pool, tenant: &str| {
        let taken = (0..)
            .take_while(|_| pool.submit(seconds(0), key(numbers.next().unwrap()), of(tenant, 1)).is_ok());
        taken.count()
    };
    assert_eq!([fill(&mut pool, "greedy"), fill(&mut pool, "late"), fill(&mut pool, "last")], [45, 23, 11]);
    let message = refusal(&mut pool, seconds(0), 1000, of("greedy", 1));
    assert!(
        message.contains("45 jobs of tenant greedy are here already, and there is room for 11 more"),
        "{message}"
    );
    // A tenant that has more than is left does not get back the room of its ended jobs.
    pool.follow(seconds(1), CLIENT, &[], &(0..15).collect::<Vec<_>>());
    assert_eq!([fill(&mut pool, "greedy"), fill(&mut pool, "late")], [0, 2], "30, 23, 11 and 26 are free");
}

#[test]
fn whoever_hands_in_long_specs_leaves_room_for_others() {
    let mut pool = limited(1000, 900);
    pool.submit(seconds(0), key(0), of("one", 800)).unwrap();
    pool.follow(seconds(0), CLIENT, &[], &[0]);
    for number in 1..=4 {
        pool.submit(seconds(0), key(number), of("greedy", 100)).unwrap();
    }
    let message = refusal(&mut pool, seconds(0), 5, of("greedy", 101));
    assert!(
        message.contains("101 bytes beside 400 of other jobs of tenant greedy is more than 500"),
        "{message}"
    );
    pool.submit(seconds(0), key(5), of("late", 300)).unwrap();
    refusal(&mut pool, seconds(0), 6, of("late", 1));
    pool.submit(seconds(0), key(6), of("last", 200)).unwrap();
}

/// A known worker or database takes no more room.
#[test]
fn there_is_a_limit_to_workers_and_databases() {
    use crate::bounds::{CLIENTS, WORKERS};
    let mut pool = pool();
    for id in 0..WORKERS.max {
        pool.hear(seconds(0), profile(id.into(), 1), &[]);
    }
    assert_eq!(pool.no_room_for_worker(&profile(0, 1)), None);
    let message = pool.no_room_for_worker(&profile(WORKERS.max.into(), 1)).unwrap();
    assert!(message.contains("room for 10000 workers") && message.contains("make 10001"), "{message}");
    for client in 0..CLIENTS.max {
        pool.urge(seconds(0), client.into(), None);
    }
    assert_eq!(pool.no_room_for_client(0), None);
    let message = pool.no_room_for_client(CLIENTS.max.into()).unwrap();
    assert!(message.contains("room for 100000 databases"), "{message}");
}
