mod figures; // what is counted

use std::collections::BTreeMap;

use super::workers::Question;
use super::*;
use crate::control::view::{Elsewhere, Lane, TenantId};

mod crossing; // what is said of attempts that are stopped
mod elsewhere; // workers of several control planes
mod failing; // workers with jobs that fail
mod connections; // workers that are lost with their connections
mod room; // how many jobs, and of which tenant
mod given_up; // jobs that their clients wait for no more
mod reach; // workers that do not reach a location
mod storm; // clients and workers come, go, sleep and forget
mod rows; // what people see
mod speeds; // what jobs tell of workers
mod names; // tenants, zones and locations
mod urgency; // databases that are about to stop writers
mod shares; // tenants with jobs that weigh more or less
mod unheard; // answers that a worker never had

const A: u128 = 1;
const B: u128 = 2;
const CLIENT: u128 = 77;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn profile(id: u128, slots: u32) -> Profile {
    Profile {
        id,
        name: format!("w{id}"),
        zone: String::new(),
        slots,
        has: ["merge:sum".to_owned()].into(),
        spec_versions: 1..=1,
        build: "test".to_owned(),
        is_draining: false,
        elsewhere: Elsewhere::default(),
    }
}

fn order() -> Order {
    Order {
        tenant: "db".to_owned(),
        weight: 1.0,
        location: "/shared".to_owned(),
        zone: String::new(),
        spec: b"spec".to_vec(),
        spec_version: 1,
        needs: ["merge:sum".to_owned()].into(),
        lane: Lane::L0,
        bytes: 1 << 20,
        stalls_in: None,
    }
}

fn key(number: u64) -> JobKey {
    JobKey { client: CLIENT, number }
}

fn pool() -> Pool {
    Pool::new(Limits::default(), 1)
}

impl Pool {
    /// What the newest question of `worker` is answered.
    fn take(&mut self, now: Duration, worker: u128) -> Pulled {
        let number = self.members[&self.member_ids[&worker]].question;
        self.answer(now, Question { worker, number })
    }
}

/// `worker` pulls and has nothing.
fn pull(pool: &mut Pool, now: Duration, worker: u128) -> Pulled {
    pool.hear(now, profile(worker, 1), &[]);
    pool.take(now, worker)
}

/// What people see, without a limit that matters.
fn rows(pool: &Pool, now: Duration) -> Rows {
    pool.rows(now, 100)
}

fn held(lease: &Lease) -> Held {
    let (key, token) = (lease.key, lease.token);
    Held { key, token, done_bytes: 0, moved_bytes: 0, is_syncing: false, is_waiting: false }
}

fn only(pulled: Pulled) -> Lease {
    assert_eq!((pulled.leases.len(), pulled.stop.len()), (1, 0), "{pulled:?}");
    pulled.leases.into_iter().next().unwrap()
}

fn done() -> Outcome {
    Outcome::Done(b"result".to_vec())
}

fn failed(kind: FailureKind) -> Outcome {
    Outcome::Failed(Failure { kind, message: "no luck".to_owned() })
}

fn finish(pool: &mut Pool, now: Duration, worker: u128, lease: &Lease, outcome: Outcome) -> bool {
    let timings =
        Timings { opened: Duration::from_millis(10), ran: Duration::from_millis(110), ..Timings::default() };
    pool.finish(now, worker, held(lease), outcome, timings)
}

/// The end of job `number`, if it has ended; those before it are waited for too.
fn end_of(pool: &mut Pool, now: Duration, number: u64) -> Option<Ended> {
    let waiting: Vec<u64> = (0..=number).collect();
    let (ended, unknown) = pool.follow(now, CLIENT, &waiting, &[]);
    assert!(!unknown.contains(&number));
    ended.into_iter().find(|(ended, _)| *ended == number).map(|(_, ended)| ended)
}

