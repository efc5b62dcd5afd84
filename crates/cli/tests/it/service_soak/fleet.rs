//! The processes of a soak, and what befalls them.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use firn_s3_server::{Faults, S3Server, ServerOptions};
use rustix::process::Signal;
use tempfile::TempDir;

use super::answers::Jobs;
use super::clocks::Clocks;
use super::leftovers::{self, Leftovers};
use super::member::{Member, Process, signal_to};
use super::network::Network;
use super::trouble::{Deck, Tally, Trouble};
use crate::bad_store::GOOD;
use crate::program::{say_left_out, text, write_secret};
use crate::serve::Serving;
use crate::service_http::samples_at;

pub(super) const PROGRAM: &str = env!("CARGO_BIN_EXE_firn");
const BUCKET: &str = "firn-test";
const LOCATION: &str = "s3://firn-test/db";
/// How many workers there are.
pub(super) const WORKERS: usize = 3;
/// How many machines take the database from one another.
const MACHINES: usize = 2;
/// The worker and the control plane whose clocks jump, as those of both machines do that have the
/// database.
const JUMPING: usize = 1;
/// How long a lease lasts after its worker's last word, unless control planes are told otherwise.
const LEASE: Duration = Duration::from_secs(10);
/// What is wrong with the store all the time.
const FAULTS: Faults = Faults { refused_per_mille: 25, lost_per_mille: 25, ..GOOD };
/// How long it takes nothing, at times.
const REFUSES_MS: std::ops::Range<u64> = 500..5000;
/// How long a control plane stands still: for longer than a lease.
const STILL_MS: std::ops::Range<u64> = 11_000..14_000;

/// Under these a few MiB make many jobs, of which every other one is done twice, unless writers are
/// about to stop.
pub(super) const SETTINGS: &str = "space_amplification_max = 1.3\ndurability = \"shared\"\nreexecuted_share = 0.5\n\
    [tree]\nmemtable_bytes = 1048576\ntable_bytes = 131072\nlog_segment_bytes = 4194304\n\
    buffer_bytes = 4194304\nbuffer_bytes_max = 16777216\nseparate_bytes = 1000\nblob_segment_bytes = 262144\n";

fn worker_name(at: usize) -> String {
    format!("worker-{at}")
}

fn plane_name(at: usize) -> String {
    format!("control-plane-{at}")
}

fn machine_name(at: usize) -> String {
    format!("machine-{at}")
}

/// What a machine was that lost the database without noticing.
struct Sleeper {
    serving: Serving,
    until: Instant,
}

/// Expects that the machine at `address`, which has lost the database, acknowledges nothing and
/// says why.
fn assert_refuses(address: &str) {
    // Clients begin with several requests; a machine that may acknowledge nothing answers the
    // first.
    let mut stream = TcpStream::connect(address).expect("it runs");
    // A store that fails is asked for a while whose the last log object is.
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("an option");
    stream.write_all(b"SET lost 1\r\n").expect("it is sent");
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).expect("it answers");
    let expected = ["opened on another machine", "writes are refused"];
    assert!(answer.starts_with('-') && expected.iter().any(|words| answer.contains(words)), "{answer:?}");
}

/// A directory that is removed at the end, and kept where a test fails: it shows what was lost.
struct Kept(TempDir);

impl Drop for Kept {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.disable_cleanup(true);
            eprintln!("the store and the logs of both machines are kept in {}", self.0.path().display());
        }
    }
}

pub(super) struct Fleet {
    pub(super) tally: Tally,
    network: Network,
    deck: Deck,
    /// By worker, until when its wire is cut.
    cut_until: [Option<Instant>; WORKERS],
    clocks: Clocks,
    store: Option<S3Server>,
    /// Until when it takes nothing.
    refuses_until: Option<Instant>,
    urls: Vec<String>,
    planes: Vec<Option<Member>>,
    workers: Vec<Member>,
    serving: Option<Serving>,
    sleeper: Option<Sleeper>,
    machine: usize,
    seed: u64,
    /// Behind all that lies in it.
    directory: Kept,
}

