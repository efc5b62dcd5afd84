//! Tables and blob segments of several parts each, as real ones are: workers are killed as they
//! upload, and a store loses what it answers.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use firn_format::file_name::{self, FileName};
use firn_s3_server::{Faults, S3Server};

use crate::bad_store::{GOOD, done_elsewhere, status};
use crate::job_service::{Process, Scene};
use crate::rounds;

/// Files of a part and a half: parts have 8 MiB.
pub(crate) const SETTINGS: &str = "space_amplification_max = 1.3\nidle_threads = 0\n[tree]\n\
    memtable_bytes = 16777216\ntable_bytes = 12582912\nlog_segment_bytes = 8388608\n\
    buffer_bytes = 25165824\nbuffer_bytes_max = 67108864\nseparate_bytes = 32768\nblob_segment_bytes = 12582912\n\
    level0_runs_max = 4\n";

/// One request in twenty fails, half of them once they were done, and of each four uploads that end
/// one has no answer.
const BAD: Faults = Faults { refused_per_mille: 25, lost_per_mille: 25, lost_ends_per_mille: 250, ..GOOD };

/// How long anything is waited for.
const PATIENCE: Duration = Duration::from_secs(120);

const KEYS: u32 = 7200;

/// Nothing makes it shorter. One in three is separated.
fn value(key: u32, round: u32) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(u64::from(key) << 32 | u64::from(round));
    let sizes = if key.is_multiple_of(3) { 40_000..60_000 } else { 20_000..30_000 };
    let mut bytes = vec![0; random.usize(sizes)];
    random.fill(&mut bytes);
    bytes
}

/// What each key was written with last.
pub(crate) struct Written {
    rounds: BTreeMap<u32, u32>,
    random: fastrand::Rng,
    round: u32,
}

impl Written {
    /// Nothing yet.
    pub(crate) fn new(seed: u64) -> Self {
        Self { rounds: BTreeMap::new(), random: fastrand::Rng::with_seed(seed), round: 0 }
    }

    /// Writes some keys.
    pub(crate) fn write(&mut self, client: &mut redis::Connection) {
        self.round += 1;
        let mut pipe = redis::pipe();
        let keys: BTreeSet<u32> = (0..40).map(|_| self.random.u32(0..KEYS)).collect();
        for key in &keys {
            pipe.cmd("SET").arg(key).arg(value(*key, self.round)).ignore();
        }
        pipe.query::<()>(client).expect("replies");
        self.rounds.extend(keys.into_iter().map(|key| (key, self.round)));
    }

    pub(crate) fn check(&self, client: &mut redis::Connection, what: &str) {
        let all: Vec<(&u32, &u32)> = self.rounds.iter().collect();
        for some in all.chunks(100) {
            let keys: Vec<u32> = some.iter().map(|(key, _)| **key).collect();
            let found: Vec<Option<Vec<u8>>> = redis::cmd("MGET").arg(keys).query(client).expect("a reply");
            for ((key, round), found) in some.iter().zip(found) {
                assert!(found == Some(value(**key, **round)), "{what}: key {key} of round {round}");
            }
        }
    }
}

/// Whether the object `key` is what an attempt at a job makes, whose names end in the attempt's
/// sixteen digits.
pub(crate) fn is_of_attempt(key: &str) -> bool {
    let name = key.rsplit('/').next().unwrap_or_default();
    let stem = match file_name::parse(name) {
        Some(FileName::Table { stem, .. } | FileName::CollectedBlobs { stem, .. }) => stem,
        _ => return false,
    };
    stem.rsplit('-').next().is_some_and(|attempt| attempt.len() == 16)
}