#[test]
fn a_job_goes_to_a_worker_and_its_end_to_the_client_until_it_is_taken() {
    let mut pool = pool();
    assert_eq!(pull(&mut pool, seconds(0), A), Pulled::default());
    pool.submit(seconds(1), key(5), order()).unwrap();
    pool.submit(seconds(1), key(5), order()).unwrap();
    let lease = only(pool.take(seconds(1), A));
    assert_eq!((lease.key, lease.location.as_str(), &lease.spec[..]), (key(5), "/shared", &b"spec"[..]));
    assert_eq!(pool.take(seconds(1), A), Pulled::default(), "it is handed out once");
    assert_eq!(end_of(&mut pool, seconds(2), 5), None);
    let running = rows(&pool, seconds(2));
    assert_eq!((running.jobs[0].state, running.workers[0].running), (JobState::Running, 1));
    assert_eq!((running.jobs[0].queued, running.jobs[0].timings.ran), (Duration::ZERO, seconds(1)));
    assert!(finish(&mut pool, seconds(3), A, &lease, done()));
    assert!(!finish(&mut pool, seconds(3), A, &lease, done()), "it ends once");
    for _ in 0..2 {
        let ended = end_of(&mut pool, seconds(4), 5).unwrap();
        assert_eq!((ended.outcome, ended.worker.as_str(), ended.queued), (done(), "w1", Duration::ZERO));
    }
    assert_eq!(pool.follow(seconds(5), CLIENT, &[5], &[5]), (vec![], vec![]));
    assert_eq!(pool.follow(seconds(5), CLIENT, &[5], &[]), (vec![], vec![5]), "it is forgotten");
    let rows = rows(&pool, seconds(5));
    assert_eq!((rows.jobs.len(), rows.jobs[0].state), (1, JobState::Done), "but for people");
    assert_eq!((rows.jobs[0].queued, rows.jobs[0].timings.ran), (Duration::ZERO, Duration::from_millis(110)));
    let measured = rows.workers[0].near_bytes_per_second.unwrap();
    let (believed, found) = (f64::from(1 << 30), f64::from(10 << 20));
    assert!((measured - (believed + 0.3 * (found - believed))).abs() < 1.0, "{measured}");
}

#[test]
fn a_client_hears_which_of_its_jobs_nobody_has_begun() {
    let mut pool = pool();
    pool.submit(seconds(1), key(5), order()).unwrap();
    assert_eq!(pool.unbegun(CLIENT, &[4, 5]), [5]);
    let lease = only(pull(&mut pool, seconds(1), A));
    let waits = Held { is_waiting: true, ..held(&lease) };
    for (said, unbegun) in [(None, [5].as_slice()), (Some(waits), &[5]), (Some(held(&lease)), &[])] {
        let stop = pool.beat(seconds(1), A, said.as_slice()).unwrap();
        assert_eq!((pool.unbegun(CLIENT, &[4, 5]).as_slice(), stop), (unbegun, vec![]), "{said:?}");
    }
    pool.submit(seconds(1), key(6), order()).unwrap();
    assert_eq!(pool.unbegun(CLIENT, &[5, 6]), [6]);
    assert!(pool.unbegun(CLIENT + 1, &[5, 6]).is_empty());
    assert!(pool.cancel(seconds(1), key(6)) && pool.unbegun(CLIENT, &[5, 6]).is_empty());
}

#[test]
fn a_client_hears_which_of_its_jobs_wait_for_a_sync_and_why_attempts_failed() {
    let mut pool = pool();
    let _nothing = pull(&mut pool, seconds(0), A);
    pool.submit(seconds(0), key(5), order()).unwrap();
    let lease = only(pool.take(seconds(0), A));
    let nothing = pool.attempts(CLIENT, &[4, 5]);
    assert!(nothing.is_as(&Default::default()));
    pool.beat(seconds(2), A, &[Held { is_syncing: true, ..held(&lease) }]).unwrap();
    let syncs = pool.attempts(CLIENT, &[4, 5]);
    assert!(!syncs.is_as(&nothing) && syncs.syncing == [5].into() && syncs.tried.is_empty());
    assert!(pool.attempts(CLIENT, &[4]).is_as(&nothing) && pool.attempts(CLIENT + 1, &[5]).is_as(&nothing));
    assert!(finish(&mut pool, seconds(4), A, &lease, failed(FailureKind::Storage)));
    let tried = pool.attempts(CLIENT, &[4, 5]);
    assert!(tried.syncing.is_empty() && tried.tried == [(5, (1, "no luck".to_owned()))].into());
    assert!(!tried.is_as(&nothing));
    assert!(pool.cancel(seconds(5), key(5)) && pool.attempts(CLIENT, &[5]).is_as(&nothing));
}

