//! A server in this process, spoken to through its socket: what concerns sockets by each network.

#![expect(clippy::disallowed_methods, reason = "tests wait for a server, by the machine's clock")]
#![expect(clippy::duplicate_mod, reason = "each network has its tests")]

mod epoll;
mod hashed;
mod ring;

/// Names of the modules that a file declares.
fn modules(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';')).collect()
}

/// What is tested by epoll alone: what commands answer, which is the same for both, and HTTP, which
/// has a thread of its own.
const BY_ONE: [&str; 9] =
    ["databases", "members", "ordered", "reference", "server", "set_back", "http", "blob_metrics", "faults"];

#[test]
fn what_concerns_sockets_is_tested_by_each_network() {
    let (mut epoll, ring) = (modules(include_str!("epoll.rs")), modules(include_str!("ring.rs")));
    assert!(BY_ONE.iter().all(|name| epoll.contains(name)), "{epoll:?}");
    epoll.retain(|name| !BY_ONE.contains(name));
    assert_eq!(epoll, ring, "by each network, or named in BY_ONE");
}
