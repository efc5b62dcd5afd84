//! Real processes on real files: kill -9 under load, and every acknowledged write is there.
//!
//! A child process writes from two threads and says each acknowledged write on its standard output.
//! The parent kills it at a random time, opens the directory itself, and compares.
//!
//! What a thread writes follows from the number of the write: a new value of one of many keys, a
//! value of a key that is written again and again (of the same length each time, so that an engine
//! may change it where it lies), or a batch of several. All that is found of a thread must be as
//! after the last acknowledged write, or as after the one that was under way.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use fastrand::Rng;
use firn_engine::blocking::Blocking;
use firn_engine::{Batch, KEYSPACE_DEFAULT, KeyspaceId, ReadAt, WriteOptions};
use firn_storage::backend::{Local, LocalOptions};
use firn_storage::{Clock, SystemClock};

use crate::model::shown;
use crate::ops::{space_name, space_settings};
use crate::world::{Knobs, Opened, World};

/// Threads that write.
const THREADS: u64 = 2;
/// Keys of each thread.
const KEYS: u64 = 3000;
/// The second keyspace of every tenth write, by script number.
const OTHER: u8 = 3;
/// Lengths of the values that are written again and again, one for each such key.
const HOT_BYTES: [usize; 16] = [1, 2, 3, 7, 8, 9, 15, 16, 17, 63, 64, 500, 1000, 2047, 3999, 4000];

/// What was done, for reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Processes killed.
    pub round_count: u64,
    /// Writes acknowledged, all rounds.
    pub acknowledged_count: u64,
    /// Writes found that had not been acknowledged yet.
    pub unacknowledged_count: u64,
}

/// Kills `rounds` children that work on `folder`, one after the other.
///
/// `child` is the program and its arguments before the folder, the settings' seed and the first
/// numbers.
pub fn check(
    world: &dyn World,
    child: &[String],
    folder: &Path,
    seed: u64,
    rounds: u64,
    progress: &mut dyn FnMut(&Totals),
) -> Result<Totals> {
    let mut rng = Rng::with_seed(seed ^ 0x6b69_6c6c);
    let mut totals = Totals::default();
    // Writes of each thread found so far: numbers below are there or overwritten.
    let mut next = vec![1_u64; THREADS as usize];
    for round in 0..rounds {
        let knobs = rng.u64(0..64);
        let pause = Duration::from_millis(rng.u64(50..1500));
        let acknowledged = run_child(child, folder, knobs, &next, pause)?;
        for (thread, first) in next.iter_mut().enumerate() {
            let last = acknowledged.get(&(thread as u64)).copied().unwrap_or(*first - 1);
            totals.acknowledged_count += last + 1 - *first;
            *first = last + 1;
        }
        let found = verify(world, folder, rng.u64(0..64), &next)
            .with_context(|| format!("round {} of seed {seed}, killed after {pause:?}", round + 1))?;
        for (first, found) in next.iter_mut().zip(found) {
            totals.unacknowledged_count += found + 1 - *first;
            *first = found + 1;
        }
        totals.round_count += 1;
        progress(&totals);
    }
    Ok(totals)
}

/// Starts a child, kills it after `pause`, and returns the last acknowledged number of each thread.
fn run_child(
    child: &[String],
    folder: &Path,
    knobs: u64,
    next: &[u64],
    pause: Duration,
) -> Result<BTreeMap<u64, u64>> {
    let (program, arguments) = child.split_first().context("no program to run")?;
    let numbers = next.iter().map(u64::to_string).collect::<Vec<_>>().join(",");
    let mut process = Command::new(program)
        .args(arguments)
        .arg(folder)
        .arg(knobs.to_string())
        .arg(numbers)
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {program}"))?;
    let output = process.stdout.take().context("the child's output is not piped")?;
    let mut lines = BufReader::new(output).lines();
    ensure!(lines.next().transpose()?.as_deref() == Some("open"), "the child did not open the database");
    let reader = std::thread::scope(|scope| {
        let reader = scope.spawn(move || {
            let mut acknowledged = BTreeMap::new();
            for line in lines.map_while(std::io::Result::ok) {
                // The last line may be cut short; then its number is not believed.
                let Some((thread, number)) = line.strip_suffix('.').and_then(|line| line.split_once(' '))
                else {
                    continue;
                };
                if let (Ok(thread), Ok(number)) = (thread.parse::<u64>(), number.parse::<u64>()) {
                    acknowledged.insert(thread, number);
                }
            }
            acknowledged
        });
        SystemClock::new().sleep(pause);
        let was_alive = process.try_wait().map(|status| status.is_none());
        let killed = process.kill().and_then(|()| process.wait());
        (was_alive, killed, reader.join())
    });
    let (was_alive, killed, acknowledged) = reader;
    ensure!(was_alive?, "the child ended by itself: {:?}", killed?);
    killed.context("cannot kill the child")?;
    acknowledged.map_err(|_| anyhow::anyhow!("reading the child's output panicked"))
}