impl Fleet {
    /// What the machine cannot make is left out, and said.
    pub(super) fn start(network: Network, seed: u64) -> Self {
        let directory = TempDir::new().expect("a directory");
        S3Server::make_bucket(&directory.path().join("s3"), BUCKET).expect("a bucket");
        std::fs::write(directory.path().join("settings.toml"), SETTINGS).expect("written");
        write_secret(directory.path().join("token"), "a-secret\n");
        let clocks = Clocks::new(directory.path());
        let mut left_out = Vec::new();
        if !clocks.can_jump() {
            say_left_out("jumps of clocks, for want of libfaketime (Debian: faketime)");
            left_out.extend(Trouble::CLOCKS);
        }
        if !network.has_wires() {
            println!("left out: workers cut off, for want of a network of their own");
            left_out.push(Trouble::WorkerCutOff);
        }
        let mut fleet = Self {
            tally: Tally::default(),
            network,
            deck: Deck::without(&left_out, seed),
            cut_until: [None; WORKERS],
            clocks,
            store: None,
            refuses_until: None,
            urls: Vec::new(),
            planes: Vec::new(),
            workers: Vec::new(),
            serving: None,
            sleeper: None,
            machine: 0,
            seed,
            directory: Kept(directory),
        };
        fleet.start_store(None);
        for at in 0..2 {
            fleet.planes.push(None);
            fleet.urls.push(String::new());
            fleet.start_plane(at);
        }
        for at in 0..WORKERS {
            let member = fleet.worker(at);
            fleet.workers.push(member);
        }
        fleet.serve();
        fleet
    }

    fn path(&self, name: &str) -> String {
        text(&self.directory.0.path().join(name)).to_owned()
    }

    /// Starts the store, where it was before if there was one.
    fn start_store(&mut self, port: Option<u16>) {
        let (address, seed) = (self.network.address(), self.seed);
        let options = ServerOptions { address, port, seed, ..ServerOptions::default() };
        let store = S3Server::start(&self.directory.0.path().join("s3"), options).expect("it listens");
        store.set_faults(FAULTS);
        self.store = Some(store);
    }

    fn settings(&self) -> Vec<(&'static str, String)> {
        self.store.as_ref().expect("it runs").settings().to_vec()
    }

    /// A control plane, where one was before if there was one.
    fn start_plane(&mut self, at: usize) {
        let bind = self.network.address().to_string();
        let port = self.urls[at].rsplit_once(':').map_or("0", |(_, port)| port).to_owned();
        let mut command = Command::new(PROGRAM);
        command.args([
            "control-plane",
            "--bind",
            &bind,
            "--port",
            &port,
            "--token-file",
            &self.path("token"),
        ]);
        command.args(["--http-bind", &bind, "--http-port", "0"]);
        let jumps = at == JUMPING;
        if jumps {
            self.clocks.give(&plane_name(at), &mut command);
        }
        let (process, line) = Process::start(&mut command);
        let url = line.split_whitespace().find_map(|word| word.strip_suffix(';')).unwrap_or_default();
        assert!(url.starts_with("http://"), "{line:?}");
        self.clocks.expect(process.0.id(), jumps);
        self.urls[at] = url.to_owned();
        self.planes[at] = Some(Member::new(process, &line));
    }

    fn worker(&self, at: usize) -> Member {
        let mut command = self.network.there(at, PROGRAM);
        command.args(["worker", "--control-plane-token-file", &self.path("token")]);
        command.args(["--within", LOCATION, "--threads", "2"]);
        command
            .args(["--control-plane", &self.urls.join(","), "--name", &worker_name(at)])
            .envs(self.settings());
        let jumps = at == JUMPING;
        if jumps {
            self.clocks.give(&worker_name(at), &mut command);
        }
        let (process, line) = Process::start(&mut command);
        assert!(line.starts_with(&format!("worker-{at} works for http://")), "{line:?}");
        self.clocks.expect(process.0.id(), jumps);
        Member::new(process, &line)
    }

    /// The database on this machine, taken over where it is another one's.
    fn serve(&mut self) {
        let mut command = Command::new(PROGRAM);
        command.args(["serve", "--shared", LOCATION, "--take-over", "--config", &self.path("settings.toml")]);
        command.args(["--control-plane", &self.urls.join(",")]);
        command.args(["--control-plane-token-file", &self.path("token")]).envs(self.settings());
        command.stderr(Stdio::null());
        self.clocks.give(&machine_name(self.machine), &mut command);
        let serving = Serving::start_as(&mut command, &self.local()).expect("it serves");
        self.clocks.expect(serving.process.id(), true);
        self.serving = Some(serving);
    }

    pub(super) fn address(&self) -> String {
        self.serving.as_ref().expect("it serves").address.clone()
    }

    /// Trouble befalls a process, or ends; where the database is then.
    ///
    /// Once it `is_over` no more begins, and what was to last goes on until it ends.
    pub(super) fn something_happens(&mut self, random: &mut fastrand::Rng, is_over: bool) -> String {
        self.let_pass(Instant::now());
        if is_over {
            return self.address();
        }
        if let Some(kind) = self.deck.draw(random)
            && !self.befalls(kind, random)
        {
            self.deck.put_off(kind, &self.tally);
        }
        self.address()
    }

