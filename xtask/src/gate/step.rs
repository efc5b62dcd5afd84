//! One step of the gate.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::{book, cargo};
use anyhow::{Context, Result};

use super::failures::Failures;
use super::tally::Tally;

/// Flags that setting RUSTFLAGS would otherwise take away (they stand in .cargo/config.toml).
const MACHINE_FLAGS: &str = "-Ctarget-cpu=x86-64-v3";
/// What steps get from package registries.
const PYTHON: &str = "Python packages by pip";
const NODE: &str = "Node packages by npm";
const MODULES: &str = "Go modules";
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// A command, or a function of this program, with a name.
pub(crate) struct Step {
    pub(crate) name: String,
    /// The tools without any of which the step is left out.
    needs: Vec<&'static str>,
    /// Tells why this machine cannot run it, where that takes more than a missing tool.
    obstacle: fn() -> Option<String>,
    /// What the step itself gets from elsewhere.
    pub(super) fetched: Option<&'static str>,
    action: Action,
}

/// What becomes of a step's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Output {
    /// It is shown as it comes.
    Shown,
    /// It is kept to be shown in one piece.
    Kept,
}

enum Action {
    Call { program: String, arguments: Vec<String>, environment: Vec<(&'static str, String)> },
    Inside(fn() -> Result<bool>),
}

impl Step {
    pub(crate) fn cargo(name: impl Into<String>, arguments: &[&str]) -> Self {
        Self { needs: vec!["cc"], ..Self::call(name, "cargo", arguments) }
    }

    pub(super) fn call(name: impl Into<String>, program: impl Into<String>, arguments: &[&str]) -> Self {
        let arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
        let action = Action::Call { program: program.into(), arguments, environment: Vec::new() };
        Self { name: name.into(), needs: Vec::new(), obstacle: || None, fetched: None, action }
    }

    pub(crate) fn inside(name: impl Into<String>, function: fn() -> Result<bool>) -> Self {
        let action = Action::Inside(function);
        Self { name: name.into(), needs: vec!["git"], obstacle: || None, fetched: None, action }
    }

    fn fetching(mut self, what: &'static str) -> Self {
        self.fetched = Some(what);
        self
    }

    /// The same at a low priority.
    pub(super) fn patient(mut self) -> Self {
        if let Action::Call { program, arguments, .. } = &mut self.action {
            let program = std::mem::replace(program, "nice".to_owned());
            arguments.splice(0..0, ["-n".to_owned(), "10".to_owned(), program]);
        }
        self
    }

    fn needing(mut self, tool: &'static str) -> Self {
        self.needs.push(tool);
        self
    }

    fn unless(mut self, obstacle: fn() -> Option<String>) -> Self {
        self.obstacle = obstacle;
        self
    }

    /// Why it cannot be run here, if it cannot; `lacking` are the tools that are missing.
    pub(crate) fn left_out(&self, lacking: &[&str]) -> Option<String> {
        match self.needs.iter().find(|tool| lacking.contains(tool)) {
            Some(tool) => Some(format!("{tool} is missing")),
            None => (self.obstacle)(),
        }
    }

    fn with(mut self, name: &'static str, value: &str) -> Self {
        if let Action::Call { environment, .. } = &mut self.action {
            environment.push((name, value.to_owned()));
        }
        self
    }

    /// The command as a person would type it.
    pub(crate) fn shown(&self) -> String {
        match &self.action {
            Action::Inside(_) => format!("cargo x {}", self.name),
            Action::Call { program, arguments, environment } => {
                let quoted = |word: &str| {
                    if word.contains([' ', '*']) { format!("'{word}'") } else { word.to_owned() }
                };
                let mut words: Vec<String> =
                    environment.iter().map(|(name, value)| format!("{name}={}", quoted(value))).collect();
                words.push(program.clone());
                words.extend(arguments.iter().map(|argument| quoted(argument)));
                words.join(" ")
            }
        }
    }

    /// Runs it and counts: the tests its output reports, or itself as one.
    pub(super) fn run(&self, root: &Path, output: Output) -> Outcome {
        let outcome = match &self.action {
            Action::Inside(function) => {
                function().map(|is_good| Outcome { tally: Tally::one(is_good), ..Outcome::default() })
            }
            Action::Call { program, arguments, environment } => {
                let is_path = program.contains('/');
                let mut command = cargo::call(if is_path { root.join(program) } else { program.into() });
                command
                    .args(arguments)
                    .current_dir(root)
                    .envs(environment.iter().map(|(name, value)| (name, value)));
                call(command, output)
            }
        };
        outcome.unwrap_or_else(|error| Outcome {
            tally: Tally::one(false),
            kept: format!("{error:#}\n"),
            ..Outcome::default()
        })
    }
}

/// What came of a step that ran.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) tally: Tally,
    /// The output that was not shown: ends in a newline, or is empty.
    pub(super) kept: String,
    pub(super) failures: Failures,
}

/// Runs a command, shows or keeps its output, and sums the test results in it.
///
/// A command that fails without a failed test (it did not compile) counts as one failure.
fn call(mut command: Command, output: Output) -> Result<Outcome> {
    let (reader, writer) = std::io::pipe().context("cannot make a pipe")?;
    if output == Output::Kept {
        command.stderr(writer.try_clone().context("cannot hand a pipe on")?);
    }
    let mut child = command.stdout(writer).spawn().context("cannot start it")?;
    // Its ends of the pipe: the output ends when the child's are closed.
    drop(command);
    let (tests, outcome) = read(reader, output)?;
    let is_good = child.wait().context("cannot wait for it")?.success();
    let tally = match tests {
        None => Tally::one(is_good),
        Some(tally) if !is_good && tally.failed == 0 => Tally { failed: 1, ..tally },
        Some(tally) => tally,
    };
    Ok(Outcome { tally, ..outcome })
}

/// Reads to the end: the results of tests, if there are any, and what came of it but for those.
fn read(reader: impl Read, output: Output) -> Result<(Option<Tally>, Outcome)> {
    let (mut tests, mut outcome) = (None::<Tally>, Outcome::default());
    for line in BufReader::new(reader).split(b'\n') {
        let line = line.context("cannot read its output")?;
        let line = String::from_utf8_lossy(&line);
        match output {
            Output::Shown => println!("{line}"),
            Output::Kept => outcome.kept.extend([&*line, "\n"]),
        }
        outcome.failures.take(&line);
        if let Some(tally) = Tally::from_line(&line) {
            *tests.get_or_insert_default() += tally;
        }
    }
    Ok((tests, outcome))
}

/// Model checks of every crate that has `tests/loom_*.rs`: every schedule with few preemptions.
pub(super) fn loom(root: &Path, full: bool) -> Vec<Step> {
    let step = |package: String| {
        let arguments = ["test", "--release", "-p", &package, "--test", "loom_*", "--no-fail-fast"];
        Step::cargo(format!("loom {package}"), &arguments)
            .with("RUSTFLAGS", &format!("--cfg loom {MACHINE_FLAGS}"))
            .with("CARGO_TARGET_DIR", "target/loom")
            .with("CARGO_PROFILE_RELEASE_LTO", "off")
            .with("CARGO_PROFILE_RELEASE_DEBUG", "false")
            .with("LOOM_MAX_PREEMPTIONS", if full { "3" } else { "2" })
    };
    with_models(root).into_iter().map(step).collect()
}

/// Model checks by shuttle: many more drawn schedules than the tests draw by themselves. In the
/// profile of the tests, which have built them: what shuttle itself does takes most of the time,
/// and is optimized there too.
pub(super) fn shuttle(full: bool) -> Step {
    Step::cargo("shuttle", &["test", "--workspace", "--test", "shuttle_*", "--no-fail-fast"])
        .with("FIRN_SCHEDULES", if full { "500000" } else { "50000" })
}

/// Packages with a file of tests for loom.
fn with_models(root: &Path) -> Vec<String> {
    let mut folders: Vec<_> =
        std::fs::read_dir(root.join("crates")).into_iter().flatten().flatten().collect();
    folders.sort_by_key(std::fs::DirEntry::file_name);
    let has_models = |folder: &std::fs::DirEntry| {
        let mut tests = std::fs::read_dir(folder.path().join("tests")).into_iter().flatten().flatten();
        tests.any(|test| test.file_name().to_string_lossy().starts_with("loom_"))
    };
    let names = folders.iter().filter(|folder| has_models(folder)).map(std::fs::DirEntry::file_name);
    names.map(|name| format!("firn-{}", name.to_string_lossy())).collect()
}

pub(super) fn documentation() -> Step {
    Step::cargo("documentation", &["doc", "--workspace", "--no-deps"]).with("RUSTDOCFLAGS", "-Dwarnings")
}

/// The seeded tests, by the program that the tests have built, in their profile so that assertions
/// are on. To ask for its package alone would build most crates again, with the features that only
/// it asks for.
pub(super) fn simulations(root: &Path, full: bool) -> Vec<Step> {
    let [seeds, cuts, batches, kills] =
        if full { ["2000", "10000", "20000", "20"] } else { ["200", "1000", "2000", "3"] };
    let program = beside_this_program(root, "firn-sim");
    let step = |mode: &str, option: &str, count: &str| {
        Step::call(format!("sim {mode}"), &program, &[mode, option, count]).needing("cc")
    };
    let mut steps = vec![
        step("metamorphic", "--seeds", seeds),
        step("crash", "--cuts", cuts),
        step("batches", "--count", batches),
        step("kill", "--rounds", kills),
    ];
    if full {
        let hash = |mode: &str, option: &str, count: &str| {
            let arguments = ["--world", "hash", mode, option, count];
            Step::call(format!("sim hash {mode}"), &program, &arguments).needing("cc")
        };
        steps.push(hash("metamorphic", "--seeds", "2000"));
        steps.push(hash("crash", "--cuts", "5000"));
        steps.push(hash("batches", "--count", "20000"));
    }
    steps
}

/// The long forms of the tests of faults. Most of them wait, so more run at once than there are
/// processors.
pub(super) fn faults() -> Step {
    let arguments = ["test", "--workspace", "--lib", "--test", "it", "--no-fail-fast", "--", "faults::"];
    Step::cargo("faults", &[&arguments[..], &["--ignored", "--test-threads", "8"]].concat())
}

/// Fleets of databases and workers, simulated for minutes.
pub(super) fn fleets() -> Step {
    Step::cargo(
        "sim fleets",
        &["test", "--release", "-p", "firn-sim", "--test", "it", "--", "--ignored", "--nocapture", "fleet::"],
    )
}

/// Where cargo puts the program `name` when it builds it as it has built this one; from `root`, if
/// it lies there.
fn beside_this_program(root: &Path, name: &str) -> String {
    let path = std::env::current_exe().map_or_else(|_| name.into(), |program| program.with_file_name(name));
    path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned()
}

/// A control plane as clients in another language find it. By what the tests have built: for one
/// package alone most crates would be built again.
pub(super) fn grpc() -> Step {
    let arguments = ["test", "--workspace", "--test", "it", "--", "--ignored", "--nocapture"];
    Step::cargo("grpcio", &[&arguments[..], &["--test-threads", "1", "suite_of_grpcio"]].concat())
        .needing("python3")
        .fetching(PYTHON)
}

/// Backends in stores that others have made: MinIO, killed and started again, with a database and
/// its workers too; and fakes of Google's and Azure's. Each is installed or built first, in up to
/// three minutes, MinIO in five of one processor's (the first time).
pub(super) fn clouds() -> Vec<Step> {
    let step = |name: &str, package: &str, test: &str| {
        let arguments = ["test", "-p", package, "--test", "it", "--", "--ignored", "--nocapture"];
        Step::cargo(name, &[&arguments[..], &["--test-threads", "1", test]].concat())
    };
    vec![
        step("objects minio", "firn-objects", "suite_on_minio").needing("go").fetching(MODULES),
        step("database on minio", "firn-cli", "a_database_on_minio").needing("go").fetching(MODULES),
        step("objects azurite", "firn-objects", "suite_on_azurite").needing("npm").fetching(NODE),
        step("objects fake-gcs-server", "firn-objects", "suite_on_fake_gcs_server")
            .needing("go")
            .fetching(MODULES),
    ]
}

/// The server as a real process: client libraries in their own languages, crowds, the largest
/// values, and what takes minutes. In release, since sizes are what they are about; one after the
/// other, since times are too.
pub(super) fn server() -> Vec<Step> {
    let step = |name: &str, tests: &[&str]| {
        let mut arguments = vec!["test", "--release", "-p", "firn-cli", "--test", "it", "--"];
        arguments.extend(["--ignored", "--nocapture", "--test-threads", "1"]);
        arguments.extend(tests);
        Step::cargo(format!("server {name}"), &arguments)
    };
    vec![
        step("redis-py", &["suite_of_redis_py"]).needing("python3").fetching(PYTHON),
        step("ioredis", &["suite_of_ioredis"]).needing("npm").fetching(NODE),
        step("go-redis", &["suite_of_go_redis"]).needing("go").fetching(MODULES),
        step("jedis", &["suite_of_jedis"]).needing("mvn").fetching("Java packages by Maven"),
        step("benchmark", &["redis_benchmark_runs"]).needing("redis-benchmark"),
        step("page", &["page::"]).needing("chromium").needing("redis-benchmark"),
        step("kills", &["many_kills_lose_nothing", "many_rounds_are_linearizable"]),
        step("crowds", &["crowds::"]),
        step("space", &["space::"]),
        step(
            "minutes",
            &[
                "caas::every_part",
                "parts::files_of_many",
                "rights::a_worker_that_may_create",
                "writing_against_space",
                "two_hundred_jobs",
            ],
        ),
    ]
}

/// The container: built as the Dockerfile says, over a Debian made of its packages, and run.
pub(super) fn container() -> Step {
    Step::call("container", "deploy/test-container", &[])
        .needing("buildah")
        .needing("debootstrap")
        .fetching("Debian's packages")
        .unless(|| (!super::setup::is_root()).then(|| "making images needs root".to_owned()))
}

/// One minute on every fuzz target.
pub(super) fn fuzzing(root: &Path) -> Vec<Step> {
    FUZZED.iter().flat_map(|folder| fuzzing_in(root, folder)).collect()
}

/// Folders with fuzz targets.
const FUZZED: [&str; 2] = ["crates/format/fuzz", "crates/protocol/fuzz"];

fn fuzzing_in(root: &Path, folder: &'static str) -> Vec<Step> {
    let targets = std::fs::read_dir(root.join(folder).join("fuzz_targets")).into_iter().flatten().flatten();
    let mut names: Vec<String> = targets
        .filter_map(|target| target.file_name().to_str()?.strip_suffix(".rs").map(str::to_owned))
        .collect();
    names.sort();
    let step = |name: String| {
        let arguments =
            ["fuzz", "run", "--fuzz-dir", folder, "-s", "none", &name, "--", "-max_total_time=60"];
        Step::cargo(format!("fuzz {name}"), &arguments).needing("c++").needing("cargo-fuzz")
    };
    names.into_iter().map(step).collect()
}

/// The crates with `unsafe` under the address sanitizer, on the stable toolchain.
pub(super) fn address_sanitizer() -> Step {
    let arguments = [
        "test",
        "-p",
        "firn-arena",
        "-p",
        "firn-storage",
        "-p",
        "firn-tree",
        "-p",
        "firn-server",
        "--lib",
        "--tests",
        "--target",
        TARGET,
        "--",
        // What the sanitizer's allocator is given back it keeps for a while.
        "--skip",
        "memory_that_is_given_up_is_the_system_s_again",
    ];
    Step::cargo("address sanitizer", &arguments)
        .with("RUSTC_BOOTSTRAP", "1")
        .with("RUSTFLAGS", &format!("-Zsanitizer=address {MACHINE_FLAGS}"))
        .with("CARGO_TARGET_DIR", "target/address")
        // Calls take several times the stack there: nesting that threads have room for overflows
        // it.
        .with("RUST_MIN_STACK", "33554432")
        .unless(no_address_sanitizer)
}

/// The sanitizer's run-time library comes with most toolchains, not with all.
fn no_address_sanitizer() -> Option<String> {
    let answer = Command::new("rustc").args(["--print", "target-libdir", "--target", TARGET]).output();
    let folder = answer.map(|answer| String::from_utf8_lossy(&answer.stdout).trim().to_owned());
    let mut files = folder.ok().and_then(|folder| std::fs::read_dir(folder).ok())?.flatten();
    let has_library = files.any(|file| file.file_name().to_string_lossy().ends_with("_rt.asan.a"));
    (!has_library).then(|| "this toolchain has no run-time library of the address sanitizer".to_owned())
}

/// The database of advisories is fetched from where it is kept, or was fetched before.
fn no_advisories() -> Option<String> {
    let fetched = cargo::call("cargo")
        .args(["deny", "fetch", "db"])
        .current_dir(crate::repository::root())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    let is_there = fetched.is_ok_and(|status| status.success());
    (!is_there).then(|| "the database of advisories cannot be fetched".to_owned())
}

/// The documentation as a site.
pub(super) fn book() -> Step {
    Step::inside("book", book::run).needing("mdbook")
}

/// Licences, sources, advisories and spelling.
pub(super) fn supply_chain() -> Vec<Step> {
    vec![
        Step::cargo("licences", &["deny", "check", "licenses", "bans", "sources"]).needing("cargo-deny"),
        Step::cargo("advisories", &["deny", "check", "--disable-fetch", "advisories"])
            .needing("cargo-deny")
            .unless(no_advisories),
        Step::call("spelling", "typos", &[]).needing("typos"),
    ]
}

#[cfg(test)]
mod tests;
