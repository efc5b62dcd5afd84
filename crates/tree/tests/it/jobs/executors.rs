//! Compactions on an executor that the owner gives, and that refuses, waits, vanishes, or lies.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use firn_engine::{Completion, Engine, KEYSPACE_DEFAULT, KeyspaceSettings, Ordered, Outcome, WriteOptions};
use firn_format::compression::Compression;
use firn_jobs::{
    CompactResult, Error, Executor, Finisher, JobHandle, JobResult, JobSpec, Local, OutputForm, new_job,
};
use firn_storage::backend::Operation;
use firn_storage::{Clock, Storage, SystemClock};
use firn_tree::{Background, Settings, Tree, TreeOptions};

use crate::support::in_time::{in_time, until};
use crate::support::world::{Hook, World, get, get_in, put, seed, session, settle, threads, tiny};

/// Changes a right result into a wrong one.
type Lie = fn(&mut CompactResult);

/// Changes the form that was asked for into another.
type Form = fn(&mut OutputForm);

/// What happens to one job.
#[derive(Clone, Copy, Debug)]
enum Act {
    /// Another one is done, whose outputs have another form.
    Form(Form),
    /// The job is not accepted.
    Refuse,
    /// The job is done, and the answer is that of another job.
    Lie(Lie),
    /// The job is done, and answered when the test says so.
    Hold,
    /// The job is done and answered.
    Serve,
}

/// Runs jobs here, does to each what the test set, and counts them.
#[derive(Debug)]
struct Wayward {
    inner: Local,
    acts: Mutex<VecDeque<Act>>,
    held: Mutex<Vec<(Finisher, JobResult)>>,
    submitted: AtomicUsize,
}

impl Wayward {
    fn new(world: &World, acts: &[Act]) -> Arc<Self> {
        let inner = Local::inline(world.options().storage, Arc::new(world.options().semantics));
        let acts = Mutex::new(acts.iter().copied().collect());
        Arc::new(Self { inner, acts, held: Mutex::default(), submitted: AtomicUsize::new(0) })
    }

    fn count(&self) -> usize {
        self.submitted.load(Ordering::Relaxed)
    }

    /// Waits until a job is held.
    fn wait_held(&self) {
        until("a job", || !self.held.lock().unwrap().is_empty());
    }

    fn is_cancelled(&self) -> bool {
        self.held.lock().unwrap().iter().all(|(finisher, _)| finisher.control().is_cancelled())
    }

    /// Answers what was held.
    fn release(&self) {
        let held = std::mem::take(&mut *self.held.lock().unwrap());
        held.into_iter().for_each(|(finisher, result)| finisher.finish(Ok(result)));
    }
}

impl Executor for Wayward {
    fn submit(&self, mut spec: JobSpec) -> firn_jobs::Result<JobHandle> {
        self.submitted.fetch_add(1, Ordering::Relaxed);
        let act = self.acts.lock().unwrap().pop_front();
        if matches!(act, Some(Act::Refuse)) {
            return Err(Error::new(firn_jobs::ErrorKind::Rejected, "no operator of that name here"));
        }
        if let (Some(Act::Form(form)), JobSpec::Compact(spec)) = (act, &mut spec) {
            form(&mut spec.output);
        }
        let inner = self.inner.submit(spec)?;
        let (handle, finisher) = new_job();
        let mut result = inner.wait()?;
        match act {
            Some(Act::Lie(lie)) => match &mut result {
                JobResult::Compact(result) => lie(result),
                JobResult::BlobGc(_) => panic!("a compaction"),
            },
            Some(Act::Hold) => {
                self.held.lock().unwrap().push((finisher, result));
                return Ok(handle);
            }
            Some(Act::Serve | Act::Refuse | Act::Form(_)) | None => {}
        }
        finisher.finish(Ok(result));
        Ok(handle)
    }
}

/// A tree whose compactions run on `executor`.
fn open(world: &World, executor: &Arc<Wayward>, background: Background) -> Arc<Tree> {
    open_with(world.options(), executor, background)
}

