//! Decisions in small views, each for one rule.

use std::collections::BTreeSet;

use super::super::{Elsewhere, JobId, Running, Speed, TenantId, WorkerId, Zone, fifo, least_loaded, random};
use super::*;

mod whole; // against all jobs one after the other

const MIB: u64 = 1 << 20;

fn job(id: u64, lane: Lane, mib: u64) -> Waiting {
    Waiting {
        id: JobId(id),
        tenant: TenantId(id as u32),
        lane,
        bytes: mib * MIB,
        zone: Zone(1),
        waited: Duration::ZERO,
        stalls_in: None,
        refused_by: BTreeSet::new(),
    }
}

fn relief(id: u64, mib: u64, stalls_in_s: u64) -> Waiting {
    Waiting { stalls_in: Some(Duration::from_secs(stalls_in_s)), ..job(id, Lane::Relief, mib) }
}

/// 100 MiB a second near, a tenth of that far. Jobs' files are in zone 1; near to them are 1 and 0.
fn worker(id: u64, zone: u32, slots: u32) -> Worker {
    let speed = |mib: u64| Speed { bytes_per_second: (mib * MIB) as f64, open: Duration::from_millis(50) };
    Worker {
        id: WorkerId(id),
        zone: Zone(zone),
        slots,
        running: Vec::new(),
        elsewhere: Elsewhere::default(),
        near: speed(100),
        far: speed(10),
    }
}

fn running(id: u64, lane: Lane, done: u64) -> Running {
    Running {
        id: JobId(id),
        tenant: TenantId(id as u32),
        waited: Duration::ZERO,
        lane,
        zone: Zone(1),
        bytes: 1000 * MIB,
        bytes_done: done * MIB,
    }
}

fn lease(job: u64, worker: u64) -> Decision {
    Decision::Lease { job: JobId(job), worker: WorkerId(worker) }
}

#[test]
fn what_stalls_soonest_for_its_length_goes_first() {
    // The second stalls later, but takes so long that it has less slack.
    let waiting = vec![relief(1, 100, 20), relief(2, 3000, 40), job(3, Lane::Bulk, 10), relief(4, 100, 90)];
    let view = View { waiting, workers: vec![worker(1, 0, 1)], ..View::default() };
    assert_eq!(schedule(&view), [lease(2, 1)]);
    let view = View { workers: vec![worker(1, 0, 4)], ..view };
    assert_eq!(schedule(&view), [lease(2, 1), lease(1, 1), lease(4, 1), lease(3, 1)]);
}

#[test]
fn a_job_goes_where_it_is_done_first_and_never_where_it_was_refused() {
    let workers = vec![worker(1, 7, 2), worker(2, 0, 1), worker(3, 0, 2)];
    let mut first = relief(1, 100, 20);
    first.refused_by.insert(WorkerId(2));
    let waiting = vec![first, relief(2, 100, 30), relief(3, 100, 40), relief(4, 100, 50)];
    let view = View { waiting, workers, ..View::default() };
    assert_eq!(
        schedule(&view),
        [lease(1, 3), lease(2, 2), lease(3, 3)],
        "the last is done sooner by waiting"
    );
    // Where what is near is busy for long, what is far is better than that.
    let mut busy = worker(2, 0, 1);
    busy.running.push(running(91, Lane::Relief, 0));
    let workers = vec![worker(1, 7, 1), busy.clone()];
    let waiting = vec![relief(4, 50, 50), relief(5, 200, 60)];
    let far = View { waiting: waiting.clone(), workers, ..View::default() };
    assert_eq!(schedule(&far), [lease(4, 1)]);
    busy.running = vec![running(91, Lane::Relief, 900)];
    let soon = View { waiting, workers: vec![worker(1, 7, 1), busy], ..View::default() };
    assert_eq!(schedule(&soon), []);
    let mut nowhere = relief(9, 100, 1);
    nowhere.refused_by = [1, 2, 3].map(WorkerId).into();
    assert_eq!(schedule(&View { waiting: vec![nowhere], ..view }), []);
}

#[test]
fn what_nobody_has_said_where_it_is_is_near_to_everybody() {
    // A near worker is worth waiting for where the other is far.
    let mut busy = worker(2, 1, 1);
    busy.running.push(running(91, Lane::Relief, 900));
    for (zone_of_files, zone, expected) in
        [(1, 7, vec![]), (0, 7, vec![lease(1, 1)]), (1, 0, vec![lease(1, 1)]), (0, 0, vec![lease(1, 1)])]
    {
        let waiting = vec![Waiting { zone: Zone(zone_of_files), ..relief(1, 200, 60) }];
        let view = View { waiting, workers: vec![worker(1, zone, 1), busy.clone()], ..View::default() };
        assert_eq!(schedule(&view), expected, "files in zone {zone_of_files}, a worker in zone {zone}");
    }
}

/// The only worker stops `job` for `relief`.
fn stop(job: u64, relief: u64) -> Decision {
    Decision::Preempt { job: JobId(job), worker: WorkerId(1), relief: JobId(relief) }
}

