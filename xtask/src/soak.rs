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
    /// Only what is about this engine.
    #[arg(long)]
    engine: Option<Engine>,
    /// Metamorphic scripts, one per seed.
    #[arg(long, default_value_t = 2_000)]
    seeds: u64,
    /// Crash cuts.
    #[arg(long, default_value_t = 10_000)]
    cuts: u64,
    /// Batches that cross keyspaces, with kills and power losses.
    #[arg(long, default_value_t = 100_000)]
    batches: u64,
    /// Rounds of kill -9 on the ordered engine in a process; ten times as many on the hashed one,
    /// and on servers of both.
    #[arg(long, default_value_t = 20)]
    kills: u64,
    /// Seconds in which threads add to sums of the hashed engine while everything happens to its
    /// log at once, and in which it is updated in place; 0 = neither, and nothing of what follows
    /// it.
    #[arg(long, default_value_t = 600)]
    sums_seconds: u64,
    /// Seconds of the same for each thing that happens alone, and of reads amid its compaction.
    #[arg(long, default_value_t = 120)]
    alone_seconds: u64,
    /// Leave out the server with four times its memory (ten minutes, once; asks for root, to make
    /// control groups).
    #[arg(long)]
    without_beyond_memory: bool,
    /// Jobs that workers do while every process of the service is killed, stopped and cut off; 0 =
    /// none. An hour for 10 000, once; asks for root, to make networks, and for libfaketime.
    #[arg(long, default_value_t = 10_000)]
    service_jobs: u64,
    /// Leave out the databases with every bit or byte changed, one after the other, and the hashed
    /// engine's power lost at every operation (some minutes, once).
    #[arg(long)]
    without_flips: bool,
    /// Repeat everything with further seeds until this many hours have passed.
    #[arg(long, default_value_t = 0.0)]
    hours: f64,
    /// The first seed; a report names it, so that a run can be repeated.
    #[arg(long, default_value_t = 1)]
    first_seed: u64,
}

/// Engines, as `firn` calls them.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Engine {
    Tree,
    Hashlog,
}

impl Engine {
    /// The simulator's word.
    fn world(self) -> &'static str {
        match self {
            Self::Tree => "tree",
            Self::Hashlog => "hash",
        }
    }
}

impl Options {
    fn is_about(&self, engine: Engine) -> bool {
        self.engine.is_none_or(|only| only == engine)
    }

    /// What is run with `seed`, in this order.
    fn plan(&self, seed: u64) -> Vec<Planned> {
        let engines = [Engine::Tree, Engine::Hashlog].into_iter().filter(|engine| self.is_about(*engine));
        let mut plan: Vec<Planned> = Vec::new();
        for engine in engines {
            let many = if engine == Engine::Hashlog { HASHED_KILLS_PER_KILL } else { 1 };
            let modes = [
                ("metamorphic", "--seeds", self.seeds),
                ("crash", "--cuts", self.cuts),
                ("batches", "--count", self.batches),
                ("kill", "--rounds", self.kills * many),
            ];
            let modes = modes.into_iter().filter(|(_, _, count)| *count > 0);
            plan.extend(modes.map(|mode| Planned::simulator(engine, mode, seed)));
        }
        if self.kills > 0 {
            let rounds = (self.kills * SERVER_KILLS_PER_KILL).to_string();
            plan.push(Planned::server(&KILLS, seed).with("FIRN_ROUNDS", rounds));
        }
        if seed == self.first_seed {
            self.plan_once(seed, &mut plan);
        }
        plan
    }

    fn plan_once(&self, seed: u64, plan: &mut Vec<Planned>) {
        if !self.without_flips && self.is_about(Engine::Tree) {
            plan.push(Planned::new(&FLIPS));
        }
        if self.is_about(Engine::Hashlog) {
            if !self.without_flips {
                plan.push(Planned::hashed(STORAGE));
            }
            if self.sums_seconds > 0 {
                for (test, is_alone) in HASHED {
                    let seconds = if is_alone { self.alone_seconds } else { self.sums_seconds };
                    plan.push(Planned::hashed(test).with("FIRN_SECONDS", seconds.to_string()));
                }
            }
        }
        if self.engine.is_some_and(|only| only == Engine::Hashlog) {
            return;
        }
        if !self.without_beyond_memory {
            plan.push(Planned::server(&BEYOND_MEMORY, seed));
        }
        plan.extend([Planned::server(&WORKER, seed), Planned::new(&SAME_BYTES)]);
        if self.service_jobs > 0 {
            plan.push(Planned::server(&SERVICE, seed).with("FIRN_JOBS", self.service_jobs.to_string()));
        }
    }
}

/// A command of cargo that is to be run, and variables of its environment.
struct Planned {
    arguments: Vec<String>,
    environment: Vec<(&'static str, String)>,
}

impl Planned {
    fn new(arguments: &[&str]) -> Self {
        let arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        Self { arguments, environment: Vec::new() }
    }

    fn with(mut self, name: &'static str, value: String) -> Self {
        self.environment.push((name, value));
        self
    }

    fn simulator(engine: Engine, (mode, option, count): (&str, &str, u64), seed: u64) -> Self {
        let (count, seed) = (count.to_string(), seed.to_string());
        let run = ["run", "--release", "--quiet", "-p", "firn-sim", "--", "--world", engine.world()];
        Self::new(&[&run[..], &[mode, option, &count, "--first-seed", &seed]].concat())
    }

    /// Long tests of the server.
    fn server(tests: &[&str], seed: u64) -> Self {
        Self::new(&[&long_tests("firn-cli")[..], tests].concat()).with("FIRN_SEED", seed.to_string())
    }

    /// Long tests of the hashed engine.
    fn hashed(test: &str) -> Self {
        Self::new(&[&long_tests("firn-hashlog")[..], &[test]].concat())
    }
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
        let plan = options.plan(seed);
        for (index, planned) in plan.iter().enumerate() {
            println!("== {} of {}, {:.0} s", index + 1, plan.len(), start.elapsed().as_secs_f64());
            runs.push(call(&root, planned)?);
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
const STORAGE: &str = "storage::";

/// The hashed engine's tests that go on for as long as they are told, and whether that is as long
/// as for what happens alone.
const HASHED: [(&str, bool); 5] = [
    ("all_at_once_for_long", false),
    ("each_alone_for_long", true),
    ("nothing_is_missed_and_nothing_stale_for_long", true),
    ("the_redo_log_stays_within_its_setting_for_long", false),
    ("each_session_recovers_its_first_writes_for_long", true),
];

/// Long tests of a package, of which the names follow.
fn long_tests(package: &str) -> [&str; 11] {
    let with = ["--ignored", "--nocapture", "--test-threads", "1"];
    let [ignored, shown, threads, one] = with;
    ["test", "--release", "-p", package, "--test", "it", "--", ignored, shown, threads, one]
}

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

/// What the hashed engine changes in place is the newest: more kills meet it.
const HASHED_KILLS_PER_KILL: u64 = 10;

/// Runs what is planned, shows what it says and keeps the end of it.
fn call(root: &Path, planned: &Planned) -> Result<Run> {
    let Planned { arguments, environment } = planned;
    let settings: String = environment.iter().map(|(name, value)| format!("{name}={value} ")).collect();
    let command = format!("{settings}cargo {}", arguments.join(" "));
    println!("== {command}");
    let start = now();
    let mut child = cargo::call("cargo")
        .args(arguments)
        .envs(environment.iter().map(|(name, value)| (*name, value)))
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
mod tests;