#[test]
fn a_silent_worker_loses_its_job_and_what_it_says_later_does_not_count() {
    let mut pool = pool();
    let _nothing = pull(&mut pool, seconds(0), A);
    pool.submit(seconds(0), key(1), order()).unwrap();
    let first = only(pool.take(seconds(0), A));
    assert_eq!(pool.beat(seconds(8), A, &[held(&first)]), Some(vec![]));
    pool.follow(seconds(17), CLIENT, &[1], &[]);
    pool.tick(seconds(17));
    let _nothing = pull(&mut pool, seconds(17), B);
    assert_eq!(pool.take(seconds(18), B), Pulled::default(), "it was heard of 9 s ago");
    pool.tick(seconds(19));
    pool.beat(seconds(20), B, &[]);
    pool.tick(seconds(20));
    let second = only(pool.take(seconds(20), B));
    assert_ne!(first.token, second.token);
    assert!(pool.attempts(CLIENT, &[1]).is_as(&Default::default()), "that says nothing of its location");
    assert!(!finish(&mut pool, seconds(21), A, &first, done()));
    assert_eq!(pool.beat(seconds(21), A, &[held(&first)]), Some(vec![first.token]));
    assert!(finish(&mut pool, seconds(22), B, &second, done()));
    assert_eq!(end_of(&mut pool, seconds(22), 1).unwrap().worker, "w2");
}

#[test]
fn a_pool_that_forgot_everything_learns_it_again_from_both_sides() {
    for client_first in [false, true] {
        let mut before = pool();
        let _nothing = pull(&mut before, seconds(0), A);
        before.submit(seconds(0), key(1), order()).unwrap();
        let lease = only(before.take(seconds(0), A));
        let mut pool = Pool::new(Limits::default(), 2);
        if client_first {
            assert_eq!(pool.follow(seconds(1), CLIENT, &[1], &[]), (vec![], vec![1]));
            pool.submit(seconds(1), key(1), order()).unwrap();
        }
        assert_eq!(pool.beat(seconds(1), A, &[held(&lease)]), None, "it has to pull first");
        pool.hear(seconds(1), profile(A, 1), &[held(&lease)]);
        assert_eq!(pool.take(seconds(1), A), Pulled::default(), "it has the job already");
        if !client_first {
            assert_eq!(pool.follow(seconds(2), CLIENT, &[1], &[]), (vec![], vec![1]));
            pool.submit(seconds(2), key(1), order()).unwrap();
        }
        pool.tick(seconds(2));
        assert!(finish(&mut pool, seconds(3), A, &lease, done()));
        assert_eq!(end_of(&mut pool, seconds(3), 1).unwrap().outcome, done());
    }
}

#[test]
fn what_a_worker_said_before_a_job_was_forgotten_does_not_bring_it_back() {
    let mut pool = pool();
    let _nothing = pull(&mut pool, seconds(0), A);
    pool.submit(seconds(0), key(1), order()).unwrap();
    let lease = only(pool.take(seconds(0), A));
    assert!(finish(&mut pool, seconds(1), A, &lease, done()));
    pool.follow(seconds(1), CLIENT, &[], &[1]);
    assert_eq!(pool.beat(seconds(1), A, &[held(&lease)]), Some(vec![lease.token]));
    let rows = rows(&pool, seconds(1));
    assert_eq!((rows.jobs.len(), rows.workers[0].running), (1, 0), "{rows:?}");
    // A client that asks for it again gets it done again.
    pool.submit(seconds(2), key(1), order()).unwrap();
    assert_ne!(only(pool.take(seconds(2), A)).token, lease.token);
}