/// Kills `worker` once parts of an output of its have come; the uploads that it had then.
fn kill_amid_parts(store: &S3Server, worker: Process) -> BTreeSet<String> {
    let began = Instant::now();
    loop {
        let mut uploads = store.unfinished_uploads();
        uploads.retain(|upload| is_of_attempt(&upload.key) && upload.parts > 0);
        if !uploads.is_empty() {
            drop(worker);
            return uploads.into_iter().map(|upload| upload.id).collect();
        }
        assert!(began.elapsed() < PATIENCE, "no worker uploads parts: {:?}", store.counts());
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Whether there has been an object of many parts whose name ends so.
fn is_made_of_parts(scene: &Scene, ending: &str) -> bool {
    scene.store().completed_uploads().iter().any(|key| key.ends_with(ending))
}

#[test]
#[ignore = "minutes; the full tier runs it"]
fn files_of_many_parts_are_whole_whoever_is_killed_as_he_uploads_them() {
    let seed = std::env::var("FIRN_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    println!("FIRN_SEED={seed}");
    let mut written = Written::new(seed);
    let mut scene = Scene::new(true);
    std::fs::write(scene.path("settings.toml"), SETTINGS).expect("written");
    scene.of_databases = vec!["--memory-bytes".to_owned(), "128M".to_owned()];
    scene.store().set_faults(BAD);
    let _plane = scene.plane();
    let serving = scene.serve();
    let mut client = rounds::connect(&serving.address);
    let (first, store) = (scene.worker("first"), scene.store());
    let killed = std::thread::scope(|scope| {
        let killing = scope.spawn(move || kill_amid_parts(store, first));
        while !killing.is_finished() {
            written.write(&mut client);
        }
        killing.join().expect("it is killed")
    });
    let last = scene.worker("last");
    let (began, enough) = (Instant::now(), done_elsewhere(&mut client) + 2);
    while done_elsewhere(&mut client) < enough
        || scene.store().counts().lost_ends == 0
        || ![".table", ".blobs"].iter().all(|ending| is_made_of_parts(&scene, ending))
    {
        let reason = status(&mut client, "jobs_passed_on_reason");
        assert!(began.elapsed() < PATIENCE, "{reason}: {:?}", scene.store().counts());
        (0..2).for_each(|_| written.write(&mut client));
    }
    assert!(scene.doers().contains("last"), "only {:?} have done anything", scene.doers());
    written.check(&mut client, "as it goes on");
    scene.store().set_faults(Faults::default());
    let by_gc = aborted(&mut client);
    serving.end();
    drop(last);
    let before = scene.store().unfinished_uploads();
    // The next opening removes what attempts left, unless orphan GC has.
    let again = scene.serve();
    let mut client = rounds::connect(&again.address);
    let aborted = aborted(&mut client);
    written.check(&mut client, "after another opening");
    again.end();
    let mut verify = scene.command("verify");
    let out =
        verify.args(["--shared", &scene.location, "--dir", &scene.path("data")]).output().expect("it runs");
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(out.status.success() && said.contains("sound: "), "{out:?}");
    assert!(!said.contains("no manifest edit names it"), "{said}");
    let counts = scene.store().counts();
    let mut left = scene.store().unfinished_uploads();
    left.retain(|upload| before.iter().any(|known| known.id == upload.id));
    println!("{counts:?}, before {before:#?}, left {left:#?}, {by_gc} aborted before and {aborted} after");
    assert!(counts.parts >= 2 * counts.completed_uploads, "{counts:?}");
    // If there was none, no process was killed as it uploaded.
    assert!(by_gc > 0 || before.iter().any(|upload| killed.contains(&upload.id)), "{killed:?} of {before:?}");
    // A request of the worker that was killed may still have ended one between the two looks.
    let gone = (before.len() - left.len()) as u64;
    assert!(aborted > 0 && aborted <= gone || gone == 0, "{aborted} of {gone}");
    // What is left of those was begun twice, and has no part; it stays as long as the file does.
    let shared = PathBuf::from(scene.path("shared"));
    for upload in left {
        assert!(upload.parts == 0 && shared.join(&upload.key).is_file(), "{upload:?}");
    }
}

/// How many uploads the database has aborted.
fn aborted(client: &mut redis::Connection) -> u64 {
    status(client, "upload_abort_count").parse().expect("a number")
}
