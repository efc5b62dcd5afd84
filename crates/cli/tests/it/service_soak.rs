//! A database whose compactions and GCs workers do, while processes are killed, stopped,
//! cut off, doubled and lied to. Nothing is lost, doubled or brought back, no worker's answer is
//! wrong, and no file is left over. At the end it has what a database has that is told the same and
//! does all by itself.
//!
//! The store fails one request in twenty, half of them after they were done. There are two control
//! planes. The clocks of a worker, of a control plane and of a machine with the database jump,
//! where there is a library that fakes time. With networks of their own workers are cut off now and
//! then. Two machines take the database from one another, asleep and at work. Each kind of trouble
//! that is possible happens once at least.

pub(crate) mod clients; // what is written, and what must be found
mod clocks; // time as some processes see it
mod given_up; // connections on which a server may still do what came
mod counted; // counters and lists, which show what was done twice
mod history; // what was done, in its order, to be done again
pub(crate) mod content; // what a database has, in one number
pub(crate) mod answers; // whether a worker was wrong
mod trouble; // what can befall the fleet
mod member; // a process, and how it stands still
mod fleet; // processes, and what befalls them
mod reader; // questions that a signal may interrupt
mod keys; // what keys become, and what they may be found to be
mod leftovers; // what lies in the store of which nothing speaks
mod local; // the same by a database alone
mod network; // machines behind wires that can be cut

use std::time::{Duration, Instant};

use self::clients::Clients;
use self::content::Content;
use self::fleet::{Fleet, WORKERS};
use self::local::Local;
use self::network::Network;
use self::trouble::{Tally, Trouble};

/// What attempts left that came to nothing is removed after 60 s. It takes 30 s to learn that a
/// worker is gone, and a while to do it.
const ORPHAN_GC_MAX: Duration = Duration::from_secs(150);

/// How long clients wait after each batch so that writers are not about to stop. Of jobs that end
/// then every other one is done twice.
const PAUSE: Duration = Duration::from_millis(50);

/// Runs until workers have done `jobs` and everything has happened; what did. With `orphan_gc` it
/// is waited for what an open database removes by itself.
fn soak(jobs: u64, seed: u64, network: Network, orphan_gc: bool) -> Tally {
    println!("FIRN_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let mut fleet = Fleet::start(network, seed);
    let mut clients = Clients::new(seed);
    let began = Instant::now();
    let (mut reported, mut rounds) = (0, 0);
    loop {
        let is_enough = fleet.tally.done_elsewhere() >= jobs && fleet.has_seen_everything();
        if is_enough && fleet.tally.jobs().again > 0 {
            break;
        }
        clients.pause = if is_enough { PAUSE } else { Duration::ZERO };
        clients
            .write(fleet.address(), &mut random, |random, is_over| fleet.something_happens(random, is_over));
        // Reading all of a database that has just been opened takes as long as writing it.
        rounds += 1;
        if rounds % 4 == 0 {
            clients.check(fleet.address());
        }
        fleet.count_jobs();
        fleet.tally.expect_right_answers();
        let done = fleet.tally.done_elsewhere();
        if done >= reported + 100 {
            reported = done;
            println!("{done} jobs of {jobs} in {:.0} s: {}", began.elapsed().as_secs_f64(), fleet.tally);
        }
        assert!(began.elapsed() < Duration::from_secs(jobs.max(600)), "{done} jobs only: {}", fleet.tally);
    }
    if orphan_gc {
        // What workers of an opening before leave is looked for once in an hour.
        fleet.start_again();
        for _ in 0..3 {
            clients
                .write(fleet.address(), &mut random, |random, is_over| fleet.workers_fail(random, is_over));
        }
    }
    fleet.heal();
    clients.check(fleet.address());
    clients.check_nothing_else(fleet.address());
    let content = content_of_local_run(&fleet, &clients);
    let left = match orphan_gc {
        true => fleet.leftovers(ORPHAN_GC_MAX, |left| left.outputs.is_empty() && left.others.is_empty()),
        // What was left to compact goes on meanwhile, and what an edit ends is there for a moment.
        false => fleet.leftovers(ORPHAN_GC_MAX, |left| left.others.is_empty()),
    };
    println!("outputs that nobody waits for: {}, {} bytes", left.outputs.len(), left.output_bytes);
    assert!(
        left.others.is_empty() && (!orphan_gc || left.outputs.is_empty()),
        "left in the store: {left:#?}"
    );
    let tally = fleet.end();
    tally.expect_right_answers();
    println!(
        "{} jobs in {:.0} s, {} writes acknowledged, {content}: {tally}",
        tally.done_elsewhere(),
        began.elapsed().as_secs_f64(),
        clients.acknowledged
    );
    tally
}

/// Expects that the database has what a database without workers has that was told the same; says
/// what that is.
fn content_of_local_run(fleet: &Fleet, clients: &Clients) -> String {
    let (content, local) = (Content::read(&fleet.address()), Local::replay(clients));
    let own = local.content();
    assert!(content == own, "{content}, and a local run has {own}");
    // A single key less is noticed.
    local.lose_one();
    assert!(local.content() != own, "a key less, and still {own}");
    format!("{content}, as a local run of {} jobs has", local.jobs)
}

#[expect(clippy::disallowed_methods, reason = "a test's seed and length come from its caller")]
fn given(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn a_few_jobs_of_a_troubled_fleet_lose_nothing() {
    let tally = soak(40, given("FIRN_SEED", 1), Network::none(), false);
    assert!(Trouble::ANYWHERE.iter().any(|kind| tally.count(*kind) > 0), "{tally}");
}

#[test]
#[ignore = "minutes; the full tier runs it"]
fn two_hundred_jobs_of_a_troubled_fleet_lose_nothing() {
    let tally = soak(200, given("FIRN_SEED", 1), Network::none(), false);
    assert!(Trouble::ANYWHERE.iter().all(|kind| tally.count(*kind) > 0), "{tally}");
}

/// `FIRN_JOBS` of them. Wants root, `ip` and `unshare`, for networks that no other process sees,
/// and libfaketime.
#[test]
#[ignore = "an hour; cargo x soak runs it"]
fn many_jobs_of_a_troubled_fleet_lose_nothing() {
    if !network::is_inside() {
        return network::run_inside("service_soak::many_jobs_of_a_troubled_fleet_lose_nothing");
    }
    assert!(
        clocks::fake_time().is_some(),
        "libfaketime is missing, without which no clock jumps: install Debian's package faketime"
    );
    let jobs = given("FIRN_JOBS", 10_000);
    let tally = soak(jobs, given("FIRN_SEED", 1), Network::with_wires(WORKERS), true);
    let everything = [&Trouble::ANYWHERE[..], &Trouble::CLOCKS, &[Trouble::WorkerCutOff]].concat();
    assert!(everything.iter().all(|kind| tally.count(*kind) > 0), "{tally}");
    assert!(tally.past_lease > 0 && tally.attempts.expired > 0, "{tally}");
}
