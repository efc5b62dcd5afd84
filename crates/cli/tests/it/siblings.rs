//! Databases of several tenants beside one another in a bucket, all written to at once, whose jobs
//! the same workers do. None gets anything of another.
//!
//! Each has other values under the same keys, and their files have the same names but for what
//! attempts put behind.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use firn_format::file_name::{FileName, parse};

use crate::job_service::{BUCKET, Scene, word};
use crate::rounds::{self, Model, SETTINGS};
use crate::serve::Serving;
use crate::service_soak::answers::Jobs;

/// Databases, which are tenants of that name too; the location of each begins as that of the one
/// before.
const NAMES: [&str; 3] = ["db", "db-2", "db-22"];
const WORKERS: [&str; 2] = ["one", "two"];
const KEYS: u32 = 2000;
/// Jobs that workers are to do for each.
const JOBS: u64 = 5;
/// How long that may take, on a machine that does much else.
const PATIENCE: Duration = Duration::from_secs(240);
/// Where all of them lie.
const ABOVE: &str = "tenants";

/// A database and what it is to have.
struct Sibling {
    /// Of [`NAMES`].
    at: usize,
    serving: Serving,
    model: Model,
    /// The batch that is written next.
    batch: u32,
    /// Workers that have done a job of it.
    doers: BTreeSet<String>,
    /// Stems that its files were seen under, without what attempts put behind.
    stems: BTreeSet<String>,
}

fn directory(scene: &Scene, at: usize) -> PathBuf {
    scene.directory.path().join(NAMES[at])
}

/// Where the store has the location of database `at`.
fn files(scene: &Scene, at: usize) -> PathBuf {
    scene.directory.path().join("shared").join(BUCKET).join(ABOVE).join(NAMES[at])
}

/// `<generation>-<number>` of each output in `directory`.
fn stems(directory: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(directory).expect("listed").flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let stems = names.filter_map(|name| match parse(&name) {
        Some(FileName::Table { stem, .. } | FileName::CollectedBlobs { stem, .. }) => Some(stem),
        _ => None,
    });
    stems.map(|stem| stem.split('-').take(2).collect::<Vec<_>>().join("-")).collect()
}

impl Sibling {
    /// Database `at`, which is to have what `model` has.
    fn serve(scene: &mut Scene, at: usize, model: Model) -> Self {
        scene.location = format!("s3://{BUCKET}/{ABOVE}/{}", NAMES[at]);
        scene.of_databases = ["--tenant", NAMES[at]].map(str::to_owned).into();
        let serving = Serving::start_as(&mut scene.serve_command(), &directory(scene, at));
        let serving = serving.expect("it serves");
        Self { at, serving, model, batch: 0, doers: BTreeSet::new(), stems: BTreeSet::new() }
    }

    /// Writes ten batches, with values that no other database has.
    fn write(&mut self) {
        let mut client = rounds::connect(&self.serving.address);
        for _ in 0..10 {
            let round = self.batch / 20 * NAMES.len() as u32 + self.at as u32;
            rounds::write(&mut client, &mut self.model, (round, self.batch), KEYS);
            self.batch += 1;
        }
    }

    /// What it tells of its jobs, none of which came to anything wrong.
    fn jobs(&self) -> Jobs {
        let mut client = rounds::connect(&self.serving.address);
        let info: String = redis::cmd("INFO").arg("firn").query(&mut client).expect("it tells");
        let jobs = Jobs::parse(&info);
        assert!(jobs.are_right(), "{}: {jobs:?}", NAMES[self.at]);
        jobs
    }

    fn is_done_by_all(&self) -> bool {
        self.jobs().elsewhere >= JOBS && self.doers.len() == WORKERS.len()
    }