fn open_with(options: TreeOptions, executor: &Arc<Wayward>, background: Background) -> Arc<Tree> {
    let executor: Option<Arc<dyn Executor>> = Some(Arc::clone(executor) as _);
    Tree::open(TreeOptions { executor, background, ..options }).unwrap()
}

const KEYS: u32 = 300;

/// Puts every key `rounds` times, each round in a sorted run of its own.
fn fill(tree: &Tree, rounds: u8) {
    let mut session = session(tree);
    for round in 0..rounds {
        for key in 0..KEYS {
            put(&mut session, &key.to_be_bytes(), &[round; 100]);
        }
        tree.flush().unwrap();
    }
}

fn holds(tree: &Tree, round: u8) {
    let mut session = session(tree);
    for key in 0..KEYS {
        let value = get(&mut session, &key.to_be_bytes());
        assert_eq!(value.as_deref(), Some(&[round; 100][..]), "key {key}");
    }
}

/// Table files in the directory, and tables of the database.
fn tables(world: &World, tree: &Tree) -> (u64, u64) {
    settle(tree);
    let files = world.storage.list().unwrap();
    let files = files.iter().filter(|(name, _)| name.ends_with(".table")).count();
    (files as u64, tree.stats().tree.expect("a tree").table_count)
}

/// Ways of answering wrongly.
const LIES: [(&str, Lie); 8] = [
    ("a flipped content hash", |result| result.tables[0].content_hash ^= 1),
    ("a flipped content hash that the sums share", |result| {
        result.tables[0].content_hash ^= 1;
        let sum = result.tables.iter().fold(0_u128, |sum, table| sum.wrapping_add(table.content_hash));
        let have = result.sums.input.hash.wrapping_add(result.sums.produced.hash);
        result.sums.shadowed.hash = have.wrapping_sub(sum);
    }),
    ("a table left out", |result| drop(result.tables.pop())),
    ("entries that came from nowhere", |result| result.sums.produced.count += 1),
    ("another file's name", |result| result.tables[0].file = "00000001-00000000-0.table".to_owned()),
    ("a length that is not the file's", |result| result.tables[0].bytes += 1),
    ("a smaller key than there is", |result| result.tables[0].smallest = vec![0]),
    ("sequences that the inputs do not have", |result| result.tables[0].sequence_max.0 += 1),
];

/// Ways of making a table that is right, and slow for as long as it lives.
const FORMS: [(&str, Form); 4] = [
    ("no filter", |form| form.filter_bits_per_key = 0),
    ("a smaller filter", |form| form.filter_bits_per_key = 2),
    ("other blocks", |form| form.block_bytes *= 2),
    ("another compression", |form| form.compression = Compression::Zstd),
];

#[test]
fn a_wrong_result_is_never_committed_its_outputs_are_removed_and_the_work_is_done_here() {
    let lies = LIES.map(|(what, lie)| (what, Act::Lie(lie)));
    let forms = FORMS.map(|(what, form)| (what, Act::Form(form)));
    for (what, act) in lies.into_iter().chain(forms) {
        // Nothing is compacted unless it is asked for.
        let world = World::new(
            Settings { space_amplification_max: 100.0, ..tiny() }
                .with_engine(|tree| tree.level0_runs_max = 100),
        );
        let executor = Wayward::new(&world, &[act]);
        let tree = open(&world, &executor, Background::Manual);
        fill(&tree, 2);
        tree.compact_range(KEYSPACE_DEFAULT, b"", None).expect(what);
        let stats = tree.stats();
        assert_eq!((executor.count(), stats.jobs_passed_on_count), (1, 1), "{what}");
        let reason = stats.jobs_passed_on_reason.expect(what);
        assert!(reason.contains("the answer was wrong"), "{what}: {reason}");
        let (files, live) = tables(&world, &tree);
        assert_eq!((files, live), (1, 1), "{what}: one table of all, and nothing else");
        holds(&tree, 1);
        tree.close().unwrap();
        holds(&world.open().unwrap(), 1);
    }
}

