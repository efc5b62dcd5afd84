//! Programs of two builds at once: this one, the new, and an older one at `FIRN_OLD_BUILD`, which
//! `cargo x skew` makes.
//!
//! ```text
//!   a database of one build, helped by a mix of both ─► the other build opens it ─► the first one again ─► the new one
//! ```
//!
//! A build that opens a database has all of it and writes more. Or it says that it is to be
//! upgraded, and leaves it as it is. [`upgraded`] exchanges one process after another of a fleet
//! that works on a store.

mod upgraded;

use std::fmt;
use std::fs::File;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::bad_store::{jobs_done, status};
use crate::job_service::Scene;
use crate::rounds;
use crate::serve::Serving;
use crate::service_soak::clients::Clients;
use crate::service_soak::content::Content;

/// Under these a few MiB make many jobs, of codecs and of separated values too. What workers
/// do is done again here and compared.
const SETTINGS: &str = "space_amplification_max = 1.3\ncompression = \"zstd\"\nreexecuted_share = 1.0\n[tree]\n\
    memtable_bytes = 1048576\ntable_bytes = 131072\nlog_segment_bytes = 4194304\n\
    buffer_bytes = 4194304\nbuffer_bytes_max = 16777216\nseparate_bytes = 1000\nblob_segment_bytes = 262144\n";

/// How many jobs are to be done in each mix, and how long that may take.
const JOBS: u64 = 20;
const PATIENCE: Duration = Duration::from_secs(50);

/// How long clients wait after each batch: while writers are about to stop nothing is done a second
/// time.
const PAUSE: Duration = Duration::from_millis(200);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Build {
    Old,
    New,
}

impl Build {
    const BOTH: [Self; 2] = [Self::Old, Self::New];
}

/// The two programs.
struct Builds {
    old: String,
    /// Of the old one and of this one.
    formats: [u32; 2],
    /// Whether the old one reads settings of the tree from a table of their own, as this one does.
    has_old_tables: bool,
}

impl Builds {
    fn given() -> Self {
        let old = std::env::var("FIRN_OLD_BUILD").expect(
            "FIRN_OLD_BUILD is not set: say where the program of another build is, or have `cargo x skew` make one",
        );
        let formats = [&old, env!("CARGO_BIN_EXE_firn")].map(format_version);
        println!("format version {} at {old}, {} here", formats[0], formats[1]);
        let printed = Command::new(&old).arg("config").output().expect("it ran just now").stdout;
        let has_old_tables = String::from_utf8_lossy(&printed).contains("\n[tree]\n");
        Self { old, formats, has_old_tables }
    }

    /// [`SETTINGS`] as `build` reads them.
    fn settings(&self, build: Build) -> String {
        match build == Build::Old && !self.has_old_tables {
            true => SETTINGS.replace("[tree]\n", ""),
            false => SETTINGS.to_owned(),
        }
    }

    fn format(&self, build: Build) -> u32 {
        match build {
            Build::Old => self.formats[0],
            Build::New => self.formats[1],
        }
    }
}

/// What `program` says of its format.
fn format_version(program: &str) -> u32 {
    let output = Command::new(program).arg("--version").output();
    let output = output.unwrap_or_else(|error| panic!("{program} does not run: {error}"));
    let said = String::from_utf8_lossy(&output.stdout);
    let version = said.lines().find_map(|line| line.strip_prefix("format version ")?.parse().ok());
    version.unwrap_or_else(|| panic!("{program} is no firn: {said:?}"))
}

/// Which process is of which build.
#[derive(Clone, Copy)]
struct Mix {
    database: Build,
    plane: Build,
    worker: Build,
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |build| if build == Build::Old { "old" } else { "new" };
        let (database, plane, worker) = (name(self.database), name(self.plane), name(self.worker));
        write!(f, "{database} database, {plane} control plane, {worker} worker")
    }
}