#[test]
fn an_end_may_be_the_first_that_a_pool_hears_of_a_job() {
    let mut pool = pool();
    pool.hear(seconds(0), profile(A, 1), &[]);
    let (lane, waited) = (Lane::L0, Duration::ZERO);
    let lease =
        Lease { key: key(1), token: Token(9), location: String::new(), spec: Vec::new(), lane, waited };
    assert!(finish(&mut pool, seconds(0), A, &lease, done()));
    pool.submit(seconds(1), key(1), order()).unwrap();
    assert_eq!(end_of(&mut pool, seconds(1), 1).unwrap().outcome, done());
    let stranger = Lease { key: key(2), ..lease };
    assert!(!finish(&mut pool, seconds(1), B, &stranger, done()), "nobody knows B");
    // No client ever asks for this one.
    let mut all = vec![Held { key: JobKey { client: CLIENT + 1, number: 1 }, ..held(&stranger) }];
    pool.hear(seconds(2), profile(A, 1), &all);
    for now in 2..40 {
        pool.follow(seconds(now), CLIENT, &[], &[]);
        pool.tick(seconds(now));
        if !pool.beat(seconds(now), A, &all).unwrap().is_empty() {
            assert_eq!(now, 33, "30 s are over");
            all.clear();
        }
    }
    let running = rows(&pool, seconds(40)).jobs.iter().filter(|row| row.state == JobState::Running).count();
    assert_eq!((running, all.len()), (0, 0));
}

#[test]
fn what_one_cannot_another_may_and_what_nobody_can_fails_with_the_reason() {
    let mut pool = pool();
    let _nothing = (pull(&mut pool, seconds(0), A), pull(&mut pool, seconds(0), B));
    pool.submit(seconds(0), key(1), order()).unwrap();
    let first = only(pool.take(seconds(0), A));
    assert!(finish(&mut pool, seconds(0), A, &first, failed(FailureKind::Rejected)));
    let second = only(pool.take(seconds(0), B));
    assert!(finish(&mut pool, seconds(0), B, &second, failed(FailureKind::Rejected)));
    pool.tick(seconds(0));
    let Some(Ended { outcome: Outcome::Failed(failure), .. }) = end_of(&mut pool, seconds(0), 1) else {
        panic!()
    };
    assert_eq!(failure.kind, FailureKind::Rejected);
    assert!(failure.message.contains("no luck"), "{failure:?}");
    // Files that neither reaches say nothing of the job.
    pool.submit(seconds(0), key(9), order()).unwrap();
    for worker in [A, B] {
        let lease = only(pool.take(seconds(0), worker));
        assert!(finish(&mut pool, seconds(0), worker, &lease, failed(FailureKind::Unavailable)));
    }
    pool.tick(seconds(0));
    let ended = end_of(&mut pool, seconds(0), 9).unwrap().outcome;
    assert!(matches!(ended, Outcome::Failed(Failure { kind: FailureKind::Unavailable, .. })), "{ended:?}");
    // What they have not is not even tried.
    let lacking = [
        Order { needs: ["merge:sum".to_owned(), "filter:old".to_owned()].into(), ..order() },
        Order { spec_version: 2, ..order() },
    ];
    for (number, order) in (2..).zip(lacking) {
        pool.submit(seconds(1), key(number), order).unwrap();
        assert_eq!((pool.take(seconds(1), A), pool.take(seconds(1), B)), Default::default());
        pool.tick(seconds(1));
        assert_eq!(end_of(&mut pool, seconds(1), number), None, "somebody may come who can");
    }
    pool.tick(seconds(6));
    for (number, reason) in [(2, "filter:old"), (3, "version 2")] {
        let Some(Ended { outcome: Outcome::Failed(failure), .. }) = end_of(&mut pool, seconds(6), number)
        else {
            panic!("job {number} has no end");
        };
        assert!(failure.message.contains(reason), "{failure:?}");
    }
}

