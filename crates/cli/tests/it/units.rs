//! What systemd is told: see docs/operate/systemd.md.

use std::collections::BTreeSet;
use std::process::Command;

use crate::program::firn;

const UNITS: [&str; 3] = ["firn.service", "firn-worker.service", "firn-control-plane.service"];

fn read(name: &str) -> String {
    let deploy = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy");
    std::fs::read_to_string(format!("{deploy}/{name}")).expect("it is read")
}

/// What a unit says from its user on: how it is confined.
fn confinement(unit: &str) -> BTreeSet<&str> {
    let lines = unit.lines().skip_while(|line| !line.starts_with("DynamicUser="));
    // One has a directory, and one speaks to no process on this machine.
    let own =
        |line: &&str| line.starts_with("StateDirectory") || line.starts_with("RestrictAddressFamilies=");
    lines.filter(|line| line.contains('=') && !line.starts_with('#') && !own(line)).collect()
}

#[test]
fn units_call_what_there_is_and_confine_it_alike() {
    let first = read(UNITS[0]);
    for name in UNITS {
        let unit = read(name);
        let start =
            unit.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/bin/firn ")).expect("a call");
        let mut words = start.split_whitespace();
        let help = firn(&[words.next().expect("a command"), "--help"]).ended(0);
        // Comments show what may be said beside that.
        let said = unit.split(|byte: char| byte.is_whitespace() || "=\"(),".contains(byte));
        for option in words.chain(said).filter(|word| word.starts_with("--")) {
            assert!(help.contains(&format!("{option} ")), "{name}: {option}");
        }
        assert_eq!(confinement(&unit), confinement(&first), "{name}");
        let families = unit.lines().find_map(|line| line.strip_prefix("RestrictAddressFamilies="));
        let has_sockets = families.expect("some").split(' ').any(|family| family == "AF_UNIX");
        assert_eq!(has_sockets, help.contains("socket"), "{name}");
    }
}

#[test]
fn systemd_takes_the_units() {
    let dir = tempfile::tempdir().expect("a directory");
    if Command::new("systemd-analyze").arg("--version").output().is_err() {
        eprintln!("skipped: there is no systemd-analyze");
        return;
    }
    for name in UNITS {
        let path = dir.path().join(name);
        std::fs::write(&path, read(name).replace("/usr/bin/firn", env!("CARGO_BIN_EXE_firn")))
            .expect("written");
        let verify = Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&path).output();
        let verify = verify.expect("it runs");
        let said = String::from_utf8_lossy(&verify.stderr);
        assert!(verify.status.success() && !said.contains(name), "{said}");
    }
}
