//! The processes of a soak, and what befalls them.

use std::fmt;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use firn_engine::Semantics;
use firn_s3_server::{Faults, S3Server, ServerOptions};
use firn_storage::place::{Divided, Local, LocalOptions};
use firn_tree::{VerifyOptions, verify};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::network::Network;
use crate::program::text;
use crate::serve::Serving;

const PROGRAM: &str = env!("CARGO_BIN_EXE_firn");
const BUCKET: &str = "firn-test";
const PLACE: &str = "s3://firn-test/db";
/// Fakes the time of a process whose clock jumps.
const FAKE_TIME: &str = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1";

/// Under these a few MiB make many jobs.
const SETTINGS: &str = "memtable_bytes = 1048576\ntable_bytes = 131072\nlog_segment_bytes = 4194304\n\
    buffer_bytes = 4194304\nbuffer_bytes_max = 16777216\nseparate_bytes = 1000\nvalue_segment_bytes = 262144\n\
    space_amplification_max = 1.3\ndurability = \"shared\"\n";

/// What has happened so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    jobs_before: (u64, u64),
    jobs_now: (u64, u64),
    pub(super) workers_killed: u64,
    pub(super) workers_stopped: u64,
    pub(super) workers_cut_off: u64,
    pub(super) planes_killed: u64,
    pub(super) databases_lost: u64,
    pub(super) takeovers: u64,
    pub(super) store_restarts: u64,
    pub(super) clock_jumps: u64,
}

impl Tally {
    /// Jobs that workers have done.
    pub(super) fn done_elsewhere(&self) -> u64 {
        self.jobs_before.0 + self.jobs_now.0
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let here = self.jobs_before.1 + self.jobs_now.1;
        let Self { workers_killed, workers_stopped, workers_cut_off, planes_killed, .. } = self;
        let Self { databases_lost, takeovers, store_restarts, clock_jumps, .. } = self;
        write!(
            f,
            "{} jobs by workers, {here} by the database; workers: {workers_killed} killed, {workers_stopped} stopped, {workers_cut_off} cut off, \
             {clock_jumps} jumps of a clock; {planes_killed} control planes killed; databases: {databases_lost} killed, {takeovers} taken over; \
             {store_restarts} restarts of the store",
            self.done_elsewhere()
        )
    }
}

/// A process, killed when it is dropped.
struct Process(Child);

impl Process {
    /// Starts `command` and waits for its first line.
    fn start(command: &mut Command) -> (Self, String) {
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
        let mut line = String::new();
        BufReader::new(process.stdout.as_mut().expect("piped")).read_line(&mut line).expect("it is read");
        (Self(process), line)
    }

    fn signal(&self, signal: Signal) {
        signal_to(&self.0, signal);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _ended = self.0.wait();
    }
}

fn signal_to(process: &Child, signal: Signal) {
    let pid = Pid::from_raw(process.id().cast_signed()).expect("an id");
    kill_process(pid, signal).expect("it is there");
}

/// A worker, and until when it is stopped.
struct Member {
    process: Process,
    stopped_until: Option<Instant>,
}

/// What a machine was that lost the database without noticing.
struct Sleeper {
    serving: Serving,
    until: Instant,
}

pub(super) struct Fleet {
    pub(super) tally: Tally,
    network: Network,
    cut_until: Option<Instant>,
    /// Of worker number 1, if it has one that jumps.
    clock: Option<std::path::PathBuf>,
    store: Option<S3Server>,
    urls: Vec<String>,
    planes: Vec<Option<Process>>,
    workers: Vec<Member>,
    serving: Option<Serving>,
    sleeper: Option<Sleeper>,
    machine: usize,
    seed: u64,
    /// Behind all that lies in it.
    directory: TempDir,
}

impl Fleet {
    pub(super) fn start(network: Network, seed: u64) -> Self {
        let directory = TempDir::new().expect("a directory");
        S3Server::make_bucket(&directory.path().join("s3"), BUCKET).expect("a bucket");
        std::fs::write(directory.path().join("settings.toml"), SETTINGS).expect("written");
        std::fs::write(directory.path().join("token"), "a-secret\n").expect("written");
        let clock = network.has_wire().then(|| directory.path().join("clock"));
        let mut fleet = Self {
            tally: Tally::default(),
            network,
            cut_until: None,
            clock,
            store: None,
            urls: Vec::new(),
            planes: Vec::new(),
            workers: Vec::new(),
            serving: None,
            sleeper: None,
            machine: 0,
            seed,
            directory,
        };
        fleet.set_clock(0);
        fleet.start_store(None);
        for at in 0..2 {
            fleet.planes.push(None);
            fleet.urls.push(String::new());
            fleet.start_plane(at);
        }
        for at in 0..3 {
            let member = fleet.worker(at);
            fleet.workers.push(member);
        }
        fleet.serve();
        fleet
    }

