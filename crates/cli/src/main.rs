//! The program `firn`: a person's way to a database, its files and its measurements.
//!
//! Each command is a module with its arguments and a function `run`. A command answers how the
//! process ends ([`Ending`]); what went wrong is one line on standard error that says what, where
//! and what to do.

#![forbid(unsafe_code)]
// They panic where standard output or standard error is gone: `output` has what does not.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod build_info;
mod ending;
mod tips;
mod escape;
mod output;
mod progress;
mod signals;
mod secrets;
mod until_stdin_closes;
mod access;
mod backends;
mod store_rates;
mod http_port;
mod shared_storage;
mod config_file;
mod database;
mod served;
mod get;
mod put;
mod delete;
mod scan;
mod stats;
mod verify;
mod inspect;
mod config;
mod bench;
mod serve;
mod tls;
mod service;
mod service_http;
mod control_plane;
mod worker;
mod jobs;
mod demo;
mod backup;
mod repair;
mod restore;
mod partial; // a directory until it is whole
mod copy;
mod completions;
mod manual;

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::LazyLock;

use build_info::BUILD;
use clap::{CommandFactory, Parser, Subcommand};
use ending::{Ending, Result};
use firn_format::FormatVersion;
use firn_storage::ThreadSpawn;
use output::report;

/// Fewer faults and less waste than the system's allocator under many threads.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A key-value store: read, write, inspect, verify and measure databases.
#[derive(Parser)]
#[command(name = "firn", version = VERSION.as_str(), after_help = ending::EXIT_CODES, max_term_width = 100, arg_required_else_help = true)]
struct Arguments {
    /// End when standard input does, as SIGTERM would have it: for a process that starts this one
    /// and may be killed. Said before the command
    #[arg(long)]
    until_stdin_closes: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Get(get::Arguments),
    Put(put::Arguments),
    Delete(delete::Arguments),
    Scan(scan::Arguments),
    Stats(stats::Arguments),
    Verify(verify::Arguments),
    Repair(repair::Arguments),
    Inspect(inspect::Arguments),
    Config(config::Arguments),
    Bench(bench::Arguments),
    Serve(serve::Arguments),
    ControlPlane(control_plane::Arguments),
    Worker(worker::Arguments),
    Jobs(jobs::Arguments),
    Demo(demo::Arguments),
    Backup(backup::Arguments),
    Restore(restore::Arguments),
    Copy(copy::Arguments),
    Completions(completions::Arguments),
    Man(manual::Arguments),
}

static VERSION: LazyLock<String> = LazyLock::new(|| {
    let (os, machine) = (std::env::consts::OS, std::env::consts::ARCH);
    let format = FormatVersion::CURRENT as u32;
    format!("{BUILD}\nformat version {format}\ntarget {machine}-{os}")
});

fn main() -> ExitCode {
    let arguments = Arguments::try_parse().unwrap_or_else(|error| {
        let words: Vec<OsString> = std::env::args_os().skip(1).collect();
        tips::with_tip(error, Arguments::command(), &words).exit()
    });
    if arguments.until_stdin_closes
        && let Err(failure) = until_stdin_closes::watch(&ThreadSpawn::new())
    {
        report(format_args!("firn: {failure}"));
        return failure.ending.code();
    }
    match run(arguments.command) {
        Ok(ending) => ending.code(),
        Err(failure) => {
            report(format_args!("firn: {failure}"));
            failure.ending.code()
        }
    }
}

fn run(command: Command) -> Result<Ending> {
    match command {
        Command::Get(arguments) => get::run(&arguments),
        Command::Put(arguments) => put::run(&arguments),
        Command::Delete(arguments) => delete::run(&arguments),
        Command::Scan(arguments) => scan::run(&arguments),
        Command::Stats(arguments) => stats::run(&arguments),
        Command::Verify(arguments) => verify::run(&arguments),
        Command::Repair(arguments) => repair::run(&arguments),
        Command::Inspect(arguments) => inspect::run(&arguments),
        Command::Config(arguments) => config::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Serve(arguments) => serve::run(&arguments),
        Command::ControlPlane(arguments) => control_plane::run(&arguments),
        Command::Worker(arguments) => worker::run(&arguments),
        Command::Jobs(arguments) => jobs::run(&arguments),
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Backup(arguments) => backup::run(&arguments),
        Command::Restore(arguments) => restore::run(&arguments),
        Command::Copy(arguments) => copy::run(&arguments),
        Command::Completions(arguments) => completions::run(&arguments, Arguments::command()),
        Command::Man(arguments) => manual::run(&arguments, Arguments::command()),
    }
}

#[cfg(test)]
mod pages; // what pages show of the command line
#[cfg(test)]
mod tests;