    /// Whether everything that can happen here has.
    pub(super) fn has_seen_everything(&self) -> bool {
        self.deck.is_over(&self.tally)
    }

    /// Makes `kind` happen; `false` if it cannot now.
    fn befalls(&mut self, kind: Trouble, random: &mut fastrand::Rng) -> bool {
        let now = Instant::now();
        let until = now + Duration::from_millis(random.u64(500..14_000));
        let (worker, plane) = (random.usize(0..WORKERS), random.usize(0..self.planes.len()));
        let wants_store = matches!(
            kind,
            Trouble::DatabaseKilled
                | Trouble::TakenOver
                | Trouble::FoughtFor
                | Trouble::StoreRestarted
                | Trouble::StoreFull
                | Trouble::StoreReadOnly
        );
        // No database is opened where nothing can be written.
        if wants_store && self.refuses_until.is_some() {
            return false;
        }
        match kind {
            Trouble::WorkerKilled => self.workers[worker] = self.worker(worker),
            Trouble::WorkerStopped => {
                if !self.workers[worker].stop(until) {
                    return false;
                }
            }
            Trouble::WorkerCutOff => {
                if self.cut_until[worker].is_some() {
                    return false;
                }
                self.network.cut(worker, true);
                self.cut_until[worker] = Some(until);
            }
            Trouble::WorkerClockJumped | Trouble::PlaneClockJumped | Trouble::DatabaseClockJumped => {
                let (whose, far) = match kind {
                    Trouble::WorkerClockJumped => (worker_name(JUMPING), random.bool()),
                    Trouble::PlaneClockJumped => (plane_name(JUMPING), true),
                    _ => (machine_name(self.machine), false),
                };
                self.clocks.jump(&whose, far, random);
            }
            Trouble::PlaneKilled => {
                if self.planes[plane].as_ref().is_some_and(|plane| plane.stopped_until.is_some()) {
                    return false;
                }
                self.note_attempts(plane);
                self.planes[plane] = None;
                self.start_plane(plane);
            }
            Trouble::PlaneStopped => {
                let until = now + Duration::from_millis(random.u64(STILL_MS));
                // Counted when it goes on.
                return self.planes[plane].as_mut().is_some_and(|plane| plane.stop(until));
            }
            Trouble::DatabaseKilled => {
                self.lose_database();
                self.serve();
            }
            Trouble::TakenOver => self.take_over(until),
            Trouble::FoughtFor => self.fight(),
            Trouble::StoreRestarted => {
                let port = self.store.take().map(|store| store.port());
                self.start_store(port);
            }
            Trouble::StoreFull | Trouble::StoreReadOnly => {
                let (is_full, is_read_only) = (kind == Trouble::StoreFull, kind == Trouble::StoreReadOnly);
                self.set_faults(Faults { is_full, is_read_only, ..FAULTS });
                self.refuses_until = Some(now + Duration::from_millis(random.u64(REFUSES_MS)));
            }
        }
        self.tally.note(kind);
        true
    }

    /// What was to last until `now` is over.
    fn let_pass(&mut self, now: Instant) {
        for worker in &mut self.workers {
            if worker.go_on(now) && worker.stopped_for > LEASE {
                self.tally.past_lease += 1;
            }
        }
        for plane in self.planes.iter_mut().flatten() {
            if plane.go_on(now) {
                self.tally.note(Trouble::PlaneStopped);
            }
        }
        for (at, cut_until) in self.cut_until.iter_mut().enumerate() {
            if cut_until.is_some_and(|until| until <= now) {
                self.network.cut(at, false);
                *cut_until = None;
            }
        }
        if self.refuses_until.is_some_and(|until| until <= now) {
            self.set_faults(FAULTS);
            self.refuses_until = None;
        }
        if self.sleeper.as_ref().is_some_and(|sleeper| sleeper.until <= now) {
            self.wake();
        }
    }