impl Mix {
    /// All that have processes of both builds.
    fn all() -> Vec<Self> {
        let mixes = Build::BOTH.into_iter().flat_map(|database| {
            let with = move |plane| Build::BOTH.map(|worker| Self { database, plane, worker });
            Build::BOTH.into_iter().flat_map(with)
        });
        mixes.filter(|mix| mix.plane != mix.database || mix.worker != mix.database).collect()
    }
}

/// A database, its clients, and which builds may have it.
struct Database<'b> {
    builds: &'b Builds,
    scene: Scene,
    /// Whether it has jobs done by others, and a shared part.
    is_served: bool,
    clients: Clients,
    random: fastrand::Rng,
    /// The newest build that has written to it, by its format.
    format: u32,
}

impl<'b> Database<'b> {
    fn new(builds: &'b Builds, is_served: bool) -> Self {
        Self::of(builds, Scene::new(false), is_served)
    }

    fn of(builds: &'b Builds, scene: Scene, is_served: bool) -> Self {
        let mut clients = Clients::new(1);
        clients.pause = PAUSE;
        let random = fastrand::Rng::with_seed(1);
        Self { builds, scene, is_served, clients, random, format: 0 }
    }

    /// From now on these commands are called of the program of `build`.
    fn give(&mut self, commands: &[&'static str], build: Build) {
        for command in commands {
            match build {
                Build::Old => self.scene.of_other_builds.insert(command, self.builds.old.clone()),
                Build::New => self.scene.of_other_builds.remove(command),
            };
        }
    }

    /// Opened by `build`; what it complains of, if it does not open it.
    fn open(&mut self, build: Build) -> Result<Serving, String> {
        self.give(&["serve", "verify"], build);
        std::fs::write(self.scene.path("settings.toml"), self.builds.settings(build)).expect("written");
        let complaint = self.scene.path("complaint");
        let mut command = match self.is_served {
            true => self.scene.serve_command(),
            false => self.scene.command("serve"),
        };
        if !self.is_served {
            command.args(["--config", &self.scene.path("settings.toml")]);
        }
        command.stderr(File::create(&complaint).expect("made"));
        let serving = self.scene.serve_as(&mut command);
        serving.ok_or_else(|| std::fs::read_to_string(&complaint).expect("written"))
    }

    /// Opened by `build`, which has all of it, or must not have it.
    ///
    /// What builds of a newer format have written is for them alone.
    fn open_with_all(&mut self, build: Build) -> Option<Serving> {
        let is_readable = self.builds.format(build) >= self.format;
        match self.open(build) {
            Ok(serving) => {
                assert!(is_readable, "{build:?} opened what is of format version {}", self.format);
                self.format = self.builds.format(build);
                self.check(&serving);
                Some(serving)
            }
            Err(complaint) => {
                assert!(!is_readable, "{build:?} did not open it: {complaint}");
                assert!(
                    complaint.contains("written by a newer Firn: upgrade to read it"),
                    "{build:?} refused it and does not say why: {complaint}"
                );
                None
            }
        }
    }

    fn write(&mut self, serving: &Serving) {
        let address = &serving.address;
        self.clients.write(address.clone(), &mut self.random, |_, _| address.clone());
    }

    /// Nothing is lost, and nothing is there twice or again.
    fn check(&mut self, serving: &Serving) {
        self.clients.check(serving.address.clone());
        self.clients.check_nothing_else(serving.address.clone());
    }

    /// Writes until `JOBS` are done: by the worker, and some of them here again, with the same
    /// outcome. With `advice` all are done here, and the build to be upgraded is named. Says what
    /// was done where.
    fn write_until_jobs_are_done(&mut self, serving: &Serving, advice: Option<&str>) -> String {
        let began = Instant::now();
        let mut client = rounds::connect(&serving.address);
        loop {
            self.write(serving);
            let info: String = redis::cmd("INFO").arg("firn").query(&mut client).expect("it tells");
            let (elsewhere, here) = jobs_done(&info);
            let reason = status(&mut client, "jobs_passed_on_reason");
            let again = status(&mut client, "jobs_reexecuted_count");
            assert_eq!(status(&mut client, "jobs_differed_count"), "0", "{reason}");
            match advice {
                None if elsewhere >= JOBS && again != "0" => {
                    assert!(!self.scene.doers().is_empty(), "the control plane knows who did them");
                    return format!("{elsewhere} jobs by the worker, {again} of them here too, {here} here");
                }
                Some(advice) if here >= JOBS && reason.ends_with(advice) => {
                    assert_eq!(elsewhere, 0, "jobs were done by who is too old or too new");
                    assert!(reason.contains("workers reads specs of version"), "{reason}");
                    return format!("{here} jobs here{advice}");
                }
                _ => assert!(
                    began.elapsed() < PATIENCE,
                    "{elsewhere} jobs there, {again} of them here too, {here} here: {reason}"
                ),
            }
        }
    }

    /// Ends it; its own build finds it sound.
    fn end(&self, serving: Serving) {
        serving.end();
        let mut verify = self.scene.command("verify");
        if self.is_served {
            verify.args(["--shared", &self.scene.location]);
        }
        let out = verify.arg("--dir").arg(self.scene.path("data")).output().expect("it runs");
        let said = String::from_utf8_lossy(&out.stdout);
        assert!(out.status.success() && said.contains("sound: "), "{out:?}");
    }

    /// The other build opens it, then `build` again, and at last this one; each that has it writes
    /// more. The builds that did.
    fn goes_around(&mut self, build: Build) -> Vec<Build> {
        let mut content = None;
        let mut had = Vec::new();
        let order = match build {
            Build::Old => &[Build::New, Build::Old, Build::New][..],
            Build::New => &[Build::Old, Build::New],
        };
        for &next in order {
            let Some(serving) = self.open_with_all(next) else { continue };
            let found = Content::read(&serving.address);
            assert!(content.is_none_or(|content| content == found), "{next:?}: {content:?} became {found}");
            had.push(next);
            self.write(&serving);
            self.check(&serving);
            content = Some(Content::read(&serving.address));
            self.end(serving);
        }
        assert_eq!(had.last(), Some(&Build::New));
        had
    }
}

/// What to upgrade where the worker must not do the database's jobs: specs change with the format.
fn advice(builds: &Builds, mix: Mix) -> Option<&'static str> {
    match builds.format(mix.database).cmp(&builds.format(mix.worker)) {
        std::cmp::Ordering::Less => Some("; upgrade the database"),
        std::cmp::Ordering::Equal => None,
        std::cmp::Ordering::Greater => Some("; upgrade them"),
    }
}

