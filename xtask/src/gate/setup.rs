//! What the tests need from the machine, and how it is had.

use std::fmt;
use std::process::{Command, ExitStatus, Stdio};

/// A program the tests call.
pub(crate) struct Tool {
    pub(crate) command: &'static str,
    pub(crate) purpose: &'static str,
    /// What it must do without complaint to be of use; empty = it need only be there.
    probe: &'static [&'static str],
    pub(crate) install: Install,
}

/// How a program is had where it is missing.
pub(crate) enum Install {
    /// Packages of Debian and its kin, for root.
    Apt(&'static [&'static str]),
    /// A crate, with further arguments for `cargo install --locked`.
    Cargo(&'static [&'static str]),
    /// A Python package.
    Pip(&'static str),
}

/// What the gate needs; with `full`, what the longer tier needs too.
pub(crate) fn tools(full: bool) -> Vec<Tool> {
    let tool = |command, purpose, install| Tool { command, purpose, probe: &[], install };
    let mut tools = vec![
        tool("git", "lists the files that tidy checks", Install::Apt(&["git"])),
        tool("cc", "compiles Zstd and the program's allocator", Install::Apt(&["gcc", "libc6-dev"])),
        tool("faketime", "makes clocks jump", Install::Apt(&["faketime"])),
        tool("redis-server", "is what answers are compared with", Install::Apt(&["redis-server"])),
        Tool {
            command: "python3",
            purpose: "asks control planes by gRPC and nothing else, and runs the suite of redis-py",
            // Debian has what makes environments in a package of its own.
            probe: &["-c", "import venv, ensurepip"],
            install: Install::Apt(&["python3", "python3-venv"]),
        },
    ];
    if full {
        tools.extend([
            tool("npm", "runs the suite of ioredis, and Azurite", Install::Apt(&["nodejs", "npm"])),
            tool(
                "go",
                "runs the suite of go-redis, and builds MinIO and a fake of Google's store",
                Install::Apt(&["golang-go"]),
            ),
            tool("mvn", "runs the suite of Jedis", Install::Apt(&["maven", "default-jdk-headless"])),
            tool("redis-benchmark", "is what people measure servers with", Install::Apt(&["redis-tools"])),
            tool("chromium", "shows the server's page", Install::Apt(&["chromium"])),
            tool("buildah", "builds the container", Install::Apt(&["buildah"])),
            tool("debootstrap", "makes the Debian below the container", Install::Apt(&["debootstrap"])),
            tool("c++", "compiles the fuzzing runtime", Install::Apt(&["g++"])),
            tool("cargo-fuzz", "drives the fuzz targets", Install::Cargo(&["cargo-fuzz"])),
            tool("cargo-deny", "checks licences and sources", Install::Cargo(&["cargo-deny", "--debug"])),
            tool("mdbook", "builds the documentation as a site", Install::Cargo(&["mdbook", "--debug"])),
            tool("typos", "checks spelling", Install::Pip("typos")),
        ]);
    }
    tools
}

/// Those of no use here: missing, or in part.
pub(crate) fn missing(tools: &[Tool]) -> Vec<&Tool> {
    tools.iter().filter(|tool| !is_of_use(tool)).collect()
}

/// Installs what is missing where that is possible; returns what is still missing, after saying so.
pub(crate) fn provide<'t>(missing: &[&Tool]) -> Vec<&'t str> {
    let mut lacking = Vec::new();
    for tool in missing {
        println!("installing {}: {}", tool.command, tool.install);
        let problem = install(&tool.install).err();
        if !is_of_use(tool) {
            let problem = problem.unwrap_or_else(|| "installed, yet not on the search path".to_owned());
            println!("{} is missing ({problem}): steps that need it are left out", tool.command);
            lacking.push(tool.command);
        }
    }
    lacking
}

fn install(how: &Install) -> Result<(), String> {
    match how {
        Install::Apt(_) if !is_present("apt-get") => {
            Err("this machine has no apt-get; install it by hand".to_owned())
        }
        Install::Apt(_) if !is_root() => Err("apt-get needs root; install it by hand".to_owned()),
        Install::Apt(packages) => {
            call("apt-get", &["update", "-qq"])?;
            let mut arguments = vec!["install", "-y", "-qq", "--no-install-recommends"];
            arguments.extend(*packages);
            call("apt-get", &arguments)
        }
        Install::Cargo(rest) => {
            let mut arguments = vec!["install", "--quiet", "--locked"];
            arguments.extend(*rest);
            call("cargo", &arguments)
        }
        Install::Pip(package) => call("pip", &["install", "--quiet", package]),
    }
}

impl fmt::Display for Install {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Install::Apt(packages) => write!(f, "apt-get install {}", packages.join(" ")),
            Install::Cargo(rest) => write!(f, "cargo install {}", rest.join(" ")),
            Install::Pip(package) => write!(f, "pip install {package}"),
        }
    }
}

fn call(program: &str, arguments: &[&str]) -> Result<(), String> {
    let status = Command::new(program).args(arguments).env("DEBIAN_FRONTEND", "noninteractive").status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{program} {} ended with {status}", arguments.join(" "))),
        Err(error) => Err(format!("cannot run {program}: {error}")),
    }
}

fn is_of_use(tool: &Tool) -> bool {
    let does = |probe: &[&str]| silent(tool.command, probe).is_ok_and(|status| status.success());
    is_present(tool.command) && (tool.probe.is_empty() || does(tool.probe))
}

fn is_present(command: &str) -> bool {
    silent(command, &["--version"]).is_ok()
}

fn silent(program: &str, arguments: &[&str]) -> std::io::Result<ExitStatus> {
    Command::new(program).args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status()
}

pub(super) fn is_root() -> bool {
    let answer = Command::new("id").arg("-u").output();
    answer.is_ok_and(|answer| answer.stdout.trim_ascii() == b"0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_tools_are_named_and_present_ones_are_not() {
        let tool =
            |command, probe| Tool { command, purpose: "", probe, install: Install::Cargo(&["--list"]) };
        let there = [tool("cargo", &[][..]), tool("cargo", &["--list"])];
        assert_eq!(provide(&missing(&there)), [""; 0]);
        let lacking = [tool("firn-no-such-program", &[][..]), tool("cargo", &["firn-no-such-command"])];
        assert_eq!(provide(&missing(&lacking)), ["firn-no-such-program", "cargo"]);
    }

    /// Before anything is installed, the command that does it is shown.
    #[test]
    fn what_would_be_installed_is_shown_as_it_would_be_typed() {
        let shown = |install: Install| install.to_string();
        assert_eq!(shown(Install::Apt(&["gcc", "libc6-dev"])), "apt-get install gcc libc6-dev");
        assert_eq!(shown(Install::Cargo(&["cargo-deny", "--debug"])), "cargo install cargo-deny --debug");
        assert_eq!(shown(Install::Pip("typos")), "pip install typos");
    }
}
