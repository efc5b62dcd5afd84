//! A network that no other process sees, with machines behind wires that can be cut.

use std::net::{IpAddr, Ipv4Addr};
use std::process::Command;

use crate::hosts::own_host;

/// Where the servers of a soak listen, and where the machines behind wires are.
#[derive(Debug)]
pub(super) struct Network {
    /// The names of the other machines' namespaces; none = there is only this machine.
    namespaces: Vec<String>,
    /// This machine, at whatever end of a wire it is asked.
    here: Ipv4Addr,
}

/// This machine where there are wires.
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
    /// All processes are on this machine.
    pub(super) fn none() -> Self {
        Self { namespaces: Vec::new(), here: own_host() }
    }

    /// `count` other machines, each behind a wire of its own. This process MUST be in a namespace
    /// of its own.
    pub(super) fn with_wires(count: usize) -> Self {
        ip("link set lo up");
        // No wire has the address that servers listen at: it stays whichever is cut.
        ip(&format!("addr add {HERE}/32 dev lo"));
        let mut network = Self { namespaces: Vec::new(), here: HERE };
        for at in 0..count {
            let namespace = format!("firn-soak-{}-{at}", std::process::id());
            ip(&format!("netns add {namespace}"));
            network.namespaces.push(namespace.clone());
            let subnet = format!("10.77.{}", at + 1);
            ip(&format!("link add firn-here-{at} type veth peer name firn-there-{at}"));
            ip(&format!("link set firn-there-{at} netns {namespace}"));
            ip(&format!("addr add {subnet}.1/24 dev firn-here-{at}"));
            ip(&format!("link set firn-here-{at} up"));
            ip(&format!("-n {namespace} addr add {subnet}.2/24 dev firn-there-{at}"));
            ip(&format!("-n {namespace} link set firn-there-{at} up"));
            ip(&format!("-n {namespace} link set lo up"));
            ip(&format!("-n {namespace} route add default via {subnet}.1"));
        }
        network
    }

    pub(super) fn has_wires(&self) -> bool {
        !self.namespaces.is_empty()
    }

    /// Where servers listen that all machines reach.
    pub(super) fn address(&self) -> IpAddr {
        self.here.into()
    }

    /// `program`, to be run on machine `at`.
    pub(super) fn there(&self, at: usize, program: &str) -> Command {
        let Some(namespace) = self.namespaces.get(at) else { return Command::new(program) };
        let mut command = Command::new("ip");
        command.args(["netns", "exec", namespace, program]);
        command
    }

    /// Cuts the wire to machine `at`, or mends it.
    pub(super) fn cut(&self, at: usize, is_cut: bool) {
        ip(&format!("link set firn-here-{at} {}", if is_cut { "down" } else { "up" }));
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for namespace in &self.namespaces {
            let _removed = Command::new("ip").args(["netns", "del", namespace]).status();
        }
    }
}
