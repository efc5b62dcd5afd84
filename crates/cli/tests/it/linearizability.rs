//! Clients on different workers, data that is not in memory, and histories that must be
//! linearizable.

mod clients;
mod killed;
mod slow;
mod cold;

use std::sync::atomic::{AtomicBool, Ordering};

/// Says that it is over when it is dropped, by a panic too.
struct Ends<'e>(&'e AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

fn seed() -> u64 {
    let given = std::env::var("FIRN_SEED").ok().and_then(|text| text.parse().ok());
    given.unwrap_or_else(|| fastrand::u64(..))
}

#[test]
fn what_clients_see_is_linearizable_although_reads_wait_for_files() {
    cold::check_reads(500);
}

#[test]
fn what_clients_see_is_linearizable_although_the_server_is_killed() {
    killed::check_rounds(killed::TREE, 1, 300, 4);
}

#[test]
fn what_clients_of_the_hashed_engine_see_is_linearizable_although_it_is_killed() {
    killed::check_rounds(killed::HASHLOG, 1, 300, 4);
}

#[test]
#[ignore = "minutes: the soak runs it"]
fn many_rounds_are_linearizable() {
    for kind in [killed::TREE, killed::HASHLOG] {
        killed::check_rounds(kind, 10, 1000, 10);
    }
}