    fn check(&self, what: &str) {
        let what = format!("{} {what}", NAMES[self.at]);
        let mut client = rounds::connect(&self.serving.address);
        rounds::check(&mut client, &self.model, &what);
        let count: usize = redis::cmd("DBSIZE").query(&mut client).expect("a reply");
        assert_eq!(count, self.model.len(), "{what}");
    }
}

/// The workers of the jobs that were done lately, by tenant.
fn doers(scene: &Scene) -> BTreeMap<String, BTreeSet<String>> {
    let mut doers = BTreeMap::<_, BTreeSet<_>>::new();
    for row in scene.listed("jobs").into_iter().filter(|row| row["state"] == "done") {
        doers.entry(word(&row["tenant"])).or_default().insert(word(&row["worker"]));
    }
    doers
}

/// Has all written to at once until each worker has done jobs of each, and some of their files are
/// called the same.
fn write_all(scene: &Scene, siblings: &mut [Sibling]) {
    let began = Instant::now();
    loop {
        std::thread::scope(|scope| {
            for sibling in siblings.iter_mut() {
                scope.spawn(|| sibling.write());
            }
        });
        let mut found = doers(scene);
        for sibling in siblings.iter_mut() {
            sibling.doers.extend(found.remove(NAMES[sibling.at]).unwrap_or_default());
            sibling.stems.extend(stems(&files(scene, sibling.at)));
        }
        assert!(found.is_empty(), "nobody else has jobs: {found:?}");
        let same = siblings.iter().map(|it| it.stems.clone()).reduce(|one, other| &one & &other);
        if siblings.iter().all(Sibling::is_done_by_all) && same.is_some_and(|same| !same.is_empty()) {
            return;
        }
        let shown = || siblings.iter().map(|it| (NAMES[it.at], it.jobs(), &it.doers)).collect::<Vec<_>>();
        assert!(began.elapsed() < PATIENCE, "{:#?}", shown());
    }
}

/// Expects that database `at`, which no process has open, is sound, and that its location has its
/// own files alone.
fn verify(scene: &Scene, at: usize) {
    let mut verify = scene.command("verify");
    let location = format!("s3://{BUCKET}/{ABOVE}/{}", NAMES[at]);
    let out =
        verify.args(["--shared", &location, "--dir"]).arg(directory(scene, at)).output().expect("it runs");
    let said = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success() && said.contains("sound: "), "{}: {out:?}", NAMES[at]);
    for finding in said.lines().filter_map(|line| line.split_once(": ")?.1.split([':', ' ']).next()) {
        let is_there = files(scene, at).join(finding).exists();
        assert!(!is_there || parse(finding) == Some(FileName::ManifestEdit(0)), "{}: {said}", NAMES[at]);
    }
}

#[test]
fn databases_beside_one_another_whose_jobs_the_same_workers_do_keep_what_is_theirs() {
    let mut scene = Scene::new(true);
    // What a database takes back to do it itself no worker has done; and of the others every second
    // one is compared.
    let settings = format!("idle_threads = 0\nreexecuted_share = 0.5\n{SETTINGS}");
    std::fs::write(scene.path("settings.toml"), settings).expect("written");
    scene.location = format!("s3://{BUCKET}/{ABOVE}");
    let plane = scene.plane();
    let workers = WORKERS.map(|name| scene.worker(name));
    let mut siblings: Vec<Sibling> =
        (0..NAMES.len()).map(|at| Sibling::serve(&mut scene, at, Model::new())).collect();
    write_all(&scene, &mut siblings);
    siblings.iter().for_each(|sibling| sibling.check("as it was written"));
    let models: Vec<Model> = siblings
        .into_iter()
        .map(|Sibling { serving, model, .. }| {
            serving.end();
            model
        })
        .collect();
    drop((workers, plane));
    // The next opening removes what attempts left that were given up as it ended.
    for (at, model) in models.into_iter().enumerate() {
        let sibling = Sibling::serve(&mut scene, at, model);
        sibling.check("after another opening");
        sibling.serving.end();
        verify(&scene, at);
    }
}
