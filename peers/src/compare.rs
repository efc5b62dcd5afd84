//! The parent: starts a process per engine, alternates their phases, reports.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use firn_bench::command_line;
use firn_bench::measure::Machine;
use firn_bench::report::{PhaseResult, Report, figure, summary_table, write_html, write_json};
use firn_bench::suite::BenchDir;
use firn_engine::{Error, ErrorKind, Result};

use crate::args::Job;
use crate::cgroup::Cgroup;
use crate::message::Message;
use crate::native;
use crate::table::tables;

/// Runs the comparison and writes its reports.
///
/// # Errors
/// If no engine could be started, or a report cannot be written. An engine that fails on the way is
/// left out of the rest and named in the report.
pub fn run(job: Job) -> Result<()> {
    let mut comparison = Comparison::new(job)?;
    eprintln!("{}", comparison.machine.line());
    comparison.notes.iter().for_each(|note| eprintln!("{note}"));
    for repetition in 1..=comparison.job.compare.repetitions {
        comparison.repeat(repetition)?;
        comparison.write_reports()?;
    }
    println!("\n{}", summary_table(&comparison.results));
    println!(
        "medians of {} repetitions [lowest..highest], ratio to {}",
        comparison.job.compare.repetitions, comparison.baseline
    );
    print!("{}", tables(&comparison.results, &comparison.baseline));
    if let Some(path) = &comparison.job.output.json {
        eprintln!("results: {}", path.display());
    }
    eprintln!("report: {}", comparison.html_path().display());
    match comparison.failures.as_slice() {
        [] => Ok(()),
        failures => Err(Error::invalid(failures.join("; "))),
    }
}

struct Comparison {
    job: Job,
    engines: Vec<String>,
    baseline: String,
    steps: Vec<String>,
    dir: BenchDir,
    limit_bytes: u64,
    has_cgroups: bool,
    machine: Machine,
    notes: Vec<String>,
    failures: Vec<String>,
    results: Vec<PhaseResult>,
}

impl Comparison {
    fn new(job: Job) -> Result<Self> {
        if job.run.compression.is_some() {
            return Err(Error::invalid("engines are compared without compression: leave out --compression"));
        }
        let engines = job.compare.engines.clone();
        for name in &engines {
            // A wrong name or a missing library shows before anything runs.
            crate::engine::factory(name, &job.compare)?;
        }
        let first = engines.first().cloned().unwrap_or_default();
        let rocksdb = engines.iter().find(|name| *name == "rocksdb").cloned();
        let baseline = job.compare.baseline.clone().or(rocksdb).unwrap_or(first);
        if !engines.contains(&baseline) {
            return Err(Error::invalid(format!("--baseline {baseline} is not among --engines")));
        }
        let dir = BenchDir::new(job.run.dir.as_deref())?;
        if !dir.is_empty() {
            return Err(Error::invalid(format!("{} is not empty", dir.path().display())));
        }
        let memory_bytes = job.run.memory_bytes.unwrap_or(0);
        let roomy = 3 * job.suite.data_bytes() + 2 * memory_bytes + (512 << 20);
        let limit_bytes = job.compare.limit_bytes.unwrap_or(roomy);
        let (has_cgroups, note) = cgroup_note(limit_bytes);
        let steps = job.suite.steps();
        let mut notes = vec![note];
        notes.extend(preload_notes());
        notes.push(format!(
            "Each engine may use {} MiB for buffers and caches; data is {} MiB of keys and values.",
            memory_bytes >> 20,
            job.suite.data_bytes() >> 20
        ));
        Ok(Self {
            engines,
            baseline,
            steps,
            dir,
            limit_bytes,
            has_cgroups,
            machine: Machine::here(),
            notes,
            failures: Vec::new(),
            results: Vec::new(),
            job,
        })
    }

    /// Every phase once on every engine that still lives.
    fn repeat(&mut self, repetition: u32) -> Result<()> {
        let mut runners: Vec<(String, Option<Runner>)> = Vec::new();
        for name in self.engines.clone() {
            let runner =
                self.start(&name, repetition).map_err(|error| self.fail(&name, "start", &error)).ok();
            runners.push((name, runner));
        }
        if runners.iter().all(|(_, runner)| runner.is_none()) {
            return Err(Error::invalid(self.failures.join("; ")));
        }
        for (step, workload) in self.steps.clone().iter().enumerate() {
            let turn = (repetition as usize - 1 + step) % runners.len();
            for index in 0..runners.len() {
                let (name, slot) = &mut runners[(index + turn) % self.engines.len()];
                let Some(runner) = slot else { continue };
                match runner.phase(step) {
                    Ok(result) => {
                        eprintln!("{}", step_line(&result));
                        self.results.push(result);
                    }
                    Err(error) => {
                        self.fail(name, workload, &error);
                        *slot = None;
                    }
                }
            }
        }
        for (name, runner) in runners {
            if let Some(Err(error)) = runner.map(Runner::close) {
                self.fail(&name, "close", &error);
            }
            let _ = std::fs::remove_dir_all(self.dir.path().join(&name));
        }
        Ok(())
    }

    fn start(&self, name: &str, repetition: u32) -> Result<Runner> {
        let dir = self.dir.path().join(name);
        std::fs::create_dir_all(&dir)
            .map_err(|error| process_failed("create a directory for", name, error))?;
        let cgroup = if self.has_cgroups { Some(Cgroup::create(name, self.limit_bytes)?) } else { None };
        Runner::start(name, repetition, &dir, cgroup, &self.job)
    }

