//! `cargo x soak`: hours of seeds, and a report that can be committed.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::cargo;
use crate::repository::root;

/// What `cargo x soak` takes.
#[derive(clap::Args, Debug)]
pub(crate) struct Options {
    /// Metamorphic scripts, one per seed.
    #[arg(long, default_value_t = 2_000)]
    seeds: u64,
    /// Crash cuts.
    #[arg(long, default_value_t = 10_000)]
    cuts: u64,
    /// Batches that cross keyspaces, with kills and power losses.
    #[arg(long, default_value_t = 100_000)]
    batches: u64,
    /// Rounds of kill -9 on the engine in a process; ten times as many on the server.
    #[arg(long, default_value_t = 20)]
    kills: u64,
    /// Leave out the server with four times its memory (ten minutes, once; asks for root, to make
    /// control groups).
    #[arg(long)]
    without_beyond_memory: bool,
    /// Jobs that workers do while every process of the service is killed, stopped and cut off; 0 =
    /// none. An hour for 10 000, once; asks for root, to make networks, and for libfaketime.
    #[arg(long, default_value_t = 10_000)]
    service_jobs: u64,
    /// Leave out the database with every bit flipped, one after the other (some minutes, once).
    #[arg(long)]
    without_flips: bool,
    /// Repeat everything with further seeds until this many hours have passed.
    #[arg(long, default_value_t = 0.0)]
    hours: f64,
    /// The first seed; a report names it, so that a run can be repeated.
    #[arg(long, default_value_t = 1)]
    first_seed: u64,
}

/// One run of the simulator or of a long test.
struct Run {
    command: String,
    /// Its last lines, where it says what it did.
    said: Vec<String>,
    is_good: bool,
    time: Duration,
}

/// Lines of output kept for the report.
const SAID_LINES_MAX: usize = 30;

/// Runs everything at least once and writes `docs/soak/<date>.md`; `Ok(true)` if nothing was
/// violated.
pub(crate) fn run(options: &Options) -> Result<bool> {
    let root = root();
    let build = ["build", "--release", "-p", "firn-sim"];
    let status = cargo::call("cargo").args(build).current_dir(&root).status().context("cannot run cargo")?;
    anyhow::ensure!(status.success(), "the simulator does not build");
    let start = now();
    let mut runs = Vec::new();
    let mut seed = options.first_seed;
    loop {
        for (mode, option, count) in [
            ("metamorphic", "--seeds", options.seeds),
            ("crash", "--cuts", options.cuts),
            ("batches", "--count", options.batches),
            ("kill", "--rounds", options.kills),
        ] {
            for world in if count > 0 { &["tree", "hash"][..] } else { &[] } {
                runs.push(simulate(&root, (world, mode), option, count, seed)?);
            }
        }
        if options.kills > 0 {
            let rounds = (options.kills * SERVER_KILLS_PER_KILL).to_string();
            let environment = [("FIRN_SEED", seed.to_string()), ("FIRN_ROUNDS", rounds)];
            runs.push(call(&root, &[&SERVER[..], &KILLS].concat(), &environment)?);
        }
        if !options.without_beyond_memory && seed == options.first_seed {
            let arguments = [&SERVER[..], &BEYOND_MEMORY].concat();
            runs.push(call(&root, &arguments, &[("FIRN_SEED", seed.to_string())])?);
        }
        if !options.without_flips && seed == options.first_seed {
            runs.push(call(&root, &FLIPS, &[])?);
            runs.push(call(&root, &HASHED, &[])?);
        }
        if seed == options.first_seed {
            let arguments = [&SERVER[..], &WORKER].concat();
            runs.push(call(&root, &arguments, &[("FIRN_SEED", seed.to_string())])?);
        }
        if seed == options.first_seed {
            runs.push(call(&root, &SAME_BYTES, &[])?);
        }
        if options.service_jobs > 0 && seed == options.first_seed {
            let jobs = options.service_jobs.to_string();
            let environment = [("FIRN_SEED", seed.to_string()), ("FIRN_JOBS", jobs)];
            runs.push(call(&root, &[&SERVER[..], &SERVICE].concat(), &environment)?);
        }
        seed += options.seeds.max(1);
        if start.elapsed().as_secs_f64() >= options.hours * 3600.0 {
            break;
        }
    }
    write_report(&root, &runs)?;
    Ok(runs.iter().all(|run| run.is_good))
}

