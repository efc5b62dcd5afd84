//! The program as control plane, workers and database: killed, started again, on a directory and on
//! a store that fails.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::net::Ipv4Addr;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use firn_s3_server::{Faults, S3Server, ServerOptions};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::hosts::own_host;
use crate::program::{Answer, firn, text, write_secret};
use crate::rounds::{self, Model, SETTINGS};
use crate::serve::Serving;
use crate::service_http::{samples, sum};

const PROGRAM: &str = env!("CARGO_BIN_EXE_firn");
pub(crate) const BUCKET: &str = "firn-test";

/// A process and its first line, killed when it is dropped.
pub(crate) struct Process(pub(crate) Child, pub(crate) String);

impl Process {
    /// Starts `command` and waits for its first line.
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
        let mut line = String::new();
        BufReader::new(process.stdout.as_mut().expect("piped")).read_line(&mut line).expect("it is read");
        Self(process, line)
    }

    /// Tells it SIGTERM.
    pub(crate) fn ask_to_end(&self) {
        let id = Pid::from_raw(self.0.id().cast_signed()).expect("a process");
        kill_process(id, Signal::TERM).expect("told");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.0.kill().expect("it is killed");
        self.0.wait().expect("it ends");
    }
}

pub(crate) struct Scene {
    pub(crate) directory: TempDir,
    /// Where the store and the control plane are, and nothing else.
    pub(crate) host: Ipv4Addr,
    store: Option<S3Server>,
    /// What every process is told of a store, by the environment.
    pub(crate) settings: Vec<(&'static str, String)>,
    /// What workers are told of it instead, if that is something else.
    pub(crate) settings_of_workers: Option<Vec<(&'static str, String)>>,
    pub(crate) location: String,
    /// Where the control plane is.
    pub(crate) url: String,
    /// What control planes are told beside that.
    pub(crate) of_planes: Vec<String>,
    /// What their clients are told beside that.
    pub(crate) of_clients: Vec<String>,
    /// What workers are told beside all that.
    pub(crate) of_workers: Vec<String>,
    /// What databases are told beside all that.
    pub(crate) of_databases: Vec<String>,
    /// Programs of other builds, by the commands that they are called for.
    pub(crate) of_other_builds: BTreeMap<&'static str, String>,
}

impl Scene {
    pub(crate) fn new(in_store: bool) -> Self {
        Self::with_store(in_store.then(ServerOptions::default))
    }

    /// On a store with these options, or on a directory.
    pub(crate) fn with_store(options: Option<ServerOptions>) -> Self {
        let directory = TempDir::new().expect("a directory");
        let shared = directory.path().join("shared");
        let Some(options) = options else {
            let location = text(&shared).to_owned();
            return Self::over(directory, Vec::new(), location);
        };
        S3Server::make_bucket(&shared, BUCKET).expect("a bucket");
        let mut scene = Self::over(directory, Vec::new(), format!("s3://{BUCKET}/db"));
        let options = ServerOptions { address: scene.host.into(), ..options };
        let store = S3Server::start(&shared, options).expect("it listens");
        scene.settings = store.settings().into();
        scene.store = Some(store);
        scene
    }

    pub(crate) fn store(&self) -> &S3Server {
        self.store.as_ref().expect("it runs")
    }

    /// Ends the store; the port where it was, for [`start_store`](Self::start_store).
    pub(crate) fn stop_store(&mut self) -> u16 {
        self.store.take().expect("it runs").port()
    }

    /// Starts the store again, with what it had.
    pub(crate) fn start_store(&mut self, port: u16) {
        let (address, port) = (self.host.into(), Some(port));
        let options = ServerOptions { address, port, ..ServerOptions::default() };
        let store = S3Server::start(&self.directory.path().join("shared"), options);
        self.store = Some(store.expect("it listens"));
    }

    /// Everything in `directory` but what is shared, which lies at `location`.
    pub(crate) fn over(directory: TempDir, settings: Vec<(&'static str, String)>, location: String) -> Self {
        std::fs::write(directory.path().join("settings.toml"), SETTINGS).expect("written");
        write_secret(directory.path().join("token"), "a-secret\nmore\n");
        Self {
            directory,
            host: own_host(),
            store: None,
            settings,
            settings_of_workers: None,
            location,
            url: String::new(),
            of_planes: Vec::new(),
            of_clients: Vec::new(),
            of_workers: Vec::new(),
            of_databases: Vec::new(),
            of_other_builds: BTreeMap::new(),
        }
    }

    pub(crate) fn command(&self, name: &str) -> Command {
        let mut command = Command::new(self.of_other_builds.get(name).map_or(PROGRAM, String::as_str));
        let of_workers = self.settings_of_workers.as_ref().filter(|_| name == "worker");
        command
            .arg(name)
            .envs(of_workers.unwrap_or(&self.settings).iter().map(|(name, value)| (*name, value)));
        command
    }

    pub(crate) fn path(&self, name: &str) -> String {
        text(&self.directory.path().join(name)).to_owned()
    }

    /// A control plane, where one was before if there was one.
    pub(crate) fn plane(&mut self) -> Process {
        let port = self.url.rsplit_once(':').map_or("0", |(_, port)| port).to_owned();
        let mut command = self.command("control-plane");
        command.args([
            "--bind",
            &self.host.to_string(),
            "--port",
            &port,
            "--token-file",
            &self.path("token"),
        ]);
        command.args(&self.of_planes);
        let process = Process::start(&mut command);
        let line = &process.1;
        let url = line.split_whitespace().find_map(|word| word.strip_suffix(';')).unwrap_or_default();
        self.url = url.to_owned();
        let scheme = if self.of_planes.iter().any(|word| word == "--tls-cert") { "https" } else { "http" };
        assert!(self.url.starts_with(&format!("{scheme}://{}:", self.host)), "{line:?}");
        process
    }

    pub(crate) fn worker(&self, name: &str) -> Process {
        let mut command = self.command("worker");
        command.args([
            "--control-plane",
            &self.url,
            "--control-plane-token-file",
            &self.path("token"),
            "--within",
            &self.location,
        ]);
        command.args(&self.of_clients);
        command.args(&self.of_workers);
        let process = Process::start(command.args(["--threads", "2", "--name", name]));
        let line = &process.1;
        assert!(line.starts_with(&format!("{name} works for {}", self.url)), "{line:?}");
        process
    }

    pub(crate) fn serve(&self) -> Serving {
        self.serve_as(&mut self.serve_command()).expect("it serves")
    }

    /// `firn serve` of the database, in some way; `None` if it ends at once.
    pub(crate) fn serve_as(&self, command: &mut Command) -> Option<Serving> {
        Serving::start_as(command, &self.directory.path().join("data"))
    }

    /// What [`serve`](Self::serve) calls.
    pub(crate) fn serve_command(&self) -> Command {
        let mut command = self.command("serve");
        command.args(["--shared", &self.location, "--config", &self.path("settings.toml")]);
        command.args(["--control-plane", &self.url, "--control-plane-token-file", &self.path("token")]);
        command.args(&self.of_clients);
        command.args(&self.of_databases);
        command
    }

    /// `firn jobs` of the control plane.
    pub(crate) fn jobs(&self, arguments: &[&str]) -> Answer {
        let token = self.path("token");
        let mut all = vec!["jobs", "--control-plane", &self.url, "--control-plane-token-file", &token];
        all.extend(self.of_clients.iter().map(String::as_str));
        all.extend(arguments);
        firn(&all)
    }

    /// What the control plane knows, of one kind: `jobs` or `workers`.
    pub(crate) fn listed(&self, kind: &str) -> Vec<Value> {
        let out = self.jobs(&["list", "--json"]).ended(0);
        let listed: Value = serde_json::from_str(&out).expect("JSON");
        listed[kind].as_array().expect("a list").clone()
    }

    /// Jobs that were done lately, each with its worker.
    fn done(&self) -> BTreeMap<String, String> {
        let done = self.listed("jobs").into_iter().filter(|row| row["state"] == "done");
        done.map(|row| (word(&row["job"]), word(&row["worker"]))).collect()
    }

    /// Workers that have done jobs.
    pub(crate) fn doers(&self) -> BTreeSet<String> {
        self.done().into_values().collect()
    }

    /// Jobs that a worker has or had, each with what has become of it.
    pub(crate) fn jobs_of(&self, worker: &str) -> BTreeMap<String, String> {
        let rows = self.listed("jobs").into_iter().filter(|row| row["worker"] == worker);
        rows.map(|row| (word(&row["job"]), word(&row["state"]))).collect()
    }

    /// Whether a worker has a job.
    pub(crate) fn is_job_running(&self) -> bool {
        self.listed("jobs").iter().any(|row| row["state"] == "running")
    }
}

/// The text that `value` is.
pub(crate) fn word(value: &Value) -> String {
    value.as_str().expect("text").to_owned()
}

/// Workers that have done something.
#[derive(Default)]
struct Doers {
    all: BTreeSet<String>,
    /// Jobs that were done before the store was started again the last time; they do not count.
    before: BTreeSet<String>,
}

impl Doers {
    fn look(&mut self, scene: &Scene) {
        let done = scene.done().into_iter().filter(|(job, _)| !self.before.contains(job));
        self.all.extend(done.map(|(_, worker)| worker));
    }

    /// From now on only what is done from now on counts.
    fn begin_again(&mut self, scene: &Scene) {
        self.before.extend(scene.done().into_keys());
        self.all.clear();
    }

    fn are_both(&self) -> bool {
        self.all.is_superset(&["one".to_owned(), "two".to_owned()].into())
    }
}

/// The store goes amid a job, for a moment, and comes back as `faults` say; `doers` are the workers
/// that do jobs from then on.
fn restart_store(scene: &mut Scene, faults: &Faults, doers: &mut Doers) {
    let port = scene.stop_store();
    std::thread::sleep(STORE_AWAY);
    doers.begin_again(scene);
    scene.start_store(port);
    scene.store().set_faults(faults.clone());
}

/// For so long a store that is started again answers no request.
const STORE_AWAY: Duration = Duration::from_millis(500);

/// Writes until both workers have done something, while they, the control plane and the database
/// are killed. A store, which there is with `faults`, is started again in two of the rounds. After
/// the last of them both have to have done something.
fn storm(scene: &mut Scene, faults: Option<&Faults>) {
    let mut plane = scene.plane();
    let mut workers = [Some(scene.worker("one")), Some(scene.worker("two"))];
    let mut model = Model::new();
    let mut doers = Doers::default();
    let (mut restarts, restarts_wanted) = (0, if faults.is_some() { 2 } else { 0 });
    let mut round = 0;
    while round < 4 || restarts < restarts_wanted || !doers.are_both() {
        let mut serving = scene.serve();
        let mut client = rounds::connect(&serving.address);
        rounds::check(&mut client, &model, &format!("round {round}"));
        for batch in 0..100 {
            rounds::write(&mut client, &mut model, (round, batch), 2000);
            match (round, batch) {
                (1, 30) => workers[0] = None,
                (1, 60) => workers[0] = Some(scene.worker("one")),
                (2, 30) => {
                    doers.look(scene);
                    drop(plane);
                    plane = scene.plane();
                }
                (3, 50) => workers[1] = None,
                (3, 70) => workers[1] = Some(scene.worker("two")),
                // Both workers are there then.
                (_, 40..) if round % 2 == 0 && restarts < restarts_wanted.min(round / 2 + 1) => {
                    if let Some(faults) = faults
                        && scene.is_job_running()
                    {
                        restart_store(scene, faults, &mut doers);
                        restarts += 1;
                    }
                }
                _ => {}
            }
        }
        doers.look(scene);
        if round % 2 == 0 {
            serving.process.kill().expect("it is killed");
            serving.process.wait().expect("it ends");
        } else {
            serving.end();
        }
        round += 1;
        assert!(
            round < 30,
            "only {:?} have done anything since the store was started again {restarts} times",
            doers.all
        );
    }
    drop(workers);
    drop(plane);
}

#[test]
fn a_database_on_a_directory_keeps_everything_whoever_of_its_helpers_is_killed() {
    storm(&mut Scene::new(false), None);
}

#[test]
fn a_database_on_a_failing_store_keeps_everything_whoever_of_its_helpers_is_killed() {
    let mut scene = Scene::new(true);
    let faults = Faults { refused_per_mille: 25, lost_per_mille: 25, ..Faults::default() };
    scene.store().set_faults(faults.clone());
    storm(&mut scene, Some(&faults));
}

#[test]
fn a_worker_that_is_asked_to_end_does_and_what_is_said_wrongly_is_explained() {
    let mut scene = Scene::new(false);
    let nobody = firn(&["jobs", "--control-plane", "http://127.0.0.1:9"]);
    nobody.complained(1, &["no control plane answers at http://127.0.0.1:9", "firn control-plane"]);
    let _plane = scene.plane();
    let within = scene.directory.path().display().to_string();
    let ask = |arguments: &[&str]| firn(&[&["jobs", "--control-plane", &scene.url], arguments].concat());
    ask(&[]).complained(1, &["wants a token", "--control-plane-token-file"]);
    let token = scene.path("token");
    let key = "00000000000000000000000000000001.7";
    ask(&["--control-plane-token-file", &token, "cancel", key]).complained(4, &["is not there"]);
    ask(&["--control-plane-token-file", &token, "cancel", "seven"]).complained(2, &["expected a job"]);
    ask(&["--control-plane-token-file", "/nowhere"]).complained(2, &["cannot read /nowhere"]);
    firn(&["control-plane", "--bind", "0.0.0.0", "--port", "0"]).complained(2, &["give a token"]);
    let taken = scene.url.trim_start_matches("http://");
    let (host, port) = taken.split_once(':').expect("a port");
    firn(&["control-plane", "--bind", host, "--port", port]).complained(1, &["cannot listen on", "in use"]);
    let worker = firn(&["worker"]);
    assert!(worker.code == 2 && worker.complaint.contains("--control-plane"), "{worker:?}");
    let nowhere = firn(&["worker", "--control-plane", &scene.url]);
    assert!(nowhere.code == 2 && nowhere.complaint.contains("--within"), "{nowhere:?}");
    let wrong = firn(&["worker", "--control-plane", "127.0.0.1:1", "--within", &within]);
    wrong.complained(2, &["expected http://HOST:PORT"]);
    let both = firn(&["serve", "--dir", &scene.path("db"), "--worker", "x", "--control-plane", &scene.url]);
    both.complained(2, &["say one of --worker and --control-plane"]);
    let mut worker = scene.worker("one");
    std::thread::sleep(Duration::from_millis(200));
    worker.ask_to_end();
    assert!(worker.0.wait().expect("it ends").success());
}

/// Attempts that were given to workers.
const LEASES: &str = "firn_control_plane_leases_total";

/// A worker that may read twice in a second has ended two small jobs after so long.
const DRAIN_MAX: Duration = Duration::from_secs(60);

/// For so long a store holds each answer back while a worker is asked to end.
const STORE_SLOW: Duration = Duration::from_secs(3);

#[test]
fn a_worker_that_is_asked_to_end_amid_jobs_ends_them_first_and_takes_no_more() {
    let mut scene = Scene::new(true);
    let http = ["--http-port", "0"].map(str::to_owned);
    (scene.of_planes, scene.of_workers) = (http.to_vec(), http.to_vec());
    // Each job takes seconds.
    scene.of_workers.extend(["--store-rates", "reads=2"].map(str::to_owned));
    // What waits for a worker waits on, though processors of the database idle.
    std::fs::write(scene.path("settings.toml"), format!("idle_threads = 0\n{SETTINGS}")).expect("written");
    let plane = scene.plane();
    let mut worker = scene.worker("one");
    let serving = scene.serve();
    let (mut client, mut model) = (rounds::connect(&serving.address), Model::new());
    let mut batches = 0..;
    let mut write = |client: &mut redis::Connection, model: &mut Model, count| {
        for batch in batches.by_ref().take(count) {
            rounds::write(client, model, (0, batch), 2000);
        }
    };
    let begun = Instant::now();
    while sum(&samples(&plane), "firn_control_plane_jobs", &["running"]) < 1.0 {
        assert!(begun.elapsed() < DRAIN_MAX, "no job is ever begun");
        write(&mut client, &mut model, 2);
    }
    // It does not end before the control plane is told, on a busy machine either.
    scene.store().set_faults(Faults { delay: STORE_SLOW, ..Faults::default() });
    worker.ask_to_end();
    let asked = Instant::now();
    while sum(&samples(&plane), "firn_control_plane_workers", &["draining"]) < 1.0 {
        assert_eq!(worker.0.try_wait().expect("it is looked at"), None, "it ends amid its jobs");
        assert!(asked.elapsed() < DRAIN_MAX, "the control plane is not told");
        std::thread::sleep(Duration::from_millis(10));
    }
    let (given, leases) = (scene.jobs_of("one"), sum(&samples(&plane), LEASES, &[]));
    assert!(given.values().any(|state| state == "running"), "it ends amid none of {given:?}");
    scene.store().set_faults(Faults::default());
    // It has jobs, and others wait that it does not take.
    let mut waited: f64 = 0.0;
    let ended = loop {
        let (ended, control) = (worker.0.try_wait().expect("it is looked at"), samples(&plane));
        assert_eq!(sum(&control, LEASES, &[]), leases, "it was given others");
        if let Some(ended) = ended {
            break ended;
        }
        assert!(asked.elapsed() < DRAIN_MAX, "it does not end");
        waited = waited.max(sum(&control, "firn_control_plane_jobs", &["waiting"]));
        write(&mut client, &mut model, 5);
        std::thread::sleep(Duration::from_millis(20));
    };
    println!("it ended after {:?} with {given:?}, while {waited} waited", asked.elapsed());
    assert!(ended.success(), "{ended}");
    let done = given.keys().map(|job| (job.clone(), "done".to_owned())).collect();
    assert_eq!(scene.jobs_of("one"), done, "of {given:?}");
    let control = samples(&plane);
    assert!(waited > 0.0, "nothing else was to be done");
    for none in ["expired_leases_total", "failed_attempts_total", "preempted_leases_total"] {
        assert_eq!(sum(&control, &format!("firn_control_plane_{none}"), &[]), 0.0, "{none}");
    }
    rounds::check(&mut client, &model, "without a worker");
    serving.end();
}