    fn path(&self, name: &str) -> String {
        text(&self.directory.path().join(name)).to_owned()
    }

    fn set_clock(&self, hours: i64) {
        if let Some(clock) = &self.clock {
            std::fs::write(clock, format!("{hours:+}h\n")).expect("written");
        }
    }

    /// Starts the store, where it was before if there was one.
    fn start_store(&mut self, port: Option<u16>) {
        let (address, seed) = (self.network.address(), self.seed);
        let options = ServerOptions { address, port, seed, ..ServerOptions::default() };
        let store = S3Server::start(&self.directory.path().join("s3"), options).expect("it listens");
        store.set_faults(Faults { refused_per_mille: 25, lost_per_mille: 25, ..Faults::default() });
        self.store = Some(store);
    }

    fn settings(&self) -> Vec<(&'static str, String)> {
        self.store.as_ref().expect("it runs").settings().to_vec()
    }

    /// A control plane, where one was before if there was one.
    fn start_plane(&mut self, at: usize) {
        let listen = match self.urls[at].strip_prefix("http://") {
            Some(address) => address.to_owned(),
            None => format!("{}:0", self.network.address()),
        };
        let mut command = Command::new(PROGRAM);
        command.args(["control-plane", "--listen", &listen, "--token-file", &self.path("token")]);
        let (process, line) = Process::start(&mut command);
        let url = line.split_whitespace().find_map(|word| word.strip_suffix(';')).unwrap_or_default();
        assert!(url.starts_with("http://"), "{line:?}");
        self.urls[at] = url.to_owned();
        self.planes[at] = Some(process);
    }

    fn worker(&self, at: usize) -> Member {
        // The first one is behind the wire, the second one's clock jumps.
        let mut command = if at == 0 { self.network.there(PROGRAM) } else { Command::new(PROGRAM) };
        command.args(["worker", "--token-file", &self.path("token"), "--within", PLACE, "--threads", "2"]);
        command
            .args(["--control-plane", &self.urls.join(","), "--name", &format!("worker-{at}")])
            .envs(self.settings());
        if let (1, Some(clock)) = (at, &self.clock) {
            let environment = [
                ("LD_PRELOAD", FAKE_TIME),
                ("FAKETIME_TIMESTAMP_FILE", text(clock)),
                ("FAKETIME_NO_CACHE", "1"),
                ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
            ];
            command.envs(environment);
        }
        let (process, line) = Process::start(&mut command);
        assert!(line.starts_with(&format!("worker-{at} works for http://")), "{line:?}");
        Member { process, stopped_until: None }
    }

    /// The database on this machine, taken over where it is another one's.
    fn serve(&mut self) {
        let mut command = Command::new(PROGRAM);
        command.args(["serve", "--shared", PLACE, "--take-over", "--config", &self.path("settings.toml")]);
        command.args(["--control-plane", &self.urls.join(",")]);
        command.args(["--control-plane-token-file", &self.path("token")]).envs(self.settings());
        command.stderr(Stdio::null());
        let dir = self.directory.path().join(format!("machine-{}", self.machine));
        self.serving = Some(Serving::start_as(&mut command, &dir).expect("it serves"));
    }

    pub(super) fn address(&self) -> String {
        self.serving.as_ref().expect("it serves").address.clone()
    }

    /// Something befalls somebody, or ends; where the database is then.
    ///
    /// Once it `is_over` nothing more does, and what was to last goes on until it ends.
    pub(super) fn something_happens(&mut self, random: &mut fastrand::Rng, is_over: bool) -> String {
        self.let_pass(Instant::now());
        if is_over {
            return self.address();
        }
        let until = Instant::now() + Duration::from_millis(random.u64(500..14_000));
        match random.u32(0..40) {
            0..=3 => {
                let at = random.usize(0..self.workers.len());
                self.workers[at] = self.worker(at);
                self.tally.workers_killed += 1;
            }
            4..=6 => {
                let member = &mut self.workers[random.usize(1..3)];
                if member.stopped_until.is_none() {
                    member.process.signal(Signal::STOP);
                    member.stopped_until = Some(until);
                    self.tally.workers_stopped += 1;
                }
            }
            7..=9 if self.network.has_wire() && self.cut_until.is_none() => {
                self.network.cut(true);
                self.cut_until = Some(until);
                self.tally.workers_cut_off += 1;
            }
            10..=12 => {
                let at = random.usize(0..2);
                self.planes[at] = None;
                self.start_plane(at);
                self.tally.planes_killed += 1;
            }
            13 => {
                self.lose_database();
                self.serve();
            }
            14 => self.take_over(until),
            15 if random.bool() => {
                let port = self.store.take().map(|store| store.port());
                self.start_store(port);
                self.tally.store_restarts += 1;
            }
            16 | 17 if self.clock.is_some() => {
                self.set_clock(random.i64(-40..40));
                self.tally.clock_jumps += 1;
            }
            _ => {}
        }
        self.address()
    }