#[test]
#[ignore = "wants the program of another build: cargo x skew makes one"]
fn every_mix_of_two_builds_loses_nothing_and_does_its_jobs_or_says_whom_to_upgrade() {
    let builds = Builds::given();
    let mixes = Mix::all();
    assert_eq!(mixes.len(), 6);
    for mix in mixes {
        let began = Instant::now();
        let mut database = Database::new(&builds, true);
        database.give(&["control-plane"], mix.plane);
        database.give(&["worker"], mix.worker);
        let _plane = database.scene.plane();
        let worker = database.scene.worker("worker");
        let serving = database.open_with_all(mix.database).expect("it is new");
        let done = database.write_until_jobs_are_done(&serving, advice(&builds, mix));
        database.check(&serving);
        database.end(serving);
        let had = database.goes_around(mix.database);
        drop(worker);
        println!("{mix}: {done}; then opened by {had:?}; {:.1} s", began.elapsed().as_secs_f64());
    }
}

#[test]
#[ignore = "wants the program of another build: cargo x skew makes one"]
fn what_either_build_leaves_as_it_is_killed_is_the_others_or_it_says_that_it_is_too_old() {
    let builds = Builds::given();
    for build in Build::BOTH {
        let began = Instant::now();
        let mut database = Database::new(&builds, false);
        let mut serving = database.open_with_all(build).expect("it is new");
        database.write(&serving);
        database.check(&serving);
        serving.process.kill().expect("it is killed");
        serving.process.wait().expect("it ends");
        drop(serving);
        let had = database.goes_around(build);
        println!("killed was {build:?}, then opened by {had:?}; {:.1} s", began.elapsed().as_secs_f64());
    }
}