#[test]
fn bulk_leaves_slots_to_relief_and_is_stopped_where_it_would_come_too_late() {
    let bulk: Vec<Waiting> = (1..=20).map(|id| job(id, Lane::Bulk, 100)).collect();
    let view = View { waiting: bulk.clone(), workers: vec![worker(1, 0, 16)], ..View::default() };
    assert_eq!(schedule(&view).len(), 14, "an eighth is kept");
    let one = View { workers: vec![worker(1, 0, 1)], ..view };
    assert_eq!(schedule(&one).len(), 1, "the only slot is for everybody");
    let mut busy = worker(1, 0, 3);
    busy.running =
        vec![running(91, Lane::Bulk, 300), running(92, Lane::Bulk, 20), running(93, Lane::Relief, 1)];
    let late = View { waiting: vec![relief(1, 1000, 2)], workers: vec![busy.clone()], ..View::default() };
    assert_eq!(schedule(&late), [stop(92, 1)]);
    let mut old = late.clone();
    old.workers[0].running[1].waited = WAIT_MAX;
    assert_eq!(schedule(&old), [stop(91, 1)], "it would come first again");
    old.owed.insert(TenantId(91), 1.0);
    assert_eq!(schedule(&old), []);
    let in_time = View { waiting: vec![relief(1, 1000, 60)], ..late.clone() };
    assert_eq!(schedule(&in_time), [], "it can wait");
    let several = View { waiting: vec![relief(1, 1000, 2), relief(2, 1000, 1), relief(3, 1000, 3)], ..late };
    let stopped = schedule(&several);
    assert_eq!(stopped, [stop(92, 1), stop(91, 2)], "relief is not stopped for relief");
    // What is nearly done is waited for.
    let mut ending = worker(1, 0, 1);
    ending.running.push(running(91, Lane::Bulk, 950));
    assert_eq!(
        schedule(&View { waiting: vec![relief(1, 1000, 2)], workers: vec![ending], ..View::default() }),
        []
    );
}

#[test]
fn what_is_owed_and_what_has_waited_too_long_goes_before_what_is_urgent() {
    let mut owed = job(1, Lane::Bulk, 100);
    owed.tenant = TenantId(77);
    let mut old = job(2, Lane::Bulk, 100);
    old.waited = WAIT_MAX + Duration::from_secs(10);
    let waiting = vec![relief(3, 100, 1), owed, old];
    let view =
        View { waiting, workers: vec![worker(1, 0, 5)], owed: [(TenantId(77), 100.0 * MIB as f64)].into() };
    assert_eq!(schedule(&view), [lease(1, 1), lease(2, 1), lease(3, 1)]);
}

#[test]
fn who_is_ahead_waits_a_second_longer_for_each_mib_of_that() {
    const AHEAD_MIB: u64 = 4608;
    let first = |waited_s| {
        let ahead = Waiting { waited: Duration::from_secs(waited_s), ..job(1, Lane::Bulk, 100) };
        let owed = [(ahead.tenant, -((AHEAD_MIB * MIB) as f64))].into();
        schedule(&View { waiting: vec![ahead, relief(2, 100, 1)], workers: vec![worker(1, 0, 1)], owed })
    };
    assert_eq!(first(300 + AHEAD_MIB - 1), [lease(2, 1)]);
    assert_eq!(first(300 + AHEAD_MIB + 1), [lease(1, 1)]);
}

/// Where jobs are short beside what is left the worth of all of them is as good as nothing; it is
/// more for some, nevertheless.
#[test]
fn what_stalls_sooner_goes_first_however_far_away_that_is() {
    let waiting = vec![relief(1, 1, 59), relief(2, 1, 40), job(3, Lane::Bulk, 1), relief(4, 1, 20)];
    let mut fast = worker(1, 0, 1);
    fast.near = Speed { bytes_per_second: (1024 * MIB) as f64, open: Duration::ZERO };
    let view = View { waiting, workers: vec![fast], ..View::default() };
    assert_eq!(schedule(&view), [lease(4, 1)]);
}

#[test]
fn baselines_give_slots_to_those_who_wait() {
    let waiting = vec![job(1, Lane::Bulk, 100), relief(2, 100, 5), job(3, Lane::Bulk, 100)];
    let mut busy = worker(1, 0, 2);
    busy.running.push(running(90, Lane::Bulk, 0));
    let view = View { waiting, workers: vec![busy, worker(2, 0, 1)], ..View::default() };
    assert_eq!(fifo(&view), [lease(1, 1), lease(2, 2)]);
    assert_eq!(least_loaded(&view), [lease(2, 2), lease(1, 1)]);
    let drawn: BTreeSet<String> = (0..50).map(|seed| format!("{:?}", random(&view, seed))).collect();
    assert!(drawn.len() > 4 && (0..50).all(|seed| random(&view, seed).len() == 2), "{drawn:?}");
}
