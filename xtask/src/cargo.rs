//! Cargo, called as a person would.
//!
//! `cargo x` is run by cargo, which tells it of its package in variables. Build scripts of some
//! crates, `ring`'s for one, are run again when these change. With them handed on, calls from here
//! and calls by hand would build such crates, and all above them, by turns.

use std::ffi::OsString;
use std::process::Command;

/// `program` without what cargo told this one.
pub(crate) fn call(program: impl Into<OsString>) -> Command {
    let mut command = Command::new(program.into());
    let names = std::env::vars_os().map(|(name, _)| name);
    names.filter(|name| name.to_str().is_some_and(is_of_package)).for_each(|name| {
        command.env_remove(name);
    });
    command
}

/// Whether a variable is about the package that cargo runs.
fn is_of_package(name: &str) -> bool {
    ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_"].iter().any(|prefix| name.starts_with(prefix))
        || name == "CARGO_CRATE_NAME"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_called_knows_nothing_of_this_package_and_all_else() {
        let of_this = |variables: &str| variables.lines().filter(|line| is_of_package(line)).count();
        let output = Command::new("env").output().expect("it runs");
        assert!(of_this(&String::from_utf8_lossy(&output.stdout)) > 0, "cargo runs this test");
        let output = call("env").output().expect("it runs");
        let variables = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(of_this(&variables), 0, "{variables}");
        assert!(variables.lines().any(|line| line.starts_with("PATH=")), "{variables}");
    }
}
