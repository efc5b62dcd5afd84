//! Group commits of several threads, and crashes at any moment between: what was acknowledged is
//! there, and whole.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use firn_engine::blocking::OrderedBlocking;
use firn_engine::{
    Completion, Durability, Engine, Ordered, OrderedSession, Outcome, ReadAt, Ticket, WriteOptions,
};
use firn_storage::backend::Crash;
use firn_storage::{Clock, SystemClock};
use firn_tree::Tree;

use crate::support::numbered::{Both, both, numbered, prefixes};
use crate::support::world::{World, seed, session, tiny};

/// How many batches of each thread were acknowledged without a gap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Acknowledged {
    process: u32,
    disk: u32,
}

type Acknowledgements = Mutex<BTreeMap<u8, Acknowledged>>;

fn note(acknowledgements: &Acknowledgements, thread: u8, number: u32, durability: Durability) {
    let mut acknowledgements = acknowledgements.lock().unwrap();
    let entry = acknowledgements.entry(thread).or_default();
    // A later write on the device means that the earlier ones of the log are there too.
    entry.process = entry.process.max(number + 1);
    if durability == Durability::Disk {
        entry.disk = entry.disk.max(number + 1);
    }
}

/// Records and bytes of a value: mostly small batches, some of many records, and some beyond a
/// quarter of a segment.
fn shape(rng: &mut fastrand::Rng) -> (u16, usize) {
    match rng.u32(0..100) {
        0 => (3, 700_000),
        1..=9 => (200, 100),
        10..=59 => (1, 4000),
        _ => (rng.u16(2..6), 1000),
    }
}

fn durability(rng: &mut fastrand::Rng) -> Durability {
    if rng.u32(0..8) == 0 { Durability::Disk } else { Durability::Process }
}

fn options(durability: Durability) -> WriteOptions {
    WriteOptions { durability: Some(durability), expires_at_ms: 0 }
}

/// Batches of each thread.
const COUNT: u32 = 500;

/// The numbers of a thread's batches: half of them, and once there is a second round of crashes the
/// others.
fn numbers(rounds: &AtomicU64) -> impl Iterator<Item = u32> {
    (0..COUNT).inspect(|number| {
        while *number == COUNT / 2 && rounds.load(Ordering::Acquire) < 2 {
            SystemClock::new().sleep(Duration::from_millis(1));
        }
    })
}

/// A thread that waits for each answer.
fn write_one_by_one(
    tree: &Tree,
    both: Both,
    thread: u8,
    rounds: &AtomicU64,
    seed: u64,
    acknowledgements: &Acknowledgements,
) {
    let (mut session, mut rng) = (session(tree), fastrand::Rng::with_seed(seed));
    for number in numbers(rounds) {
        let (records, bytes) = shape(&mut rng);
        let durability = durability(&mut rng);
        let batch = numbered(both, thread, number, records, bytes);
        session.write(&batch, options(durability)).unwrap();
        note(acknowledgements, thread, number, durability);
    }
}

/// How a session that does not block learns of its answers.
#[derive(Clone, Copy, Debug)]
enum Ask {
    Wait,
    Notifier,
    PollOnly,
}

/// Writes of one session that are not answered yet.
#[derive(Default)]
struct Pending {
    writes: BTreeMap<Ticket, (u32, Durability)>,
    /// Answered before an earlier one was.
    early: BTreeSet<u32>,
    answered: u32,
}

impl Pending {
    fn take(
        &mut self,
        session: &mut dyn OrderedSession,
        acknowledgements: &Acknowledgements,
        thread: u8,
    ) -> usize {
        let mut numbers = Vec::new();
        let count = session.poll(&mut |ticket, completion| {
            let Completion::Written(_) = completion else { panic!("thread {thread}: {completion:?}") };
            numbers.push(self.writes.remove(&ticket).expect("one answer for each ticket"));
        });
        for (number, durability) in numbers {
            note(acknowledgements, thread, number, durability);
            self.early.insert(number);
        }
        while self.early.remove(&self.answered) {
            self.answered += 1;
        }
        count
    }
}