    /// What was to last until now is over.
    fn let_pass(&mut self, now: Instant) {
        for member in &mut self.workers {
            if member.stopped_until.is_some_and(|until| until <= now) {
                member.process.signal(Signal::CONT);
                member.stopped_until = None;
            }
        }
        if self.cut_until.is_some_and(|until| until <= now) {
            self.network.cut(false);
            self.cut_until = None;
        }
        if self.sleeper.as_ref().is_some_and(|sleeper| sleeper.until <= now) {
            self.wake();
        }
    }

    /// The machine that lost the database goes on for a moment, and is gone.
    fn wake(&mut self) {
        let Some(Sleeper { mut serving, .. }) = self.sleeper.take() else { return };
        signal_to(&serving.process, Signal::CONT);
        std::thread::sleep(Duration::from_millis(700));
        serving.process.kill().expect("it is killed");
        serving.process.wait().expect("it ends");
    }

    fn lose_database(&mut self) {
        self.count_jobs();
        if let Some(mut serving) = self.serving.take() {
            serving.process.kill().expect("it is killed");
            serving.process.wait().expect("it ends");
            self.tally.databases_lost += 1;
            self.jobs_are_told();
        }
    }

    /// Another machine takes the database while this one sleeps, and does not know when it wakes.
    fn take_over(&mut self, until: Instant) {
        self.wake();
        self.count_jobs();
        let Some(serving) = self.serving.take() else { return };
        signal_to(&serving.process, Signal::STOP);
        self.sleeper = Some(Sleeper { serving, until });
        self.jobs_are_told();
        self.machine = 1 - self.machine;
        self.serve();
        self.tally.takeovers += 1;
    }

    /// Asks the database what workers have done for it since it was opened.
    pub(super) fn count_jobs(&mut self) {
        let client = redis::Client::open(format!("redis://{}", self.address())).expect("an address");
        let connection = client.get_connection_with_timeout(Duration::from_secs(20)).and_then(|connection| {
            connection.set_read_timeout(Some(Duration::from_secs(20)))?;
            Ok(connection)
        });
        let told = connection
            .and_then(|mut connection| redis::cmd("INFO").arg("firn").query::<String>(&mut connection));
        let Ok(told) = told else { return };
        let sum = |word: &str| {
            let fields =
                told.lines().filter(|line| line.starts_with("firn_jobs_") || line.starts_with("jobs_"));
            let counts =
                fields.flat_map(|line| line.split([':', ','])).filter_map(|field| field.strip_prefix(word));
            counts.filter_map(|count| count.trim().parse::<u64>().ok()).sum::<u64>()
        };
        self.tally.jobs_now = (sum("elsewhere_count="), sum("here_count="));
    }

    fn jobs_are_told(&mut self) {
        let (elsewhere, here) = std::mem::take(&mut self.tally.jobs_now);
        self.tally.jobs_before.0 += elsewhere;
        self.tally.jobs_before.1 += here;
    }

    /// Nothing befalls anybody any more.
    pub(super) fn heal(&mut self) {
        self.let_pass(Instant::now() + Duration::from_secs(3600));
        self.store.as_ref().expect("it runs").set_faults(Faults::default());
    }

    /// Everybody ends, and what is left is a sound database and nothing else.
    pub(super) fn end(mut self) -> Tally {
        self.count_jobs();
        self.workers.clear();
        self.planes.clear();
        self.serving.take().expect("it serves").end();
        // Whoever opens it next removes what attempts left that were given up since the last look.
        self.serve();
        self.serving.take().expect("it serves").end();
        let local = self.directory.path().join(format!("machine-{}", self.machine));
        let shared = self.directory.path().join("s3").join(BUCKET).join("db");
        // What says that a directory is a database.
        std::fs::write(shared.join("LOCK"), "").expect("written");
        let open = |path| Local::open(path, LocalOptions { create: false }).expect("a directory");
        let storage =
            Arc::new(Divided::open(Arc::new(open(&local)), Arc::new(open(&shared)), 1).expect("both"));
        let report =
            verify(VerifyOptions { storage, semantics: Semantics::new() }, &mut |_| {}).expect("it is read");
        let findings: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
        let left = |finding: &&String| finding.contains(".table") || finding.contains(".values");
        assert!(report.is_sound() && !findings.iter().any(|finding| left(&finding)), "{findings:#?}");
        self.tally.clone()
    }
}
