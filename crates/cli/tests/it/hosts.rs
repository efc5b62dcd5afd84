//! Addresses of this machine.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU8, Ordering};

/// A host that no other test has: a port that its test leaves stays free until that test takes it
/// again.
pub(crate) fn own_host() -> Ipv4Addr {
    static HOSTS: AtomicU8 = AtomicU8::new(1);
    let host = HOSTS.fetch_add(1, Ordering::Relaxed);
    assert_ne!(host, u8::MAX, "too many hosts");
    Ipv4Addr::new(127, 0, 2, host)
}
