//! Many databases on a few workers, and what the control plane's decisions are worth.

use firn_sim::fleet::{Decider, Outcome, Plan, compare, run};

const PLAN: Plan = Plan {
    databases: 100,
    workers: 20,
    slots: 2,
    zones: 2,
    seconds: 1200,
    load: 1.4,
    flood: 0,
    heavy: 0.0,
    crashes: 0.0,
    own: 0.0,
    seed: 1,
};

#[test]
fn decisions_save_stalls_and_starve_nobody() {
    let report = compare(&PLAN, false);
    println!("{report}");
    let [ideal, ours, random, fifo, least_loaded] =
        [Decider::Ideal, Decider::Schedule, Decider::Random, Decider::Fifo, Decider::LeastLoaded]
            .map(|decider| report.of(decider).clone());
    assert!(ideal.stalled_seconds > 100.0, "otherwise it is too easy");
    for other in [&random, &fifo, &least_loaded] {
        assert!(ours.stalled_seconds * 5.0 < other.stalled_seconds, "{ours:?} {other:?}");
        assert!(ours.taken_min > other.taken_min, "{ours:?} {other:?}");
    }
    assert!(ours.stalled_seconds < ideal.stalled_seconds * 1.3, "{ours:?} {ideal:?}");
    assert!(ours.waited_seconds_max < 310.0, "waiting has an end: {ours:?}");
    assert!(ours.busy > 0.9, "{ours:?}");
}

#[test]
fn a_tenant_that_wants_everything_gets_what_others_leave() {
    let plan = Plan { load: 0.8, flood: 200, ..PLAN };
    let report = compare(&plan, false);
    println!("{report}");
    let [ours, random, fifo, least_loaded] =
        [Decider::Schedule, Decider::Random, Decider::Fifo, Decider::LeastLoaded]
            .map(|decider| report.of(decider).clone());
    for other in [&random, &fifo, &least_loaded] {
        assert!(ours.stalled_seconds * 100.0 < other.stalled_seconds, "{ours:?} {other:?}");
    }
    let without = run(&Plan { flood: 0, ..plan }, Decider::Schedule);
    assert!(
        ours.stalled_seconds < without.stalled_seconds + 10.0,
        "nobody else notices: {ours:?} {without:?}"
    );
    assert!(ours.taken_min > 0.99 && ours.wasted_bytes < 1e9, "nothing is stopped for it: {ours:?}");
    // A third of all slots is free without it.
    assert!(ours.flood_bytes[0] > f64::from(600 << 20) * 1024.0 && ours.busy > 0.9, "nor is it: {ours:?}");
    let overloaded = run(&Plan { load: 1.4, ..plan }, Decider::Schedule);
    assert!(overloaded.flood_bytes[0] > 0.0 && overloaded.taken_min > 0.5, "{overloaded:?}");
}

#[test]
fn tenants_that_want_everything_share_what_others_leave_by_their_weights() {
    for load in [0.4, 0.8, 1.4] {
        let plan = Plan { load, flood: 100, heavy: 3.0, ..PLAN };
        let [ours, least_loaded] =
            [Decider::Schedule, Decider::LeastLoaded].map(|decider| run(&plan, decider));
        let times = |outcome: &Outcome| outcome.flood_bytes[1] / outcome.flood_bytes[0];
        assert!((times(&ours) - 3.0).abs() < 0.2, "load {load}: {ours:?}");
        assert!(
            (times(&least_loaded) - 1.0).abs() < 0.2,
            "load {load}, by nobody's weight: {least_loaded:?}"
        );
        assert!(ours.stalled_seconds * 10.0 < least_loaded.stalled_seconds, "{ours:?} {least_loaded:?}");
    }
}

#[test]
fn workers_that_are_killed_cost_what_they_had_begun_and_starve_nobody() {
    let plan = Plan { load: 1.2, crashes: 6.0, ..PLAN };
    let report = compare(&plan, false);
    println!("{report}");
    let ours = report.of(Decider::Schedule);
    for other in [Decider::Random, Decider::Fifo, Decider::LeastLoaded].map(|other| report.of(other)) {
        assert!(ours.stalled_seconds * 5.0 < other.stalled_seconds, "{ours:?} {other:?}");
    }
    assert!(ours.crashes > 20 && ours.wasted_bytes > 1e9, "otherwise it is too easy: {ours:?}");
    assert!(ours.stalled_seconds < report.of(Decider::Ideal).stalled_seconds * 2.0, "{ours:?}");
    assert!(ours.waited_seconds_max < 310.0 && ours.taken_min > 0.8, "nobody starves: {ours:?}");
    // A job of a killed worker waits for the end of its lease.
    let [enough, unhurt] =
        [6.0, 0.0].map(|crashes| run(&Plan { load: 0.4, crashes, ..PLAN }, Decider::Schedule));
    assert!(enough.crashes > 20 && enough.stalled_seconds == 0.0, "{enough:?}");
    let later = enough.waited_seconds_max - unhurt.waited_seconds_max;
    assert!((8.0..12.0).contains(&later), "{enough:?} {unhurt:?}");
}