#[test]
fn what_an_executor_refuses_for_ever_is_compacted_here() {
    let world = World::new(tiny());
    let executor = Wayward::new(&world, &[Act::Refuse; 100]);
    let tree = open(&world, &executor, Background::Manual);
    for _ in 0..3 {
        fill(&tree, 4);
        settle(&tree);
    }
    let stats = tree.stats();
    assert!(
        stats.keyspaces[0].tree.as_ref().expect("a tree").levels[0].0 < 4,
        "level 0 is kept shallow: {stats:?}"
    );
    assert!(
        stats.jobs_passed_on_count > 1
            && stats.tree.as_ref().expect("a tree").compaction_write_bytes_total > 0,
        "{stats:?}"
    );
    assert_eq!(executor.count(), 1, "not asked again at once");
    let reason = stats.jobs_passed_on_reason.unwrap();
    assert!(reason.contains("no operator of that name here"), "{reason}");
    // Asked later and later.
    for (after_ms, count) in [(99, 1), (1, 2), (199, 2), (1, 3), (399, 3), (1, 4)] {
        world.clock.advance(Duration::from_millis(after_ms));
        tree.compact_range(KEYSPACE_DEFAULT, b"", None).unwrap();
        assert_eq!(executor.count(), count, "after {after_ms} ms more");
    }
    holds(&tree, 3);
}

#[test]
fn what_an_executor_keeps_for_too_long_is_compacted_here() {
    let world = World::new(tiny());
    let executor = Wayward::new(&world, &[Act::Hold]);
    let tree = open(&world, &executor, threads());
    fill(&tree, 3);
    executor.wait_held();
    world.clock.advance(Duration::from_secs(29));
    assert!(!executor.is_cancelled());
    world.clock.advance(Duration::from_secs(10));
    let waiting = Arc::clone(&tree);
    in_time("the end of a compaction that nobody answers for", move || waiting.wait_idle().unwrap());
    assert!(executor.is_cancelled());
    let stats = tree.stats();
    assert!(stats.tree.as_ref().expect("a tree").compaction_write_bytes_total > 0, "{stats:?}");
    let reason = stats.jobs_passed_on_reason.unwrap();
    assert!(reason.contains("no answer in 39"), "{reason}");
    // What comes too late changes nothing.
    executor.release();
    let (files, live) = tables(&world, &tree);
    assert_eq!(files, live);
    holds(&tree, 2);
}

/// Parts of which each looks right by itself: what one says it read of a table, another should
/// have.
#[test]
fn parts_that_are_wrong_together_are_never_committed() {
    let world = World::new(tiny().with_engine(|tree| tree.table_bytes = 64 << 10));
    let executor = Wayward::new(&world, &[]);
    let tree = open(&world, &executor, Background::Manual);
    fill_once(&tree, 0);
    // Flushed before there was anything below: one table from end to end.
    for key in [0, 999_u32] {
        put(&mut session(&tree), &key.to_be_bytes(), b"wide");
    }
    tree.flush().unwrap();
    settle(&tree);
    assert_eq!(executor.count(), 0, "tables moved, none was rewritten");
    let lie: Lie = |result| {
        result.sums.input.count += 1;
        result.sums.shadowed.count += 1;
    };
    executor.acts.lock().unwrap().extend([Act::Lie(lie), Act::Serve]);
    tree.compact_range(KEYSPACE_DEFAULT, b"", None).unwrap();
    assert_eq!(executor.count(), 3, "two parts, then the whole");
    let stats = tree.stats();
    assert_eq!(stats.jobs_passed_on_count, 0, "it did well then");
    assert!(stats.jobs_passed_on_reason.unwrap().contains("wrong together"));
    let (files, live) = tables(&world, &tree);
    assert_eq!(files, live);
    assert_eq!(get(&mut session(&tree), &7_u32.to_be_bytes()).as_deref(), Some(&[0; 500][..]));
}