#[test]
fn of_other_parameters_it_is_said_who_has_which() {
    let mut pool = pool();
    let _nothing = pull(&mut pool, seconds(0), A);
    let needs = ["merge:sum#000000000000000a".to_owned()].into();
    pool.submit(seconds(0), key(1), Order { needs, ..order() }).unwrap();
    assert_eq!(pull(&mut pool, seconds(0), A), Pulled::default());
    pool.tick(seconds(0));
    pool.tick(seconds(6));
    let Some(Ended { outcome: Outcome::Failed(failure), .. }) = end_of(&mut pool, seconds(6), 1) else {
        panic!("it has no end");
    };
    assert_eq!(failure.kind, FailureKind::Rejected);
    let all =
        "(merge:sum#000000000000000a); one has merge:sum, which is of other parameters: register it there";
    assert!(failure.message.contains(all), "{failure:?}");
}

#[test]
fn whoever_cancels_or_goes_ends_the_work_and_whoever_drains_gives_it_back() {
    let mut pool = pool();
    let _nothing = pull(&mut pool, seconds(0), A);
    pool.submit(seconds(0), key(1), order()).unwrap();
    let lease = only(pool.take(seconds(0), A));
    assert!(pool.cancel(seconds(1), key(1)));
    assert!(!pool.cancel(seconds(1), key(1)) && !pool.cancel(seconds(1), key(9)));
    assert_eq!(pool.take(seconds(1), A).stop, [lease.token], "at once, not with the next beat");
    let Some(Ended { outcome: Outcome::Failed(failure), .. }) = end_of(&mut pool, seconds(1), 1) else {
        panic!()
    };
    assert_eq!(failure.kind, FailureKind::Cancelled);
    // A worker that takes nothing any more.
    pool.submit(seconds(2), key(2), order()).unwrap();
    let lease = only(pool.take(seconds(2), A));
    let drains = Profile { is_draining: true, ..profile(A, 1) };
    pool.hear(seconds(3), drains, &[held(&lease)]);
    assert!(finish(&mut pool, seconds(3), A, &lease, failed(FailureKind::Cancelled)));
    assert_eq!(pool.take(seconds(3), A), Pulled::default());
    let lease = only(pull(&mut pool, seconds(3), B));
    // The client goes.
    for now in 4..40 {
        let stop = pool.beat(seconds(now), B, &[held(&lease)]).unwrap();
        assert_eq!(stop.is_empty(), now < 34, "{now}");
        pool.tick(seconds(now));
        if !stop.is_empty() {
            break;
        }
    }
}

#[test]
fn a_worker_that_lives_and_gets_nowhere_loses_its_job() {
    let mut pool = pool();
    let _nothing = pull(&mut pool, seconds(0), A);
    pool.submit(seconds(0), key(1), order()).unwrap();
    let lease = only(pool.take(seconds(0), A));
    let mut lost_at = None;
    for now in 1..200 {
        // It reads for 50 s, and is at its outputs for 20 more.
        let at = Held { done_bytes: now.min(50), moved_bytes: now.min(70), ..held(&lease) };
        pool.follow(seconds(now), CLIENT, &[1], &[]);
        if !pool.beat(seconds(now), A, &[at]).unwrap().is_empty() {
            lost_at = Some(now);
            break;
        }
        pool.tick(seconds(now));
    }
    assert_eq!(lost_at, Some(132), "60 s after it wrote the last byte at 70 s");
}

/// When the worker A has lost the job that it has, of which it sends that `report` at each second.
fn lost_at(report: impl Fn(Held, u64) -> Held) -> Option<u64> {
    let mut pool = pool();
    let _nothing = pull(&mut pool, seconds(0), A);
    pool.submit(seconds(0), key(1), order()).unwrap();
    let lease = only(pool.take(seconds(0), A));
    (1..1000).find(|now| {
        pool.follow(seconds(*now), CLIENT, &[1], &[]);
        let stop = pool.beat(seconds(*now), A, &[report(held(&lease), *now)]).unwrap();
        pool.tick(seconds(*now));
        !stop.is_empty()
    })
}

