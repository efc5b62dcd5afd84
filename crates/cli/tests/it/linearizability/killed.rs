//! A server that is killed again and again, with too little memory for its data, whose files leave
//! the system's memory all the time. Objects are read from tables, and reads wait for files.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fastrand::Rng;
use firn_protocol::resp::Value;
use rustix::fs::{Advice, fadvise};

use super::Ends;
use super::clients::{CLIENTS, Histories, KINDS, KINDS_OF_STRINGS, Link, Over, Round, words};
use crate::serve::Serving;
use crate::wire::Connection;

/// An engine, its kinds of objects, and settings with the least memory that there can be.
#[derive(Clone, Copy)]
pub(super) struct Kind {
    engine: &'static str,
    kinds: u8,
    settings: &'static str,
}

/// No table is expected to stay in the system's memory, and what is written is soon flushed.
pub(super) const TREE: Kind = Kind {
    engine: "tree",
    kinds: KINDS,
    settings: "memory_bytes = \"16 MiB\"\npage_cache_bytes = 1\n[tree]\nbuffer_bytes = \"1 MiB\"\n",
};

/// Checkpoints follow one another.
pub(super) const HASHLOG: Kind = Kind {
    engine: "hashlog",
    kinds: KINDS_OF_STRINGS,
    settings: "memory_bytes = \"16 MiB\"\n[hash]\nredo_bytes_max = \"1 MiB\"\n",
};

/// How often files leave the system's memory.
const EVICTION_INTERVAL: Duration = Duration::from_millis(5);
/// What is written beside the objects pushes them into tables. Its keys are new each time: no read
/// waits for their sake.
const FILLER_BYTES: usize = 2_000;
const FILLERS_AT_ONCE: usize = 64;
/// One in so many operations comes after fillers.
const FILLERS_EVERY: u8 = 8;
/// After so many no object is in the log alone.
const LAST_FILLS: usize = 8 * (1 << 20) / (FILLERS_AT_ONCE * FILLER_BYTES);
/// Reads that waited for a file, at least, on average in each life of the server. With fewer the
/// objects would not be cold, and the test would test nothing.
const MISSES_MIN: u64 = 8;
const NEED: &str = "the folder of what is built must be on a device, not in memory";

/// Has the system forget what it keeps of the files in `dir`, as it does when others need the
/// memory.
fn evict(dir: &Path) {
    for entry in std::fs::read_dir(dir).expect("the database's folder") {
        // What is gone by now needs no eviction.
        let Some(file) = entry.ok().and_then(|entry| File::open(entry.path()).ok()) else { continue };
        fadvise(&file, 0, None, Advice::DontNeed).expect("advice");
    }
}

/// A database and its settings.
struct Place {
    kind: Kind,
    dir: PathBuf,
    settings: PathBuf,
}

impl Place {
    fn new(folder: &Path, kind: Kind) -> Self {
        let place = Self { kind, dir: folder.join("data"), settings: folder.join("settings.toml") };
        std::fs::create_dir(&place.dir).expect("a folder");
        std::fs::write(&place.settings, kind.settings).expect("they are written");
        place
    }

    fn serve(&self) -> Serving {
        let settings = self.settings.to_str().expect("a path");
        let engine = ["--engine", self.kind.engine];
        let arguments = ["--config", settings, "--memory-bytes", "16M", "--log-level", "error"];
        Serving::start_with(&[&engine[..], &arguments].concat(), &self.dir)
    }
}

/// How many reads waited for files so far, in this life of the server.
fn misses(serving: &Serving) -> u64 {
    let mut connection = Connection::open(&serving.address).expect("a connection");
    let Value::Bulk(text) = connection.ask("INFO firn") else { panic!("no text") };
    let text = String::from_utf8(text).expect("text");
    let count = text.lines().find_map(|line| line.strip_prefix("read_miss_count:"));
    count.unwrap_or_else(|| panic!("no count in {text}")).parse().expect("a number")
}

/// Kills it; tells how many reads waited for files.
fn kill(serving: &mut Serving) -> u64 {
    let misses = misses(serving);
    serving.signal("KILL");
    serving.process.wait().expect("it ends");
    misses
}