#[test]
fn nobody_waits_where_there_is_enough_for_all() {
    let outcome = run(&Plan { load: 0.6, ..PLAN }, Decider::Schedule);
    assert_eq!(outcome.stalled_seconds, 0.0, "{outcome:?}");
    assert!(outcome.waited_seconds_max < 15.0 && outcome.wasted_bytes == 0.0, "{outcome:?}");
}

#[test]
fn a_run_is_a_function_of_its_seed() {
    let plan = Plan { seconds: 60, ..PLAN };
    for decider in [Decider::Schedule, Decider::Random] {
        assert_eq!(run(&plan, decider), run(&plan, decider));
        assert_ne!(run(&plan, decider), run(&Plan { seed: 2, ..plan }, decider));
    }
}

#[test]
fn databases_that_do_themselves_what_waits_for_too_long_let_writers_stand_still_less() {
    let with_own = |load| Plan { load, own: 128.0, ..PLAN };
    for decider in [Decider::Schedule, Decider::Fifo] {
        let (patient, own) = (run(&PLAN, decider), run(&with_own(PLAN.load), decider));
        assert_eq!((patient.own_jobs, patient.own_bytes), (0, 0.0));
        assert!(own.own_jobs > 0 && own.own_jobs < own.jobs, "{own:?}");
        assert!(own.stalled_seconds < patient.stalled_seconds / 2.0, "{patient:?} {own:?}");
        assert!(own.taken_min > patient.taken_min, "{patient:?} {own:?}");
        assert_eq!(own, run(&with_own(PLAN.load), decider));
    }
    let enough = run(&with_own(0.4), Decider::Schedule);
    assert!(enough.own_jobs * 100 < enough.jobs, "workers are enough: {enough:?}");
}

#[test]
fn who_knows_what_will_be_written_lets_writers_stand_still_less() {
    let plan = Plan { databases: 20, workers: 4, seconds: 300, load: 1.5, ..PLAN };
    let report = compare(&plan, true);
    println!("{report}");
    let [ideal, oracle, ours] = [Decider::Ideal, Decider::Oracle, Decider::Schedule]
        .map(|decider| report.of(decider).stalled_seconds);
    assert!(ours > 20.0, "otherwise it is too easy");
    assert!(ideal <= oracle && oracle < ours, "{ideal} {oracle} {ours}");
    assert!(ours < oracle * 1.3, "{ours} seconds, and {oracle} for who knows the future");
}

/// At a load where an ideal's writers hardly stand still.
#[test]
#[ignore = "minutes: the full tier runs it"]
fn a_thousand_databases_on_a_hundred_workers_wait_for_as_long() {
    let plan = Plan { databases: 1000, workers: 100, slots: 4, load: 1.2, ..PLAN };
    let report = compare(&plan, false);
    println!("{report}");
    let ours = report.of(Decider::Schedule).clone();
    for other in [Decider::Random, Decider::Fifo, Decider::LeastLoaded] {
        let other = report.of(other);
        assert!(ours.stalled_seconds * 5.0 < other.stalled_seconds, "{ours:?} {other:?}");
    }
    assert!(ours.waited_seconds_max < 310.0, "waiting has an end: {ours:?}");
    assert!(ours.taken_min > 0.8, "nobody starves: {ours:?}");
}

/// 1.24 when it was written; the goal is 1.3.
#[test]
#[ignore = "minutes: the full tier runs it"]
fn a_hundred_databases_stand_still_for_little_longer_than_with_an_oracle() {
    let report = compare(&Plan { seconds: 600, load: 1.2, ..PLAN }, true);
    println!("{report}");
    let [oracle, ours] = [Decider::Oracle, Decider::Schedule].map(|it| report.of(it).stalled_seconds);
    assert!(oracle > 50.0, "otherwise it is too easy");
    assert!(ours < oracle * 1.3, "{ours} seconds, and {oracle} for who knows the future");
}