#[test]
fn a_slow_executor_delays_nothing_but_its_compaction() {
    let world = World::new(tiny());
    let executor = Wayward::new(&world, &[Act::Hold]);
    let tree = open(&world, &executor, threads());
    fill(&tree, 3);
    executor.wait_held();
    assert_eq!(tree.stats().tree.expect("a tree").compaction_write_bytes_total, 0);
    let filling = Arc::clone(&tree);
    in_time("flushes beside a held job", move || fill(&filling, 4));
    holds(&tree, 3);
    executor.release();
    tree.wait_idle().unwrap();
    let stats = tree.stats();
    assert!(stats.tree.as_ref().expect("a tree").compaction_write_bytes_total > 0);
    assert_eq!((stats.jobs_passed_on_count, stats.jobs_passed_on_reason), (0, None));
    holds(&tree, 3);
}

/// A clock by which no job is given up for being late while a test lasts: its seconds take ten.
/// Writers that are to be delayed let other threads go first, no more.
///
/// A clock that delays move on would have held jobs given up. By the machine's clock they would
/// take half a minute beside other load.
#[derive(Debug)]
struct Slow(SystemClock);

impl Clock for Slow {
    fn now(&self) -> Duration {
        self.0.now() / 10
    }

    fn unix_ms(&self) -> u64 {
        self.0.unix_ms()
    }

    fn sleep(&self, _time: Duration) {
        std::thread::yield_now();
    }
}

#[test]
fn an_executor_that_hangs_holds_up_no_flush() {
    let settings = Settings { space_amplification_max: 1.2, ..tiny() }
        .with_engine(|tree| tree.blob_segment_bytes = 64 << 10);
    let threads_waiting = 2 * settings.background_threads + 1;
    let world = World::new(settings);
    let executor = Wayward::new(&world, &[Act::Hold; 1000]);
    let options = TreeOptions { clock: Arc::new(Slow(SystemClock::new())), ..world.options() };
    let tree = open_with(options, &executor, threads());
    let separated = KeyspaceSettings { separate_bytes: Some(1000), ..KeyspaceSettings::default() };
    let keyspace = tree.create_keyspace("large", separated).unwrap();
    let state = RefCell::new((fastrand::Rng::with_seed(seed(11)), [0; 100]));
    let write = |count| {
        let (random, values) = &mut *state.borrow_mut();
        let mut session = session(&tree);
        for round in (0_u8..=250).cycle().take(count) {
            let key = random.usize(0..values.len());
            session.put(keyspace, &key.to_be_bytes(), &[round; 2900], WriteOptions::default()).unwrap();
            values[key] = round;
        }
    };
    let is_wanted = |(finisher, _): &&(Finisher, JobResult)| !finisher.control().is_cancelled();
    let held = || executor.held.lock().unwrap().iter().filter(is_wanted).count();
    write(200);
    let ended = catch_unwind(AssertUnwindSafe(|| {
        until("as many held jobs as may be", || {
            write(20);
            held() >= threads_waiting
        });
        write(500);
        let flushed = Arc::clone(&tree);
        in_time("flushes beside held jobs", move || flushed.flush().unwrap());
        assert_eq!(held(), threads_waiting, "one thread is left");
        let is_l0 = |result: &JobResult| matches!(result, JobResult::Compact(_));
        let l0 = executor.held.lock().unwrap().iter().filter(|(_, result)| is_l0(result)).count();
        assert!(l0 > 0, "one waits for nothing else");
    }));
    executor.acts.lock().unwrap().clear();
    executor.release();
    ended.unwrap_or_else(|panic| resume_unwind(panic));
    tree.wait_idle().unwrap();
    assert!(tree.stats().tree.expect("a tree").blobs.gc_count > 0);
    let mut session = session(&tree);
    for (key, value) in state.into_inner().1.into_iter().enumerate() {
        let found = get_in(&mut session, keyspace, &key.to_be_bytes());
        assert_eq!(found, Some(vec![value; 2900]), "key {key}");
    }
}