    fn fail(&mut self, engine: &str, what: &str, error: &Error) {
        let text = format!("{engine} failed at {what}: {error}");
        eprintln!("{text}");
        self.failures.push(text);
    }

    fn write_reports(&self) -> Result<()> {
        if let Some(path) = &self.job.output.json {
            write_json(path, &self.results)?;
        }
        let mut notes = self.notes.clone();
        notes.extend(self.failures.iter().cloned());
        let title = format!("{} side by side", self.engines.join(", "));
        let report = Report { title, machine: self.machine.clone(), command: command_line(), notes };
        write_html(&self.html_path(), &report, &self.results)
    }

    fn html_path(&self) -> PathBuf {
        self.job.output.html.clone().unwrap_or_else(|| PathBuf::from("firn-compare.html"))
    }
}

/// An engine's process.
struct Runner {
    name: String,
    process: Child,
    commands: ChildStdin,
    messages: BufReader<ChildStdout>,
    cgroup: Option<Cgroup>,
}

impl Runner {
    fn start(name: &str, repetition: u32, dir: &Path, cgroup: Option<Cgroup>, job: &Job) -> Result<Self> {
        let program =
            std::env::current_exe().map_err(|error| process_failed("find the program for", name, error))?;
        let mut command = Command::new(program);
        command.arg("compare").args(&job.words);
        command
            .args(["--child-engine", name, "--child-repetition", &repetition.to_string(), "--child-dir"])
            .arg(dir);
        if let Some(cgroup) = &cgroup {
            command.arg("--child-cgroup").arg(cgroup.path());
        }
        let preloads: Vec<String> =
            native::preloads().iter().map(|path| path.display().to_string()).collect();
        command.env("LD_PRELOAD", preloads.join(":"));
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| process_failed("start", name, error))?;
        let (Some(commands), Some(messages)) = (process.stdin.take(), process.stdout.take()) else {
            return Err(Error::bug("a process started with pipes has none"));
        };
        let messages = BufReader::new(messages);
        let mut runner = Self { name: name.to_owned(), process, commands, messages, cgroup };
        match runner.message()? {
            Message::Ready => Ok(runner),
            other => Err(unexpected(&other)),
        }
    }

    fn phase(&mut self, step: usize) -> Result<PhaseResult> {
        self.command(&format!("run {step}"))?;
        match self.message()? {
            Message::Result(result) => Ok(*result),
            other => Err(unexpected(&other)),
        }
    }

    fn close(mut self) -> Result<()> {
        self.command("close")?;
        match self.message()? {
            Message::Closed => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    fn command(&mut self, line: &str) -> Result<()> {
        writeln!(self.commands, "{line}").map_err(|error| process_failed("command", &self.name, error))
    }

    fn message(&mut self) -> Result<Message> {
        let mut line = String::new();
        let read =
            self.messages.read_line(&mut line).map_err(|error| process_failed("hear", &self.name, error))?;
        if read == 0 {
            let status =
                self.process.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
            return Err(Error::invalid(format!(
                "its process ended ({status}); signal 9 means the memory limit was hit"
            )));
        }
        serde_json::from_str(&line)
            .map_err(|error| Error::bug("a child's message cannot be read").because(error))
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        // Ended already after `close`; after a failure this ends what is left of it.
        let _ = self.process.kill();
        let _ = self.process.wait();
        if let Some(cgroup) = &self.cgroup {
            cgroup.remove();
        }
    }
}

fn unexpected(message: &Message) -> Error {
    match message {
        Message::Failed(text) => Error::invalid(text.clone()),
        other => Error::bug(format!("a child answered out of turn: {other:?}")),
    }
}

fn process_failed(what: &str, name: &str, error: std::io::Error) -> Error {
    Error::new(ErrorKind::Invalid, format!("cannot {what} {name}'s process")).because(error)
}

/// Whether memory groups can be made here, and the sentence that says so.
fn cgroup_note(limit_bytes: u64) -> (bool, String) {
    match Cgroup::create("probe", limit_bytes) {
        Ok(probe) => {
            probe.remove();
            let limit = limit_bytes >> 20;
            (
                true,
                format!(
                    "Each engine runs in a memory cgroup of its own, limited to {limit} MiB, page cache included."
                ),
            )
        }
        Err(error) => (false, format!("No memory limit was enforced: {error}.")),
    }
}

fn preload_notes() -> Vec<String> {
    let found = native::preloads();
    let has = |name: &str| found.iter().any(|path| path.ends_with(name));
    vec![
        match has("libjemalloc.so") {
            true => "All engines allocate through jemalloc.".to_owned(),
            false => {
                "All engines allocate through the system's malloc; peers/setup brings jemalloc.".to_owned()
            }
        },
        match has("libcrc32c.so") {
            true => "RocksDB computes CRC32C with this processor's instructions.".to_owned(),
            false => {
                "RocksDB computes CRC32C with its portable code; peers/setup brings a faster one.".to_owned()
            }
        },
    ]
}

/// One phase in one line.
fn step_line(result: &PhaseResult) -> String {
    format!(
        "{} {:>12} {:>16}  {:>8} kops/s  drained {:>8}  p99 {:>7} us  CPU {:>6} us/op  {:.1} + {:.1} s",
        result.context.repetition,
        result.context.engine,
        result.context.workload,
        figure(result.ops_per_s / 1e3),
        figure(result.ops_per_s_drained / 1e3),
        figure(result.p99_us),
        figure(result.cpu_us_per_op),
        result.run_s,
        result.drain_s,
    )
}