/// A thread that has many writes under way at once.
fn write_ahead(
    tree: &Tree,
    both: Both,
    thread: u8,
    rounds: &AtomicU64,
    seed: u64,
    acknowledgements: &Acknowledgements,
    ask: Ask,
) {
    let (mut session, mut rng) = (tree.ordered_session(), fastrand::Rng::with_seed(seed));
    let notifier = session.notifier();
    let mut pending = Pending::default();
    for number in numbers(rounds) {
        let (records, bytes) = shape(&mut rng);
        let durability = durability(&mut rng);
        let batch = numbered(both, thread, number, records, bytes);
        match session.write(&batch, options(durability)).unwrap() {
            Outcome::Done(_) => {
                note(acknowledgements, thread, number, durability);
                pending.early.insert(number);
            }
            Outcome::Pending(ticket) => drop(pending.writes.insert(ticket, (number, durability))),
        }
        while pending.writes.len() > 20 {
            if pending.take(&mut *session, acknowledgements, thread) == 0 {
                wait(&mut *session, ask, &notifier);
            }
        }
    }
    while !pending.writes.is_empty() {
        if pending.take(&mut *session, acknowledgements, thread) == 0 {
            wait(&mut *session, ask, &notifier);
        }
    }
    pending.take(&mut *session, acknowledgements, thread);
    assert_eq!(pending.answered, COUNT, "thread {thread}: every write is answered");
    assert!(!session.wait(None), "nothing is under way any more");
}

fn wait(session: &mut dyn OrderedSession, ask: Ask, notifier: &firn_engine::Notifier) {
    #[expect(clippy::disallowed_methods, reason = "a deadline is wall time by its meaning")]
    let deadline = Instant::now() + Duration::from_secs(30);
    match ask {
        Ask::Wait => assert!(session.wait(None), "something is under way"),
        Ask::Notifier => assert!(notifier.wait(Some(deadline)), "no answer in half a minute"),
        Ask::PollOnly => std::thread::yield_now(),
    }
}

/// Crashes a copy of the machine and compares what is there with what was acknowledged before.
fn crash_and_look(world: &World, acknowledgements: &Acknowledgements, crash: Crash) {
    let before = acknowledgements.lock().unwrap().clone();
    let after = world.crash(crash);
    let tree = after.open().unwrap();
    let both = both(&tree);
    let mut session: OrderedBlocking = session(&tree);
    let found = prefixes(&mut session, ReadAt::Latest, both);
    for (thread, acknowledged) in before {
        let count = found.get(&thread).copied().unwrap_or(0);
        let least = match crash {
            Crash::Kill => acknowledged.process,
            Crash::PowerLoss { .. } => acknowledged.disk,
        };
        assert!(count >= least, "{crash:?}: thread {thread} has {count} batches, acknowledged {least}");
    }
}

#[test]
fn what_a_group_commit_acknowledged_survives_kills_and_disk_writes_loss_of_power() {
    const THREADS: usize = 4;
    let seed = seed(4201);
    let world = World::new(tiny());
    let tree = world.open_timed(Arc::new(world.storage.clone()));
    let both = both(&tree);
    let (acknowledgements, writing, rounds) =
        (Acknowledgements::default(), AtomicUsize::new(THREADS), AtomicU64::new(0));
    let (tree, acknowledgements, writing, rounds) = (&tree, &acknowledgements, &writing, &rounds);
    std::thread::scope(|scope| {
        for thread in 0..THREADS as u8 {
            let seed = seed + u64::from(thread);
            scope.spawn(move || {
                let _done = Done(writing);
                match thread {
                    0 => write_one_by_one(tree, both, thread, rounds, seed, acknowledgements),
                    1 => write_ahead(tree, both, thread, rounds, seed, acknowledgements, Ask::Wait),
                    2 => write_ahead(tree, both, thread, rounds, seed, acknowledgements, Ask::Notifier),
                    _ => write_ahead(tree, both, thread, rounds, seed, acknowledgements, Ask::PollOnly),
                }
            });
        }
        let _last = LetGo(rounds);
        let mut round = 0;
        while writing.load(Ordering::Acquire) > 0 {
            round += 1;
            rounds.store(round, Ordering::Release);
            crash_and_look(&world, acknowledgements, Crash::Kill);
            crash_and_look(&world, acknowledgements, Crash::PowerLoss { seed: seed + round });
        }
        assert!(round > 1, "only {round} crashes");
    });
    for (thread, acknowledged) in &*acknowledgements.lock().unwrap() {
        assert_eq!(acknowledged.process, COUNT, "thread {thread}");
    }
    crash_and_look(&world, acknowledgements, Crash::Kill);
    tree.sync().unwrap();
    acknowledgements
        .lock()
        .unwrap()
        .values_mut()
        .for_each(|acknowledged| acknowledged.disk = acknowledged.process);
    crash_and_look(&world, acknowledgements, Crash::PowerLoss { seed });
}

/// Lets writers go on to their end also where the test panics.
struct LetGo<'r>(&'r AtomicU64);

impl Drop for LetGo<'_> {
    fn drop(&mut self) {
        self.0.store(u64::MAX, Ordering::Release);
    }
}

/// Counts a writer as done, also where it panics.
struct Done<'w>(&'w AtomicUsize);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}
