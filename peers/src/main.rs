//! `peers compare`: other people's stores and Firn under the same workloads, limits and settings.
//!
//! ```text
//!   compare (parent) ── "run 3" ──► one child process per engine, in a memory cgroup of its own
//!      │           ◄── result ────     engine::* ─ Target ─► firn_bench::suite
//!      └► tables of medians and ratios, JSON, HTML
//! ```
//!
//! Phases of the engines alternate: each repetition runs phase 1 on every engine, then phase 2 on
//! every engine, and the order of the engines turns with each phase, so that a slow spell of the
//! machine hits all alike.

use std::process::ExitCode;

mod args;
mod cgroup;
mod child;
mod compare;
mod engine;
mod message;
mod native;
mod table;

fn main() -> ExitCode {
    match args::parse().and_then(|task| task.run()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