#[test]
fn a_job_that_waits_for_a_sync_has_five_minutes_for_it() {
    // It writes for 70 s.
    let writes = |at: Held, now: u64| Held { done_bytes: 1, moved_bytes: now.min(70), ..at };
    let hangs = lost_at(|at, now| Held { is_syncing: now > 70, ..writes(at, now) });
    assert_eq!(hangs, Some(372), "300 s after it wrote the last byte");
    // After a sync of whatever length it has as long as any other, though it synced no byte.
    let ends = lost_at(|at, now| Held { is_syncing: (71..320).contains(&now), ..writes(at, now) });
    assert_eq!(ends, Some(382), "60 s after the sync ended at 320 s");
    let syncs = lost_at(|at, now| Held { moved_bytes: now / 200, is_syncing: true, ..at });
    assert_eq!(syncs, None, "each of its syncs ends");
}

#[test]
fn results_that_are_too_long_for_one_answer_come_one_after_another() {
    let mut pool = Pool::new(Limits { answer_bytes_max: 100, ..Limits::default() }, 1);
    for (number, bytes) in [150, 60, 40, 1].into_iter().enumerate() {
        pool.submit(seconds(0), key(number as u64), order()).unwrap();
        let lease = only(pull(&mut pool, seconds(1), A));
        assert!(finish(&mut pool, seconds(2), A, &lease, Outcome::Done(vec![8; bytes])));
    }
    let mut ended = |waiting: &[u64], taken: &[u64]| -> Vec<u64> {
        let (ended, unknown) = pool.follow(seconds(3), CLIENT, waiting, taken);
        assert!(unknown.is_empty(), "{unknown:?}");
        ended.into_iter().map(|(number, _)| number).collect()
    };
    assert_eq!(ended(&[0, 1, 2, 3], &[]), [0], "the first, however long");
    assert_eq!(ended(&[1, 2, 3], &[0]), [1, 2]);
    assert_eq!(ended(&[1, 2, 3], &[]), [1, 2], "until they are taken");
    assert_eq!(ended(&[3], &[1, 2]), [3]);
}

#[test]
fn slots_are_divided_among_those_who_have_jobs() {
    let mut pool = pool();
    assert_eq!(pool.slots_for_each(seconds(0)), 0, "nobody is there");
    pool.hear(seconds(0), profile(A, 3), &[]);
    pool.hear(seconds(0), profile(B, 4), &[]);
    assert_eq!(pool.slots_for_each(seconds(0)), 7);
    for client in [1, 1, 2] {
        pool.submit(seconds(0), JobKey { client, number: pool.next }, order()).unwrap();
    }
    assert_eq!(pool.slots_for_each(seconds(0)), 4, "two have jobs");
    pool.hear(seconds(1), Profile { is_draining: true, ..profile(B, 4) }, &[]);
    assert_eq!(pool.slots_for_each(seconds(1)), 2);
    assert_eq!(pool.slots_for_each(seconds(11)), 0, "they are not heard of any more");
}

#[test]
fn each_scheduler_decides_what_the_pool_does() {
    for scheduler in Scheduler::ALL {
        assert_eq!(Scheduler::from_name(scheduler.name()), Some(scheduler));
        let mut pool = Pool::new(Limits { scheduler, ..Limits::default() }, 1);
        for worker in [A, B] {
            pool.hear(seconds(0), profile(worker, 8), &[]);
        }
        for number in 0..8 {
            pool.submit(seconds(number), key(number), order()).unwrap();
        }
        let leases = [A, B].map(|worker| pool.take(seconds(8), worker).leases.len());
        match scheduler {
            Scheduler::Fifo => assert_eq!(leases, [8, 0]),
            Scheduler::LeastLoaded => assert_eq!(leases, [4, 4]),
            Scheduler::Random | Scheduler::Urgency => {
                assert!(leases[0] + leases[1] == 8 && leases.iter().all(|count| *count > 0), "{leases:?}");
            }
        }
    }
    assert_eq!(Scheduler::from_name("best"), None);
}