/// Every bit of a database flipped: each answer is right, or an error that names the place.
const FLIPS: [&str; 9] = ["test", "--release", "-p", "firn-tree", "--test", "it", "--", "--ignored", "flip"];

/// The hashed engine: every byte of its files damaged, and power lost at every operation.
const HASHED: [&str; 9] =
    ["test", "--release", "-p", "firn-hashlog", "--test", "it", "--", "--ignored", "storage::"];

/// Long tests of the server, of which the names follow.
const SERVER: [&str; 11] = [
    "test",
    "--release",
    "-p",
    "firn-cli",
    "--test",
    "it",
    "--",
    "--ignored",
    "--nocapture",
    "--test-threads",
    "1",
];

/// The server killed under load, and histories of its clients that must be linearizable.
const KILLS: [&str; 2] = ["many_kills_lose_nothing", "many_rounds_are_linearizable"];

/// Four times as much data as the server's control group may have in memory.
const BEYOND_MEMORY: [&str; 1] = ["many_times_its_memory_is_served_steadily"];

/// A thousand random GCs here and in a worker process, byte for byte.
const WORKER: [&str; 1] = ["a_worker_process_makes_the_same_bytes_a_thousand_times"];

/// A thousand random compactions by a worker behind a control plane and here, byte for byte.
const SAME_BYTES: [&str; 10] = [
    "test",
    "--release",
    "-p",
    "firn-job-service",
    "--test",
    "it",
    "--",
    "--ignored",
    "--nocapture",
    "a_thousand_compactions",
];

/// Compaction as a service, with a fleet in trouble.
const SERVICE: [&str; 1] = ["many_jobs_of_a_troubled_fleet"];

/// The tests of the server that runs ask for.
#[cfg(test)]
pub(crate) fn server_tests() -> Vec<&'static str> {
    KILLS.into_iter().chain(BEYOND_MEMORY).chain(WORKER).chain(SERVICE).collect()
}

/// A server starts and ends in less time than the simulator's child, which leaves much more behind.
const SERVER_KILLS_PER_KILL: u64 = 10;

fn simulate(root: &Path, what: (&str, &str), option: &str, count: u64, seed: u64) -> Result<Run> {
    let ((world, mode), count, seed) = (what, count.to_string(), seed.to_string());
    let run = ["run", "--release", "--quiet", "-p", "firn-sim", "--", "--world", world];
    let rest = [mode, option, &count, "--first-seed", &seed];
    call(root, &[&run[..], &rest].concat(), &[])
}

/// Runs cargo with `arguments`, shows what it says and keeps the end of it.
fn call(root: &Path, arguments: &[&str], environment: &[(&str, String)]) -> Result<Run> {
    let settings: String = environment.iter().map(|(name, value)| format!("{name}={value} ")).collect();
    let command = format!("{settings}cargo {}", arguments.join(" "));
    println!("== {command}");
    let start = now();
    let mut child = cargo::call("cargo")
        .args(arguments)
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .current_dir(root)
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run cargo")?;
    let mut said: Vec<String> = Vec::new();
    let output = child.stdout.take().context("the output is not piped")?;
    for line in BufReader::new(output).lines() {
        let line = line.context("cannot read the output")?;
        println!("{line}");
        said.push(line);
    }
    let is_good = child.wait().context("cannot wait for the run")?.success();
    said.drain(..said.len().saturating_sub(SAID_LINES_MAX));
    Ok(Run { command, said, is_good, time: start.elapsed() })
}

