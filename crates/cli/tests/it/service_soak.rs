//! A database whose compactions and collections others do, while everybody is killed, stopped, cut off, doubled and lied to: nothing is lost,
//! doubled or brought back, and no file is left over.
//!
//! The store fails one request in twenty, half of them after they were done. There are two control planes. One worker's clock jumps. With
//! a network of its own one worker is cut off now and then. Two machines take the database from one another.

mod clients; // what is written, and what must be found
mod counted; // counters and lists, which show what was done twice
mod fleet; // processes, and what befalls them
mod network; // a machine behind a wire that can be cut

use std::time::{Duration, Instant};

use self::clients::Clients;
use self::fleet::{Fleet, Tally};
use self::network::Network;

/// Runs until workers have done `jobs`; what happened.
fn soak(jobs: u64, seed: u64, network: Network) -> Tally {
    println!("FIRN_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let mut fleet = Fleet::start(network, seed);
    let mut clients = Clients::new(seed);
    let began = Instant::now();
    let (mut told, mut rounds) = (0, 0);
    while fleet.tally.done_elsewhere() < jobs {
        clients
            .write(fleet.address(), &mut random, |random, is_over| fleet.something_happens(random, is_over));
        // Reading all of a database that has just been opened takes as long as writing it.
        rounds += 1;
        if rounds % 4 == 0 {
            clients.check(fleet.address());
        }
        fleet.count_jobs();
        let done = fleet.tally.done_elsewhere();
        if done >= told + 100 {
            told = done;
            println!("{done} jobs of {jobs} in {:.0} s: {}", began.elapsed().as_secs_f64(), fleet.tally);
        }
        assert!(began.elapsed() < Duration::from_secs(jobs.max(600)), "{done} jobs only: {}", fleet.tally);
    }
    fleet.heal();
    clients.check(fleet.address());
    clients.check_nothing_else(fleet.address());
    let tally = fleet.end();
    println!(
        "{} jobs in {:.0} s, {} writes acknowledged: {tally}",
        tally.done_elsewhere(),
        began.elapsed().as_secs_f64(),
        clients.acknowledged
    );
    tally
}

#[expect(clippy::disallowed_methods, reason = "a test's seed and length come from its caller")]
fn given(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn two_hundred_jobs_of_a_troubled_fleet_lose_nothing() {
    let tally = soak(200, given("FIRN_SEED", 1), Network::none());
    assert!(tally.workers_killed > 0 && tally.planes_killed > 0 && tally.databases_lost > 0, "{tally}");
}

/// `FIRN_JOBS` of them. Wants root, `ip` and `unshare`, for a network that nobody else sees, and libfaketime.
#[test]
#[ignore = "an hour; cargo x soak runs it"]
fn many_jobs_of_a_troubled_fleet_lose_nothing() {
    if !network::is_inside() {
        return network::run_inside("service_soak::many_jobs_of_a_troubled_fleet_lose_nothing");
    }
    let tally = soak(given("FIRN_JOBS", 10_000), given("FIRN_SEED", 1), Network::with_wire());
    let happened = [
        tally.workers_killed,
        tally.workers_stopped,
        tally.workers_cut_off,
        tally.planes_killed,
        tally.databases_lost,
        tally.takeovers,
        tally.store_restarts,
        tally.clock_jumps,
    ];
    assert!(happened.iter().all(|count| *count > 0), "{tally}");
}