/// What a compaction in progress does not need, it does not hold: neither arenas nor files of dead
/// segments.
#[test]
fn segments_die_beside_a_held_compaction() {
    let world = World::new(tiny());
    let executor = Wayward::new(&world, &[Act::Hold]);
    let tree = open(&world, &executor, threads());
    fill(&tree, 3);
    executor.wait_held();
    let files =
        || world.storage.list().unwrap().into_iter().filter(|(name, _)| name.ends_with(".log")).count();
    let (filling, value) = (Arc::clone(&tree), vec![7; 60_000]);
    let ended = catch_unwind(AssertUnwindSafe(|| {
        in_time("flushes beside a held job", move || {
            let mut session = session(&filling);
            for number in 0..1000_u32 {
                put(&mut session, &number.to_be_bytes(), &value);
            }
            filling.flush().unwrap();
        });
        // Of fifteen: the active one, one before it, and as many recycled files as a flush frees.
        until("the end of dead segments", || files() <= 5);
    }));
    executor.release();
    ended.unwrap_or_else(|panic| resume_unwind(panic));
    tree.wait_idle().unwrap();
}

/// No thread is in `wait`, and nothing that background threads work on ends: a flush does only
/// where the writer stands still.
#[test]
fn a_delayed_write_is_told_in_time_though_all_background_threads_are_busy() {
    let settings =
        Settings { background_threads: 1, memory_bytes: 128 << 20, ..tiny() }.with_engine(|tree| {
            tree.buffer_bytes = 8 << 20;
            tree.buffer_bytes_max = 16 << 20;
            tree.log_bytes_max = 128 << 20;
        });
    let world = World::new(settings);
    let executor = Wayward::new(&world, &[Act::Hold]);
    let (clock, hook, gate) = (Arc::new(SystemClock::new()), Arc::<Hook>::default(), Arc::default());
    let storage: Arc<dyn Storage> = Arc::new(hook.before(&world.storage, Operation::Write, "*.table"));
    let given: Option<Arc<dyn Executor>> = Some(Arc::clone(&executor) as _);
    let (background, timed) = (threads(), Arc::clone(&clock) as _);
    let options = TreeOptions { storage, executor: given, background, clock: timed, ..world.options() };
    let tree = Tree::open(options).unwrap();
    fill(&tree, 3);
    executor.wait_held();
    let is_open: Arc<AtomicBool> = Arc::clone(&gate);
    hook.set(move || {
        while !is_open.load(Ordering::Acquire) {
            SystemClock::new().sleep(Duration::from_millis(1));
        }
    });
    let outcome = catch_unwind(AssertUnwindSafe(|| notified_in_time(&tree, &clock, &gate, 5)));
    // Whatever came of it, nothing is to wait for the job any more, nor at the gate.
    gate.store(true, Ordering::Release);
    executor.release();
    outcome.unwrap_or_else(|panic| resume_unwind(panic));
}

/// Writes until `count` writes were delayed, and sleeps on the notifier alone until each is
/// acknowledged. No flush ends while one is delayed.
fn notified_in_time(tree: &Tree, clock: &SystemClock, gate: &AtomicBool, count: u32) {
    let (mut session, value, begun) = (tree.ordered_session(), vec![5; 100_000], clock.now());
    let mut notified = 0;
    while notified < count {
        assert!(clock.now() - begun < Duration::from_secs(60), "{notified} writes were delayed");
        let slowed_us = tree.stats().slowdown_us_total;
        let written = session.put(KEYSPACE_DEFAULT, b"paced", &value, WriteOptions::default()).unwrap();
        let Outcome::Pending(ticket) = written else { continue };
        let is_delayed = tree.stats().slowdown_us_total > slowed_us;
        if !is_delayed {
            // It finds no room. Flushes that take so long delay later writes, however slow the
            // writer is.
            clock.sleep(Duration::from_millis(200));
            gate.store(true, Ordering::Release);
        }
        let (notifier, asked, mut is_written) = (session.notifier(), clock.now(), false);
        while !is_written {
            let is_notified = notifier.wait(Some(deadline(Duration::from_secs(30))));
            let waited = clock.now() - asked;
            assert!(is_notified && waited < Duration::from_secs(30), "not told in {waited:?}");
            session.poll(&mut |of, completion| {
                assert!(matches!(completion, Completion::Written(_)), "{completion:?}");
                is_written = of == ticket;
            });
        }
        gate.store(false, Ordering::Release);
        notified += u32::from(is_delayed);
    }
}