fn write_report(root: &Path, runs: &[Run]) -> Result<()> {
    let date = answer("date", &["-u", "+%Y-%m-%d"]);
    let folder = root.join("docs/soak");
    std::fs::create_dir_all(&folder).context("cannot create docs/soak")?;
    // A second run on one day must not replace the first one's report.
    let names = std::iter::once(date.clone()).chain((2..).map(|number| format!("{date}-{number}")));
    let file = names.map(|name| folder.join(format!("{name}.md"))).find(|file| !file.exists());
    let file = file.context("no free name for the report")?;
    std::fs::write(&file, report(&date, runs)).with_context(|| format!("cannot write {}", file.display()))?;
    println!("report: {}", file.display());
    Ok(())
}

fn report(date: &str, runs: &[Run]) -> String {
    let violated = runs.iter().filter(|run| !run.is_good).count();
    let mut text = format!("# Soak of {date}\n\n");
    let _ =
        writeln!(text, "- commit: {}", answer("git", &["describe", "--always", "--dirty", "--abbrev=12"]));
    let _ = writeln!(text, "- compiler: {}", answer("rustc", &["--version"]));
    let _ = writeln!(text, "- machine: {}", machine());
    let _ = writeln!(text, "- runs: {}, of which violated: {violated}\n", runs.len());
    let _ = writeln!(text, "| command | result | seconds |\n|---|---|---|");
    for run in runs {
        let verdict = if run.is_good { "no violation" } else { "**violated**" };
        let _ = writeln!(text, "| `{}` | {verdict} | {:.0} |", run.command, run.time.as_secs_f64());
    }
    text.push_str("\nWhat each run said at its end:\n");
    for run in runs {
        let _ = writeln!(text, "\n```text\n$ {}\n{}\n```", run.command, run.said.join("\n"));
    }
    text
}

fn machine() -> String {
    let processor = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = processor.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let memory = memory.lines().find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB"));
    let gib = memory.and_then(|kib| kib.parse::<u64>().ok()).map_or(0, |kib| kib >> 20);
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let model = model.map_or("unknown processor", |(_, name)| name);
    format!("{cores} x {model}, {gib} GiB memory, {}", answer("uname", &["-sr"]))
}

/// What a program answers on one line; `unknown` if it cannot be asked.
fn answer(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).current_dir(root()).output();
    let text =
        output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default();
    if text.is_empty() { "unknown".to_owned() } else { text }
}

#[expect(clippy::disallowed_methods, reason = "the one place where soak reads the clock")]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_names_commands_and_violations() {
        let run = |is_good| Run {
            command: "cargo run -- crash".to_owned(),
            said: vec!["10 cuts".to_owned()],
            is_good,
            time: Duration::from_secs(3),
        };
        let text = report("2030-01-02", &[run(true), run(false)]);
        assert!(text.starts_with("# Soak of 2030-01-02\n"));
        assert!(text.contains("- runs: 2, of which violated: 1\n"));
        assert!(text.contains("| `cargo run -- crash` | **violated** | 3 |"));
        assert!(text.contains("$ cargo run -- crash\n10 cuts\n"));
    }

    #[test]
    fn the_tests_of_the_server_have_the_names_that_are_asked_for() {
        for (file, name) in [
            ("kill_serve.rs", KILLS[0]),
            ("linearizability.rs", KILLS[1]),
            ("beyond_memory.rs", BEYOND_MEMORY[0]),
            ("worker_bytes.rs", WORKER[0]),
        ] {
            let source =
                std::fs::read_to_string(root().join("crates/cli/tests/it").join(file)).expect("the test");
            let is_ignored = source
                .split("#[test]")
                .any(|test| test.contains("#[ignore") && test.contains(&format!("fn {name}")));
            assert!(is_ignored, "{name}");
        }
    }

    /// A run that filters every test out would say that all is well.
    #[test]
    fn the_flip_test_has_the_name_that_is_asked_for() {
        let source =
            std::fs::read_to_string(root().join("crates/tree/tests/it/verify/flip.rs")).expect("the test");
        let is_ignored = source
            .split("#[test]")
            .any(|test| test.contains("#[ignore") && test.contains("fn every_bit_flipped"));
        assert!(is_ignored && FLIPS.ends_with(&["--ignored", "flip"]));
    }
}