/// Opens the directory; the last number found of each thread, which is the last acknowledged one or
/// its successor.
fn verify(world: &dyn World, folder: &Path, knobs: u64, next: &[u64]) -> Result<Vec<u64>> {
    let (opened, other) = open(world, folder, &Knobs::draw(knobs))?;
    let mut session = Blocking::new(opened.engine.session());
    let mut found = Vec::new();
    for (thread, next) in (0..).zip(next) {
        let [before, after] = [next - 1, *next].map(|last| content(thread, last));
        // The write after the last acknowledged one may have been under way.
        let mut differences = [None, None];
        for (is_other, key) in after.keys() {
            let id = if *is_other { other } else { KEYSPACE_DEFAULT };
            let got = session.get(ReadAt::Latest, id, key)?;
            for (content, difference) in [&before, &after].into_iter().zip(&mut differences) {
                let expected = content.get(&(*is_other, key.clone()));
                if difference.is_none() && got.as_ref() != expected {
                    let words =
                        |value: Option<&Vec<u8>>| value.map_or("nothing".to_owned(), |value| shown(value));
                    let [got, expected] = [words(got.as_ref()), words(expected)];
                    *difference = Some(format!("{}: found {got}, expected {expected}", shown(key)));
                }
            }
        }
        found.push(match differences {
            [_, None] => *next,
            [None, _] => next - 1,
            [Some(before), Some(after)] => bail!(
                "thread {thread} is neither after write {} ({before}) nor after the next one ({after})",
                next - 1
            ),
        });
    }
    Ok(found)
}

/// A key of the second keyspace, or of the first.
type Spot = (bool, Vec<u8>);

/// What `thread` has written once its write `last` is done, as far as it may still be there: by
/// spot.
fn content(thread: u64, last: u64) -> BTreeMap<Spot, Vec<u8>> {
    let first = last.saturating_sub(KEYS - 1).max(1);
    (first..=last).flat_map(|number| puts(thread, number)).collect()
}

/// What write `number` of `thread` puts; several are a batch.
fn puts(thread: u64, number: u64) -> Vec<(Spot, Vec<u8>)> {
    let hot = |number: u64| {
        let which = (number % HOT_BYTES.len() as u64) as usize;
        let key = format!("hot-{thread}-{which:02}").into_bytes();
        let mut value = vec![0; HOT_BYTES[which]];
        Rng::with_seed(thread << 56 ^ number).fill(&mut value);
        ((false, key), value)
    };
    let (key, value) = (key(thread, number), value(thread, number));
    match number % 10 {
        0 => vec![((false, key.clone()), value.clone()), ((true, key), value), hot(number), hot(number + 1)],
        1..=4 => vec![((false, key), value)],
        _ => vec![hot(number)],
    }
}

/// The child: writes until it is killed. Never returns without an error.
pub fn child(world: &dyn World, folder: &Path, knobs: u64, next: &str) -> Result<()> {
    // A process of its own needs threads of its own.
    let knobs = Knobs { has_threads: true, ..Knobs::draw(knobs) };
    let (opened, other) = open(world, folder, &knobs)?;
    let next: Vec<u64> = next.split(',').map(str::parse).collect::<Result<_, _>>().context("bad numbers")?;
    say("open")?;
    let results: Vec<Result<()>> = std::thread::scope(|scope| {
        let write = |(thread, first): (usize, &u64)| {
            let (session, first) = (Blocking::new(opened.engine.session()), *first);
            scope.spawn(move || write_for_ever(session, other, thread as u64, first))
        };
        let threads: Vec<_> = next.iter().enumerate().map(write).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, Result<()>>| match thread.join() {
            Ok(result) => result,
            Err(_) => Err(anyhow::anyhow!("a writing thread panicked")),
        };
        threads.into_iter().map(join).collect()
    });
    results.into_iter().collect()
}

fn write_for_ever(mut session: Blocking, other: KeyspaceId, thread: u64, first: u64) -> Result<()> {
    let options = WriteOptions::default();
    for number in first.. {
        let puts = puts(thread, number);
        let id = |is_other: bool| if is_other { other } else { KEYSPACE_DEFAULT };
        if let [((is_other, key), value)] = puts.as_slice() {
            session.put(id(*is_other), key, value, options)?;
        } else {
            let mut batch = Batch::new();
            for ((is_other, key), value) in &puts {
                batch.put(id(*is_other), key, value);
            }
            session.write(&batch, options)?;
        }
        say(&format!("{thread} {number}."))?;
    }
    Ok(())
}

fn say(line: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("{line}\n").as_bytes()).context("the parent is gone")?;
    out.flush().context("the parent is gone")
}

fn open(world: &dyn World, folder: &Path, knobs: &Knobs) -> Result<(Opened, KeyspaceId)> {
    let storage = Local::open(folder, LocalOptions { create: true })?;
    let opened = world.open(Arc::new(storage), knobs, Arc::new(SystemClock::new()))?;
    let other = opened.engine.create_keyspace(space_name(OTHER), space_settings(OTHER))?;
    Ok((opened, other))
}

fn key(thread: u64, number: u64) -> Vec<u8> {
    format!("thread-{thread}-{:05}", number % KEYS).into_bytes()
}

fn value(thread: u64, number: u64) -> Vec<u8> {
    let mut rng = Rng::with_seed(thread << 56 ^ number);
    let mut value = format!("{thread} {number} ").into_bytes();
    value.resize(value.len() + rng.usize(0..1500), b'.');
    value
}
