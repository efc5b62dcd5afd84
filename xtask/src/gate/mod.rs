//! `cargo x test`: everything a change must pass, in steps, with times and a sum.

mod setup;
mod failures;
mod step;
mod lanes;
mod tally;

use std::path::Path;

use anyhow::Result;

use crate::repository::root;
use crate::tidy;
use lanes::Lanes;
use step::Step;

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
    /// Install nothing; steps that need what is missing are left out.
    #[arg(long)]
    no_install: bool,
}

/// Runs the gate; `Ok(true)` if nothing failed.
pub(crate) fn run(options: &Options) -> Result<bool> {
    let root = root();
    let tools = setup::tools(options.full);
    let lanes = lanes(&root, options.full);
    println!("This will, in {}:", root.display());
    for tool in &tools {
        println!("  need     {} ({})", tool.command, tool.purpose);
    }
    let missing = setup::missing(&tools);
    for tool in &missing {
        let verb = if options.no_install { "do not install" } else { "install " };
        println!("  {verb} {}, which is missing: {}", tool.command, tool.install);
    }
    for (step, fetched) in lanes.steps().filter_map(|(step, _)| Some((step, step.fetched?))) {
        println!("  fetch    {fetched}, for {}", step.name);
    }
    for (step, is_beside) in lanes.steps() {
        let verb = if is_beside { "beside" } else { "run" };
        println!("  {verb:<8} {}: {}", step.name, step.shown());
    }
    if !options.full {
        println!(
            "  leave out client libraries for Redis, object stores of others, older builds, the page in a browser, crowds, fuzzing, sanitizers, licences, advisories, spelling, the documentation as a site and longer seeds: cargo x test --full runs them"
        );
    }
    println!(
        "  leave out the thread sanitizer: the standard library is not instrumented, so it reports races that are none"
    );
    println!("  leave out other engines: cargo test --manifest-path peers/Cargo.toml (builds C++)");
    if options.plan {
        return Ok(true);
    }
    let lacking: Vec<&str> = if options.no_install {
        missing.iter().map(|tool| tool.command).collect()
    } else {
        setup::provide(&missing)
    };
    Ok(lanes.run(&root, &lacking))
}

fn lanes(root: &Path, full: bool) -> Lanes {
    let tests = ["test", "--workspace", "--no-fail-fast"];
    let mut lanes = Lanes {
        first: vec![
            Step::cargo("format", &["fmt", "--all", "--check"]),
            Step::inside("tidy", tidy::run),
            Step::cargo("build of tests", &[&tests[..], &["--no-run"]].concat()),
        ],
        main: vec![Step::cargo("tests", &tests), step::grpc()],
        ..Lanes::default()
    };
    // Models first: they have a folder of their own, so that cargo can begin the tests meanwhile.
    lanes.beside.extend(step::loom(root, full));
    lanes.beside.push(step::shuttle(full));
    lanes.beside.extend(step::simulations(root, full));
    lanes.beside.push(Step::cargo("lints", &["clippy", "--workspace", "--all-targets", "--", "-Dwarnings"]));
    lanes.beside.push(step::documentation());
    lanes.beside = lanes.beside.into_iter().map(Step::patient).collect();
    if full {
        lanes.last.push(step::faults());
        lanes.last.push(step::fleets());
        lanes.last.extend(step::clouds());
        lanes.last.extend(step::server());
        lanes.last.push(step::container());
        lanes.last.extend(step::fuzzing(root));
        lanes.last.push(step::address_sanitizer());
        lanes.last.push(step::book());
        lanes.last.extend(step::supply_chain());
    }
    lanes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What computes alone waits for nothing, and would slow down what does.
    #[test]
    fn steps_beside_the_tests_give_way_to_them() {
        let lanes = lanes(&root(), true);
        for (step, is_beside) in lanes.steps() {
            assert_eq!(step.shown().contains("nice -n 10 "), is_beside, "{}", step.name);
        }
        assert!(lanes.beside.len() >= 10, "models, simulations, lints and documentation");
    }
}
