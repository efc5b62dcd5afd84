//! A server in this process, spoken to through its socket: every test by each network.

#![expect(clippy::duplicate_mod, reason = "each network has all tests")]

mod epoll;
mod ring;

/// Names of the modules that a file declares.
fn modules(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';')).collect()
}

#[test]
fn each_network_has_all_tests() {
    let (epoll, ring) = (modules(include_str!("epoll.rs")), modules(include_str!("ring.rs")));
    assert_eq!(epoll, ring);
    assert!(ring.len() > 1, "{ring:?}");
}