    fn set_faults(&self, faults: Faults) {
        self.store.as_ref().expect("it runs").set_faults(faults);
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
            self.tally.carry_jobs_over();
        }
    }

    /// Another machine takes the database while this one sleeps, and does not know when it wakes.
    fn take_over(&mut self, until: Instant) {
        self.wake();
        self.count_jobs();
        let Some(serving) = self.serving.take() else { return };
        signal_to(&serving.process, Signal::STOP);
        self.sleeper = Some(Sleeper { serving, until });
        self.tally.carry_jobs_over();
        self.machine = 1 - self.machine;
        self.serve();
    }

    /// Another machine takes the database from a machine at work, which acknowledges nothing from
    /// then on.
    fn fight(&mut self) {
        self.wake();
        self.count_jobs();
        let Some(mut loser) = self.serving.take() else { return };
        self.tally.carry_jobs_over();
        self.machine = 1 - self.machine;
        self.serve();
        assert_refuses(&loser.address);
        loser.process.kill().expect("it is killed");
        loser.process.wait().expect("it ends");
    }

    /// Asks the database what it has had done since it was opened, and what was wrong with it.
    pub(super) fn count_jobs(&mut self) {
        let client = redis::Client::open(format!("redis://{}", self.address())).expect("an address");
        let connection = client.get_connection_with_timeout(Duration::from_secs(20)).and_then(|connection| {
            connection.set_read_timeout(Some(Duration::from_secs(20)))?;
            Ok(connection)
        });
        let info = connection
            .and_then(|mut connection| redis::cmd("INFO").arg("firn").query::<String>(&mut connection));
        let Ok(info) = info else { return };
        self.tally.set_jobs(Jobs::parse(&info));
    }

    /// Notes what control plane `at` has counted since its start.
    fn note_attempts(&mut self, at: usize) {
        let member = self.planes[at].as_ref().expect("it runs");
        self.tally.attempts.add(&samples_at(member.http.as_deref().expect("it says where")));
    }

    /// Ends all trouble.
    pub(super) fn heal(&mut self) {
        self.let_pass(Instant::now() + Duration::from_secs(3600));
        self.set_faults(GOOD);
        (0..MACHINES).for_each(|machine| self.clocks.set_right(&machine_name(machine)));
    }

    /// The database starts again, with what it finds; the workers of before do nothing for it any
    /// more.
    pub(super) fn start_again(&mut self) {
        self.heal();
        self.lose_database();
        self.workers.clear();
        self.report_leftovers();
        self.workers = (0..WORKERS).map(|at| self.worker(at)).collect();
        self.serve();
    }

    /// Reports what is left while no machine has the database and no worker works for it, so that
    /// nothing of it is committed any more.
    ///
    /// There may be some, which the next opening removes. What an attempt left that came to nothing
    /// is removed after a minute, and what is of an opening before within an hour. What was under
    /// way just now is not waited for.
    fn report_leftovers(&self) {
        println!("left before the next opening: {}", self.leftovers(Duration::from_secs(10), |_| true));
    }

    /// Workers are killed and stand still, and nothing else happens; where the database is.
    pub(super) fn workers_fail(&mut self, random: &mut fastrand::Rng, is_over: bool) -> String {
        self.let_pass(Instant::now());
        if !is_over {
            let kind = if random.bool() { Trouble::WorkerKilled } else { Trouble::WorkerStopped };
            let _happened = self.befalls(kind, random);
        }
        self.address()
    }

    /// What lies in the store of which nothing speaks, once that is `enough` or `patience` is over.
    pub(super) fn leftovers(&self, patience: Duration, enough: impl Fn(&Leftovers) -> bool) -> Leftovers {
        let end = Instant::now() + patience;
        let (store, local) = (self.directory.0.path().join("s3"), self.local());
        loop {
            match leftovers::look(&store, BUCKET, &local) {
                Ok(left) if enough(&left) || Instant::now() > end => return left,
                Err(damage) if Instant::now() > end => panic!("the database is damaged: {damage}"),
                _ => std::thread::sleep(Duration::from_millis(500)),
            }
        }
    }

    fn local(&self) -> PathBuf {
        self.directory.0.path().join(machine_name(self.machine))
    }

    /// All processes end, and what is left is a sound database and nothing else.
    pub(super) fn end(mut self) -> Tally {
        self.count_jobs();
        (0..self.planes.len()).for_each(|at| self.note_attempts(at));
        self.workers.clear();
        self.planes.clear();
        self.serving.take().expect("it serves").end();
        self.report_leftovers();
        // The next opening removes what attempts left that were given up since the last look. It
        // may write too, and then no longer needs the log objects of the opening before. Log
        // objects that it has not removed when it ends it leaves to the next one.
        for others in [2, 1, 0] {
            self.serve();
            self.serving.take().expect("it serves").end();
            let left = leftovers::look(&self.directory.0.path().join("s3"), BUCKET, &self.local());
            let left = left.unwrap_or_else(|damage| panic!("{damage}"));
            if left.outputs.is_empty() && left.others.is_empty() {
                break;
            }
            assert!(others > 0 && left.outputs.is_empty() && left.are_log_objects(), "{left:#?}");
        }
        self.tally.clone()
    }
}
