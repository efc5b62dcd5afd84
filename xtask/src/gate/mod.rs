//! `cargo x test`: everything a change must pass, one step after another, with times and a sum.

mod setup;
mod step;
mod tally;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::repository::root;
use crate::tidy;
use step::Step;
use tally::Tally;

/// What `cargo x test` takes.
#[derive(clap::Args, Debug)]
pub(crate) struct Options {
    /// Also run what takes longer, up to 90 minutes: more seeds and cuts, client libraries, object
    /// stores of others, older builds, the page in a browser. Also fuzzing, sanitizers, licences,
    /// advisories and spelling.
    #[arg(long)]
    full: bool,
    /// Say what would be done and do nothing.
    #[arg(long)]
    plan: bool,
}

/// Runs the gate; `Ok(true)` if nothing failed.
pub(crate) fn run(options: &Options) -> Result<bool> {
    let root = root();
    let tools = setup::tools(options.full);
    let steps = steps(&root, options.full);
    println!("This will, in {}:", root.display());
    for tool in &tools {
        println!("  need     {} ({})", tool.command, tool.purpose);
    }
    for step in &steps {
        println!("  run      {}: {}", step.name, step.shown());
    }
    if !options.full {
        println!(
            "  leave out client libraries for Redis, object stores of others, older builds, the page in a browser, crowds, fuzzing, sanitizers, licences, advisories, spelling and longer seeds: cargo x test --full runs them"
        );
    }
    println!(
        "  leave out the thread sanitizer: the standard library is not instrumented, so it reports races that are none"
    );
    println!("  leave out other engines: cargo test --manifest-path peers/Cargo.toml (builds C++)");
    if options.plan {
        return Ok(true);
    }
    let lacking = setup::provide(&tools);
    Ok(run_steps(&root, &steps, &lacking))
}

fn steps(root: &Path, full: bool) -> Vec<Step> {
    let mut steps = vec![
        Step::cargo("format", &["fmt", "--all", "--check"]),
        Step::inside("tidy", tidy::run),
        Step::cargo("lints", &["clippy", "--workspace", "--all-targets", "--", "-Dwarnings"]),
        Step::cargo("tests", &["test", "--workspace", "--no-fail-fast"]),
    ];
    steps.push(step::grpc());
    steps.extend(step::loom(root, full));
    steps.push(step::shuttle(full));
    steps.push(step::documentation());
    steps.extend(step::simulations(root, full));
    if full {
        steps.push(step::faults());
        steps.push(step::fleets());
        steps.extend(step::clouds());
        steps.extend(step::server());
        steps.extend(step::fuzzing(root));
        steps.push(step::address_sanitizer());
        steps.extend(step::supply_chain());
    }
    steps
}

/// Runs every step even after a failure, so that one run shows all there is to mend.
fn run_steps(root: &Path, steps: &[Step], lacking: &[&str]) -> bool {
    let mut total = Tally::default();
    let mut times: Vec<(String, Duration, String)> = Vec::new();
    for step in steps {
        if let Some(reason) = step.left_out(lacking) {
            println!("\n== {}: left out, {reason}", step.name);
            times.push((step.name.clone(), Duration::ZERO, format!("left out: {reason}")));
            continue;
        }
        println!("\n== {}: {}", step.name, step.shown());
        let start = now();
        let tally = step.run(root);
        times.push((step.name.clone(), start.elapsed(), tally.to_string()));
        total += tally;
    }
    println!();
    for (name, time, result) in &times {
        println!("{name:<28} {:>7.1} s   {result}", time.as_secs_f64());
    }
    let sum: Duration = times.iter().map(|(_, time, _)| *time).sum();
    println!("{:<28} {:>7.1} s", "total", sum.as_secs_f64());
    println!("{total}");
    total.failed == 0
}

#[expect(clippy::disallowed_methods, reason = "the one place where this program reads the clock")]
fn now() -> Instant {
    Instant::now()
}
