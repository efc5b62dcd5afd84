//! What people see.

use super::*;

#[test]
fn rows_tell_how_long_a_job_waited_and_how_long_it_runs() {
    let mut pool = pool();
    pool.submit(seconds(1), key(5), order()).unwrap();
    assert_eq!(super::rows(&pool, seconds(3)).jobs[0].queued, seconds(2), "nobody is there");
    let lease = only(pull(&mut pool, seconds(4), A));
    let running = super::rows(&pool, seconds(6)).jobs[0].clone();
    assert_eq!((running.queued, running.timings.ran), (seconds(3), seconds(2)));
    assert!(finish(&mut pool, seconds(7), A, &lease, done()));
    let ended = super::rows(&pool, seconds(9)).jobs[0].clone();
    let ran =
        Timings { opened: Duration::from_millis(10), ran: Duration::from_millis(110), ..Timings::default() };
    assert_eq!((ended.queued, ended.timings, ended.age), (seconds(3), ran, seconds(6)));
}

#[test]
fn of_many_jobs_some_are_shown_and_all_are_counted() {
    let mut pool = pool();
    for number in 0..50 {
        pool.hear(seconds(number), profile(A, 20), &[]);
        pool.submit(seconds(number), key(number), order()).unwrap();
    }
    let leases = pool.take(seconds(50), A).leases;
    assert_eq!(leases.len(), 20);
    let waiting: Vec<u64> = (0..50).collect();
    for (at, lease) in leases[..12].iter().enumerate() {
        let end = if at % 3 == 0 { failed(FailureKind::Invalid) } else { done() };
        assert!(finish(&mut pool, seconds(50), A, lease, end));
        // Half of the ends are known to the client.
        if at < 6 {
            pool.follow(seconds(50), CLIENT, &waiting, &[lease.key.number]);
        }
    }
    let shown = |jobs_max: usize| {
        let rows = pool.rows(seconds(50), jobs_max);
        assert_eq!((rows.running_count, rows.waiting_count), (20, 18), "{jobs_max}");
        assert_eq!((rows.waiting_bytes, rows.waiting_max), (18 << 20, seconds(18)), "{jobs_max}");
        assert_eq!(rows.workers[0].running, 20, "{jobs_max}");
        let numbers = |of: &[JobState]| {
            let rows = rows.jobs.iter().filter(|row| of.contains(&row.state));
            rows.map(|row| row.key.number).collect::<Vec<_>>()
        };
        [
            numbers(&[JobState::Done, JobState::Failed]),
            numbers(&[JobState::Running]),
            numbers(&[JobState::Waiting]),
        ]
    };
    let ended: Vec<u64> = leases[..12].iter().map(|lease| lease.key.number).collect();
    let all = shown(100);
    assert_eq!([all[0].len(), all[1].len(), all[2].len()], [12, 20, 18]);
    assert_eq!(all[0], ended);
    for jobs_max in [0, 1, 4, 8, 20] {
        let some = shown(jobs_max);
        assert_eq!(some[0], all[0][12 - jobs_max.min(12)..], "the latest");
        assert_eq!(some[1], all[1][..jobs_max], "the oldest");
        assert_eq!(some[2], all[2][..jobs_max.min(18)], "the oldest");
    }
}
