//! A server in this process, spoken to through its socket: what concerns sockets by each network.

#![expect(clippy::disallowed_methods, reason = "tests wait for a server, by the machine's clock")]
#![expect(clippy::duplicate_mod, reason = "each network has its tests")]

mod epoll;
mod ring;

/// Names of the modules that a file declares.
fn modules(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';')).collect()
}

#[test]
fn what_concerns_sockets_is_tested_by_each_network() {
    let (epoll, ring) = (modules(include_str!("epoll.rs")), modules(include_str!("ring.rs")));
    assert!(ring.iter().all(|name| epoll.contains(name)), "{ring:?}");
    assert!(ring.contains(&"pressure") && ring.len() > 5, "{ring:?}");
}
