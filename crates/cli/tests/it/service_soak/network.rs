//! A network that nobody else sees, with one machine behind a wire that can be cut.

use std::net::{IpAddr, Ipv4Addr};
use std::process::Command;

/// Where the servers of a soak listen, and where the machine behind the wire is.
#[derive(Debug)]
pub(super) struct Network {
    /// The name of the other machine's namespace; `None` = there is only this machine.
    namespace: Option<String>,
}

/// This end of the wire.
const HERE: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
/// What says that this process is in a namespace of its own.
const INSIDE: &str = "FIRN_SOAK_NETWORK";

pub(super) fn is_inside() -> bool {
    std::env::var_os(INSIDE).is_some()
}

/// Runs the test `name` again, in a network namespace of its own.
pub(super) fn run_inside(name: &str) {
    let program = std::env::current_exe().expect("it runs");
    let mut command = Command::new("unshare");
    command
        .args(["--net", "--"])
        .arg(program)
        .args(["--exact", name, "--ignored", "--nocapture"])
        .env(INSIDE, "1");
    assert!(
        command.status().expect("unshare is there, and this is root").success(),
        "{name} in a network of its own"
    );
}

fn ip(words: &str) {
    let status = Command::new("ip").args(words.split_whitespace()).status().expect("ip is there");
    assert!(status.success(), "ip {words}");
}

impl Network {
    /// Everybody is on this machine.
    pub(super) fn none() -> Self {
        Self { namespace: None }
    }

    /// Another machine, behind a wire. This process MUST be in a namespace of its own.
    pub(super) fn with_wire() -> Self {
        let namespace = format!("firn-soak-{}", std::process::id());
        ip("link set lo up");
        ip(&format!("netns add {namespace}"));
        ip("link add firn-here type veth peer name firn-there");
        ip(&format!("link set firn-there netns {namespace}"));
        ip(&format!("addr add {HERE}/24 dev firn-here"));
        ip("link set firn-here up");
        ip(&format!("-n {namespace} addr add 10.77.0.2/24 dev firn-there"));
        ip(&format!("-n {namespace} link set firn-there up"));
        ip(&format!("-n {namespace} link set lo up"));
        Self { namespace: Some(namespace) }
    }

    pub(super) fn has_wire(&self) -> bool {
        self.namespace.is_some()
    }

    /// Where servers listen that both machines reach.
    pub(super) fn address(&self) -> IpAddr {
        if self.has_wire() { HERE.into() } else { Ipv4Addr::LOCALHOST.into() }
    }

    /// `program`, to be run on the other machine.
    pub(super) fn there(&self, program: &str) -> Command {
        let Some(namespace) = &self.namespace else { return Command::new(program) };
        let mut command = Command::new("ip");
        command.args(["netns", "exec", namespace, program]);
        command
    }

    /// Cuts the wire, or mends it.
    pub(super) fn cut(&self, is_cut: bool) {
        ip(&format!("link set firn-here {}", if is_cut { "down" } else { "up" }));
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        if let Some(namespace) = &self.namespace {
            let _removed = Command::new("ip").args(["netns", "del", namespace]).status();
        }
    }
}