/// Writes some values beside the objects, into a database of their own.
fn fill(link: &mut Link<'_>, rng: &mut Rng) {
    let mut requests = vec![words("SELECT 1")];
    for _ in 0..FILLERS_AT_ONCE {
        let value: String = std::iter::repeat_with(|| rng.alphanumeric()).take(FILLER_BYTES).collect();
        requests.push(words(&format!("SET filler:{} {value}", rng.u64(..))));
    }
    requests.push(words("SELECT 0"));
    // A server that is killed meanwhile owes nothing.
    link.ask(&requests);
}

/// Removes what the round before left: histories begin with nothing, and the names of objects stay
/// the same.
fn clear(round: &Round) {
    let requests = [words("SELECT 1"), words("FLUSHDB"), words("SELECT 0"), Round::deletion()];
    Link::new(round).ask(&requests).expect("all is gone");
}

/// What a round saw, and how many reads waited for files.
struct Seen {
    histories: Histories,
    misses: u64,
    /// The same, of a client that read everything after the last kill.
    cold: u64,
}

/// Lets clients work for `operations` each while the server is killed `kills` times, and once more
/// at the end.
fn run_round(place: &Place, seed: u64, number: u64, operations: usize, kills: usize) -> Seen {
    let mut serving = place.serve();
    let round = Round::new(number, &serving.address, place.kind.kinds);
    clear(&round);
    let work = |client: usize| {
        let mut rng = Rng::with_seed(seed ^ number << 32 ^ client as u64);
        round.work(client, &mut rng, operations, |link, rng| {
            if rng.u8(..FILLERS_EVERY) == 0 {
                fill(link, rng);
            }
        })
    };
    let (mut histories, mut misses_seen, is_over) = (Histories::new(), 0, AtomicBool::new(false));
    std::thread::scope(|scope| {
        let ends = (Over(&round), Ends(&is_over));
        let clients: Vec<_> = (0..CLIENTS).map(|client| scope.spawn(move || work(client))).collect();
        scope.spawn(|| {
            while !is_over.load(Ordering::Acquire) {
                evict(&place.dir);
                std::thread::sleep(EVICTION_INTERVAL);
            }
        });
        let mut rng = Rng::with_seed(seed ^ number);
        // By what is done, not by the clock: a quick machine is as busy at each kill as a slow one.
        let between = CLIENTS * operations / (kills + 1);
        for kills_before in 0..kills {
            let due = kills_before * between + rng.usize(between / 4..between);
            while round.begun() < due {
                std::thread::sleep(Duration::from_millis(1));
            }
            misses_seen += kill(&mut serving);
            serving = place.serve();
            round.move_to(&serving.address);
        }
        for client in clients {
            histories.absorb(client.join().expect("a client"));
        }
        drop(ends);
    });
    let mut rng = Rng::with_seed(seed);
    (0..LAST_FILLS).for_each(|_| fill(&mut Link::new(&round), &mut rng));
    misses_seen += kill(&mut serving);
    let serving = place.serve();
    round.move_to(&serving.address);
    // Objects lie side by side: what one of them needs would bring the others.
    histories.absorb(round.read_all(|| evict(&place.dir)));
    let cold = misses(&serving);
    serving.end();
    Seen { histories, misses: misses_seen, cold }
}

pub(super) fn check_rounds(kind: Kind, rounds: u64, operations: usize, kills: usize) {
    let seed = super::seed();
    eprintln!("{}, seed {seed}", kind.engine);
    // Not where others keep what is temporary: that may be memory, which nothing leaves.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let place = Place::new(folder.path(), kind);
    let (mut lost, mut misses, mut cold) = (0, 0, 0);
    for number in 0..rounds {
        let seen = run_round(&place, seed, number, operations, kills);
        let judged = seen.histories.judge(seed);
        lost += seen.histories.unanswered();
        misses += seen.misses;
        eprintln!(
            "round {number}: {judged} operations, {lost} unanswered yet, {} reads waited for files, {} after the last kill",
            seen.misses, seen.cold,
        );
        cold += seen.cold;
    }
    // Of a single round all may lie in the buffer after its last kill.
    assert!(cold > 0, "seed {seed}: no cold reads after any last kill; {NEED}");
    assert!(lost > 0, "seed {seed}: no operation was under way at any kill");
    let lives = rounds * (kills as u64 + 1);
    assert!(misses >= lives * MISSES_MIN, "seed {seed}: {misses} cold reads in {lives} lives; {NEED}");
}