#[expect(clippy::disallowed_methods, reason = "a notifier takes its deadline as an Instant")]
fn deadline(after: Duration) -> std::time::Instant {
    std::time::Instant::now() + after
}

#[test]
fn closing_cancels_what_runs_elsewhere_and_commits_none_of_it() {
    let world = World::new(tiny());
    let executor = Wayward::new(&world, &[Act::Hold]);
    let tree = open(&world, &executor, threads());
    fill(&tree, 3);
    executor.wait_held();
    assert!(!executor.is_cancelled());
    std::thread::scope(|scope| {
        let closing = scope.spawn(|| tree.close());
        until("a cancellation", || executor.is_cancelled());
        // As an executor does that is stopped.
        executor.held.lock().unwrap().clear();
        closing.join().unwrap().unwrap();
    });
    assert_eq!(tree.stats().tree.expect("a tree").compaction_write_bytes_total, 0);
    holds(&world.open().unwrap(), 2);
}

/// A sorted run of some eight tables of 64 KiB.
fn fill_once(tree: &Tree, round: u8) {
    let mut session = session(tree);
    for key in 0..1000_u32 {
        put(&mut session, &key.to_be_bytes(), &[round; 500]);
    }
    tree.flush().unwrap();
}

/// A compaction in several key ranges of which one is refused: that one is done here.
#[test]
fn one_refusal_of_several_parts_is_made_good_here() {
    let world = World::new(tiny().with_engine(|tree| tree.table_bytes = 64 << 10));
    let executor = Wayward::new(&world, &[]);
    let tree = open(&world, &executor, Background::Manual);
    (0..2).for_each(|round| fill_once(&tree, round));
    settle(&tree);
    let before = executor.count();
    executor.acts.lock().unwrap().extend([Act::Serve, Act::Refuse]);
    tree.compact_range(KEYSPACE_DEFAULT, b"", None).unwrap();
    assert_eq!(executor.count() - before, 2, "in parts");
    assert_eq!(tree.stats().jobs_passed_on_count, 3, "that one, and the next piece's");
    let (files, live) = tables(&world, &tree);
    assert_eq!(files, live);
    assert_eq!(get(&mut session(&tree), &7_u32.to_be_bytes()).as_deref(), Some(&[1; 500][..]));
}

/// The second would choose the tables that the first is about to replace.
#[test]
fn ranges_are_compacted_one_after_the_other() {
    let world = World::new(tiny());
    let executor = Wayward::new(&world, &[]);
    let tree = open(&world, &executor, Background::Manual);
    fill(&tree, 2);
    settle(&tree);
    executor.acts.lock().unwrap().push_back(Act::Hold);
    let compact = || tree.compact_range(KEYSPACE_DEFAULT, b"", None);
    std::thread::scope(|scope| {
        let first = scope.spawn(compact);
        executor.wait_held();
        let second = scope.spawn(compact);
        // A call that need not wait for the first is done by then.
        SystemClock::new().sleep(Duration::from_millis(300));
        executor.release();
        first.join().unwrap().unwrap();
        second.join().unwrap().unwrap();
    });
    holds(&tree, 1);
    let (files, live) = tables(&world, &tree);
    assert_eq!(files, live);
}
