//! Databases that are about to stop their writers, and others.

use super::*;

const CALM: u128 = 100;
const PRESSED: u128 = 200;

fn key_of(client: u128, number: u64) -> JobKey {
    JobKey { client, number }
}

fn submit(pool: &mut Pool, now: Duration, key: JobKey, stalls_in: Option<Duration>) {
    let tenant = format!("db{}", key.client);
    // 10 MiB take a second where 10 MiB a second were measured.
    pool.submit(now, key, Order { tenant, stalls_in, bytes: 10 << 20, ..order() }).unwrap();
}

/// Has the only worker do what it is given, a second each; the clients of those jobs.
fn work(pool: &mut Pool, now: &mut Duration, jobs: usize) -> Vec<u128> {
    let mut done = Vec::new();
    for _ in 0..jobs {
        let lease = only(pull(pool, *now, A));
        *now += seconds(1);
        let timings = Timings { ran: seconds(1), ..Timings::default() };
        assert!(pool.finish(*now, A, held(&lease), self::done(), timings));
        done.push(lease.key.client);
    }
    done
}

/// A pool that has measured its only worker, and where it is busy until `now`.
fn measured() -> (Pool, Duration) {
    let (mut pool, mut now) = (pool(), seconds(0));
    pool.hear(now, profile(A, 1), &[]);
    for number in 0..20 {
        submit(&mut pool, now, key(number), None);
        work(&mut pool, &mut now, 1);
    }
    (pool, now)
}

#[test]
fn who_is_about_to_stall_overtakes_and_who_is_no_longer_does_not() {
    let (mut pool, mut now) = measured();
    let begin = now;
    // The slot is taken while all of them come.
    submit(&mut pool, now, key(100), None);
    let first = only(pull(&mut pool, now, A));
    for number in 0..5 {
        submit(&mut pool, now, key_of(CALM, number), Some(seconds(50)));
    }
    for number in 0..5 {
        submit(&mut pool, now, key_of(PRESSED, number), Some(seconds(55)));
    }
    assert!(finish(&mut pool, now, A, &first, done()));
    assert_eq!(work(&mut pool, &mut now, 1), [CALM], "it stalls sooner");
    // What it said with its jobs has become wrong while they wait. A decision was made for the slot
    // that is free: that one stands.
    pool.urge(now, PRESSED, Some(seconds(2)));
    assert_eq!(work(&mut pool, &mut now, 3), [CALM, PRESSED, PRESSED]);
    pool.urge(now, PRESSED, None);
    assert_eq!(work(&mut pool, &mut now, 3), [PRESSED, CALM, CALM]);
    assert_eq!(work(&mut pool, &mut now, 3), [CALM, PRESSED, PRESSED]);
    assert_eq!(now - begin, seconds(10), "nobody rested");
}

#[test]
fn a_database_that_stalls_all_the_time_does_not_starve_one_that_never_does() {
    let (mut pool, mut now) = measured();
    let begin = now;
    let mut number = 2;
    for first in 0..number {
        submit(&mut pool, now, key_of(PRESSED, first), Some(seconds(0)));
    }
    submit(&mut pool, now, key_of(CALM, 0), None);
    while pool.jobs.id(&key_of(CALM, 0)).is_some() {
        // Two always wait, so that its client wants each free slot.
        while pool.jobs.of_client(PRESSED, u64::MAX).count() < 2 {
            submit(&mut pool, now, key_of(PRESSED, number), Some(seconds(0)));
            number += 1;
        }
        pool.urge(now, PRESSED, Some(seconds(0)));
        work(&mut pool, &mut now, 1);
        for client in [PRESSED, CALM] {
            let all: Vec<u64> = (0..number).collect();
            let (ended, _) = pool.follow(now, client, &all, &[]);
            let taken: Vec<u64> = ended.iter().map(|(number, _)| *number).collect();
            pool.follow(now, client, &all, &taken);
        }
        assert!(now - begin <= seconds(301), "it has waited for {:?}", now - begin);
    }
    assert!(now - begin > seconds(10), "the other one went first: {:?}", now - begin);
}

#[test]
fn what_a_client_says_is_forgotten_with_it() {
    let (mut pool, now) = measured();
    pool.urge(now, PRESSED, Some(seconds(2)));
    assert!(pool.clients.contains_key(&PRESSED));
    pool.tick(now + seconds(31));
    assert_eq!(pool.clients.get(&PRESSED), None);
}
