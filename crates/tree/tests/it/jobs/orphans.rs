//! Workers elsewhere that create outputs when no job waits for them any more, at a database that
//! stays open.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use firn_engine::conformance::semantics;
use firn_engine::{Engine, ErrorKind, KEYSPACE_DEFAULT, Ordered, ReadAt, ScanRange};
use firn_jobs::{Error, Executor, Finisher, JobHandle, JobResult, JobSpec, Local, new_job};
use firn_storage::backend::{Divided, Effect, Fault, Faulty, Memory, Operation, When};
use firn_storage::{Clock, Storage, SystemClock};
use firn_tree::{Background, Settings, Tree, TreeOptions, VerifyOptions, verify};

use crate::support::in_time::until;
use crate::support::world::{Hook, World, delete_range, describe, put, session, settle, threads, tiny};

/// Runs jobs here and remembers what their outputs were to be called.
#[derive(Debug)]
pub(crate) struct Late {
    inner: Local,
    pub(crate) stems: Mutex<Vec<String>>,
    /// Outputs are there, and the job is reported as failed.
    pub(crate) fails: AtomicBool,
    /// Outputs are there, and the job is not answered.
    pub(crate) holds: AtomicBool,
    pub(crate) held: Mutex<Vec<(Finisher, JobResult)>>,
    pub(crate) given_up: AtomicU64,
}

impl Executor for Late {
    fn submit(&self, spec: JobSpec) -> firn_jobs::Result<JobHandle> {
        self.stems.lock().unwrap().push(spec.output_stem().to_owned());
        let result = self.inner.submit(spec)?.wait()?;
        let (handle, finisher) = new_job();
        if self.fails.load(Ordering::Relaxed) {
            finisher.finish(Err(Error::new(firn_jobs::ErrorKind::Invalid, "gone to sleep")));
        } else if self.holds.load(Ordering::Relaxed) {
            self.held.lock().unwrap().push((finisher, result));
        } else {
            finisher.finish(Ok(result));
        }
        Ok(handle)
    }

    fn given_up_count(&self) -> u64 {
        self.given_up.load(Ordering::Relaxed)
    }
}

/// A database on shared storage, or all in one directory, whose jobs a worker elsewhere does.
pub(crate) struct Site {
    pub(crate) world: World,
    /// What workers and other machines reach.
    pub(crate) shared: Memory,
    pub(crate) faulty: Faulty,
    pub(crate) hook: Arc<Hook>,
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) executor: Arc<Late>,
}

impl Site {
    pub(crate) fn new(is_divided: bool) -> Self {
        // Nothing is compacted or collected unless it is asked for.
        let world = World::new(Settings { space_amplification_max: 100.0, ..tiny() }.with_engine(|tree| {
            tree.level0_runs_max = 100;
            tree.blob_segment_bytes = 32 << 10;
        }));
        let (shared, hook) = (Memory::new(), Arc::<Hook>::default());
        let faulty = Faulty::with_clock(Arc::new(shared.clone()), Arc::clone(&hook) as _);
        let storage: Arc<dyn Storage> = match is_divided {
            true => Arc::new(divided(&Memory::new(), Arc::new(faulty.clone()), 7)),
            false => Arc::new(faulty.clone()),
        };
        let executor = Arc::new(Late {
            inner: Local::inline(Arc::clone(&storage), Arc::new(semantics())),
            stems: Mutex::default(),
            fails: AtomicBool::new(false),
            holds: AtomicBool::new(false),
            held: Mutex::default(),
            given_up: AtomicU64::new(0),
        });
        Self { world, shared, faulty, hook, storage, executor }
    }

    pub(crate) fn open(&self, background: Background) -> Arc<Tree> {
        let (storage, executor) = (Arc::clone(&self.storage), Arc::clone(&self.executor));
        let executor: Option<Arc<dyn Executor>> = Some(executor);
        Tree::open(TreeOptions { storage, executor, background, ..self.world.options() }).unwrap()
    }

    /// The executor that was asked for jobs creates outputs of other attempts at them now; their
    /// names.
    fn wake(&self) -> Vec<String> {
        let stems = std::mem::take(&mut *self.executor.stems.lock().unwrap());
        assert!(!stems.is_empty(), "no job was asked for elsewhere");
        let names = |stem: &String| [format!("{stem}-7-000000.table"), format!("{stem}-7-000001.blobs")];
        let names: Vec<String> = stems.iter().flat_map(names).collect();
        names.iter().for_each(|name| self.create(name));
        names
    }

    pub(crate) fn create(&self, name: &str) {
        self.shared.create(name).unwrap().write_at(0, b"late").unwrap();
    }

    pub(crate) fn files(&self) -> Vec<String> {
        let files = self.shared.list().unwrap().into_iter().map(|(name, _)| name);
        files.filter(|name| name.ends_with(".table") || name.ends_with(".blobs")).collect()
    }

    fn has_all(&self, names: &[String]) -> bool {
        let files = self.files();
        names.iter().all(|name| files.contains(name))
    }

    pub(crate) fn has_any(&self, names: &[String]) -> bool {
        let files = self.files();
        names.iter().any(|name| files.contains(name))
    }

    /// Does what there is to do after so many seconds.
    pub(crate) fn after(&self, tree: &Tree, seconds: u64) {
        self.world.clock.advance(Duration::from_secs(seconds));
        settle(tree);
    }

    pub(crate) fn check(&self) {
        let storage = Arc::clone(&self.storage);
        let report = verify(VerifyOptions { storage, semantics: semantics() }, &mut |_| {}).unwrap();
        let is_output =
            |file: &str| file.ends_with(".table") || file.contains('-') && file.ends_with(".blobs");
        let left = report.findings.iter().filter(|finding| is_output(&finding.file)).count();
        assert!(report.is_sound() && left == 0, "{:?}", report.findings);
    }
}

pub(crate) fn divided(local: &Memory, shared: Arc<dyn Storage>, home: u128) -> Divided {
    Divided::open(Arc::new(local.clone()), shared, home).unwrap()
}

/// Puts every key twice, each time in a sorted run of its own.
pub(crate) fn fill(tree: &Tree) {
    let mut session = session(tree);
    for round in 0..2_u8 {
        for key in 0..300_u32 {
            put(&mut session, &key.to_be_bytes(), &[round; 200]);
        }
        tree.flush().unwrap();
    }
}

pub(crate) fn compact(tree: &Tree) {
    tree.compact_range(KEYSPACE_DEFAULT, b"", None).unwrap();
}

#[test]
fn what_comes_after_an_attempt_failed_is_removed_in_a_while() {
    for is_divided in [false, true] {
        let site = Site::new(is_divided);
        let tree = site.open(Background::Manual);
        site.executor.fails.store(true, Ordering::Relaxed);
        fill(&tree);
        compact(&tree);
        assert_eq!(tree.stats().jobs_passed_on_count, 1);
        settle(&tree);
        let live = site.files();
        let late = site.wake();
        let before = site.faulty.counters();
        site.after(&tree, 59);
        assert_eq!(site.faulty.counters().since(&before).of(Operation::List).operations, 0, "too early");
        assert!(site.has_all(&late));
        site.after(&tree, 1);
        assert_eq!((site.files(), tree.stats().orphan_remove_count), (live.clone(), 2));
        // Twice more an hour later, and then nothing is asked of the backend any more.
        (0..3).for_each(|_| site.after(&tree, 3600));
        let before = site.faulty.counters();
        (0..1000).for_each(|_| site.after(&tree, 3600));
        assert_eq!(site.faulty.counters(), before);
        // An attempt that sleeps even longer: the next process knows it by its generation.
        tree.close().unwrap();
        let tree = site.open(Background::Manual);
        late.iter().for_each(|name| site.create(name));
        fill(&tree);
        compact(&tree);
        settle(&tree);
        site.after(&tree, 60);
        assert_eq!((site.has_any(&late), tree.stats().orphan_remove_count), (false, 2));
        tree.close().unwrap();
        site.check();
    }
}

#[test]
fn what_comes_after_a_job_was_done_is_removed_within_the_hour_or_as_soon_as_the_executor_tells() {
    let site = Site::new(true);
    let tree = site.open(Background::Manual);
    for (given_up, seconds) in [(0, 3600), (1, 60)] {
        fill(&tree);
        compact(&tree);
        settle(&tree);
        let live = site.files();
        let late = site.wake();
        let removed = tree.stats().orphan_remove_count;
        site.executor.given_up.fetch_add(given_up, Ordering::Relaxed);
        site.after(&tree, 0);
        site.after(&tree, seconds - 1);
        assert!(site.has_all(&late), "after {seconds} s");
        site.after(&tree, 1);
        assert_eq!((site.files(), tree.stats().orphan_remove_count), (live, removed + 2));
    }
    assert_eq!(tree.stats().jobs_passed_on_count, 0);
    tree.close().unwrap();
    site.check();
}

#[test]
fn what_dies_while_nothing_can_be_removed_is_removed_with_what_dies_next_or_in_a_while() {
    for has_next in [false, true] {
        let site = Site::new(true);
        let tree = site.open(Background::Manual);
        fill(&tree);
        let dead = site.files();
        let effect = Effect::Fail(firn_storage::ErrorKind::Refused);
        let (on, file, when) = (Operation::Remove, "*".to_owned(), When::Always { after: 0 });
        site.faulty.inject(Fault { on, file, when, effect });
        compact(&tree);
        let before = site.faulty.counters();
        settle(&tree);
        let tried = site.faulty.counters().since(&before).of(Operation::Remove).operations;
        assert!(tried <= 1, "a backend that refuses one is asked for {tried}");
        assert!(site.has_all(&dead) && dead.len() > 1, "{dead:?}");
        site.faulty.clear_faults();
        if has_next {
            fill(&tree);
            compact(&tree);
            settle(&tree);
        } else {
            site.after(&tree, 0);
            site.after(&tree, 59);
            assert!(site.has_all(&dead));
            site.after(&tree, 1);
        }
        assert!(!site.has_any(&dead), "{:?}", site.files());
        tree.close().unwrap();
        site.check();
    }
}

#[test]
fn what_cannot_be_listed_or_removed_now_is_removed_later() {
    let site = Site::new(true);
    let tree = site.open(Background::Manual);
    fill(&tree);
    compact(&tree);
    let late = site.wake();
    site.executor.given_up.fetch_add(1, Ordering::Relaxed);
    site.after(&tree, 0);
    for on in [Operation::List, Operation::Remove] {
        let effect = Effect::Fail(firn_storage::ErrorKind::Refused);
        site.faulty.inject(Fault { on, file: "*".to_owned(), when: When::Always { after: 0 }, effect });
        site.after(&tree, 60);
        assert!(site.has_all(&late), "{on:?}");
        site.faulty.clear_faults();
        site.after(&tree, 59);
        assert!(site.has_all(&late), "{on:?}: not at once");
        site.after(&tree, 1);
        assert!(!site.has_any(&late), "{on:?}");
        late.iter().for_each(|name| site.create(name));
        site.executor.given_up.fetch_add(1, Ordering::Relaxed);
        site.after(&tree, 0);
    }
    // The backend is there again.
    put(&mut session(&tree), b"key", b"value");
    tree.flush().unwrap();
}

#[test]
fn what_a_reader_has_stays() {
    let site = Site::new(true);
    let tree = site.open(Background::Manual);
    tree.set_separate_bytes(KEYSPACE_DEFAULT, Some(100)).unwrap();
    fill(&tree);
    // Some jobs are asked for elsewhere.
    compact(&tree);
    settle(&tree);
    let read = site.files();
    assert!(read.iter().any(|name| name.ends_with(".blobs")), "{read:?}");
    let mut reader = session(&tree);
    let mut scan = reader.scan(ReadAt::Latest, KEYSPACE_DEFAULT, ScanRange::all()).unwrap();
    scan.next().unwrap().unwrap();
    // Neither these tables nor these values are named by an edit then.
    delete_range(&tree, KEYSPACE_DEFAULT, b"", &[0xff; 9]).unwrap();
    compact(&tree);
    settle(&tree);
    assert_eq!(tree.stats().tree.expect("a tree").table_bytes, 0);
    let late = site.wake();
    site.executor.given_up.fetch_add(1, Ordering::Relaxed);
    site.after(&tree, 0);
    site.after(&tree, 60);
    assert!(!site.has_any(&late), "there was no orphan GC");
    assert!(site.has_all(&read), "{:?} of {read:?}", site.files());
    assert_eq!(scan.by_ref().filter(|row| row.is_ok()).count(), 299);
    drop(scan);
    drop(reader);
    settle(&tree);
    assert!(!site.has_any(&read), "{:?}", site.files());
    tree.close().unwrap();
    site.check();
}

#[test]
fn what_a_job_in_progress_has_written_stays() {
    let site = Site::new(true);
    let tree = site.open(threads());
    fill(&tree);
    compact(&tree);
    let late = site.wake();
    site.executor.given_up.fetch_add(1, Ordering::Relaxed);
    tree.wait_idle().unwrap();
    // As long as it is not late itself.
    site.world.clock.advance(Duration::from_secs(50));
    fill(&tree);
    site.executor.holds.store(true, Ordering::Relaxed);
    std::thread::scope(|scope| {
        let compacting = scope.spawn(|| compact(&tree));
        until("a job", || !site.executor.held.lock().unwrap().is_empty());
        let stem = site.executor.stems.lock().unwrap()[0].clone();
        let outputs: Vec<String> = site.files().into_iter().filter(|name| name.starts_with(&stem)).collect();
        let caught = catch_unwind(AssertUnwindSafe(|| {
            assert!(!outputs.is_empty() && site.has_all(&late));
            site.world.clock.advance(Duration::from_secs(10));
            until("orphan GC", || !site.has_any(&late));
            assert!(site.has_all(&outputs), "{outputs:?}");
        }));
        let held = std::mem::take(&mut *site.executor.held.lock().unwrap());
        held.into_iter().for_each(|(finisher, result)| finisher.finish(Ok(result)));
        compacting.join().unwrap();
        caught.unwrap_or_else(|panic| resume_unwind(panic));
    });
    assert_eq!(tree.stats().jobs_passed_on_count, 0);
    tree.close().unwrap();
    site.check();
}

/// Has orphan GC come to its end before each edit that names files which are there by then.
#[test]
fn what_waits_for_its_edit_stays() {
    let mut site = Site::new(true);
    // Values are collected.
    site.world.settings.space_amplification_max = 1.05;
    let tree = site.open(threads());
    let count = Arc::new(AtomicU64::new(0));
    let (shared, executor, clock) =
        (site.shared.clone(), Arc::clone(&site.executor), Arc::clone(&site.world.clock));
    let counted = Arc::clone(&count);
    let remove = move || {
        // Each takes a minute of the clock and more, and what is answered is looked at for five.
        let thread = std::thread::current();
        if thread.name().is_some_and(|name| name.starts_with("firn-check")) {
            return;
        }
        let number = counted.fetch_add(1, Ordering::Relaxed);
        let orphan = format!("00000000-{number:08x}-000000.table");
        drop(shared.create(&orphan).unwrap());
        executor.given_up.fetch_add(1, Ordering::Relaxed);
        until("orphan GC", || {
            SystemClock::new().sleep(Duration::from_millis(20));
            clock.advance(Duration::from_secs(61));
            !shared.list().unwrap().iter().any(|(name, _)| *name == orphan)
        });
    };
    site.hook.set(remove);
    for (on, file) in [(Operation::SyncDir, "*"), (Operation::OpenRead, "*.table")] {
        let (effect, when) = (Effect::Delay(Duration::from_millis(1)), When::Always { after: 0 });
        site.faulty.inject(Fault { on, file: file.to_owned(), when, effect });
    }
    let value = |key: u32, round: u8| vec![round; if key.is_multiple_of(2) { 100 } else { 1200 }];
    for round in 0..3_u8 {
        // Separated at once, or later by a compaction.
        let separate_bytes = if round == 1 { Some(1000) } else { None };
        tree.set_separate_bytes(KEYSPACE_DEFAULT, separate_bytes).unwrap();
        let mut writer = session(&tree);
        for key in (0..120_u32).filter(|key| round == 0 || key % 3 > 0) {
            put(&mut writer, &key.to_be_bytes(), &value(key, round));
        }
        tree.flush().unwrap();
        tree.set_separate_bytes(KEYSPACE_DEFAULT, Some(1000)).unwrap();
        compact(&tree);
    }
    tree.wait_idle().unwrap();
    site.faulty.clear_faults();
    let removals = count.load(Ordering::Relaxed);
    let stats = tree.stats();
    assert!(removals > 20 && stats.orphan_remove_count >= removals, "{removals} orphans");
    assert!(stats.tree.as_ref().expect("a tree").blobs.gc_count > 0, "{stats:?}");
    let mut reader = session(&tree);
    for key in 0..120_u32 {
        let round = if key % 3 > 0 { 2 } else { 0 };
        assert_eq!(
            crate::support::world::get(&mut reader, &key.to_be_bytes()),
            Some(value(key, round)),
            "key {key}"
        );
    }
    drop(reader);
    tree.close().unwrap();
    site.check();
}

#[test]
fn whoever_has_lost_the_database_removes_nothing() {
    let site = Site::new(true);
    let tree = site.open(Background::Manual);
    fill(&tree);
    compact(&tree);
    settle(&tree);
    let late = site.wake();
    site.executor.given_up.fetch_add(1, Ordering::Relaxed);
    site.after(&tree, 0);
    // Another machine takes it over in the moment in which this one has just asked for the list.
    let storage: Arc<dyn Storage> = Arc::new(divided(&Memory::new(), Arc::new(site.shared.clone()), 8));
    let taken = Arc::new(Mutex::new(None));
    let take_over = {
        let (taken, options) = (Arc::clone(&taken), site.world.options());
        let storage = Arc::clone(&storage);
        move || {
            let second =
                Tree::open(TreeOptions { storage: Arc::clone(&storage), take_over: true, ..options.clone() });
            let second = second.unwrap();
            fill(&second);
            *taken.lock().unwrap() = Some(second);
        }
    };
    site.hook.set(take_over);
    let (effect, when) = (Effect::Delay(Duration::from_millis(1)), When::Once { after: 0 });
    site.faulty.inject(Fault { on: Operation::List, file: "*".to_owned(), when, effect });
    // What the second one has left alone is the second one's to remove.
    site.world.clock.advance(Duration::from_secs(60));
    let stepped = (0..100).map(|_| tree.step()).find(|_| taken.lock().unwrap().is_some());
    let theirs = taken.lock().unwrap().take().unwrap();
    late.iter().for_each(|name| site.create(name));
    let files = site.files();
    let error = stepped.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed, "{}", describe(&error));
    assert!(error.to_string().contains("opened on another machine"), "{}", describe(&error));
    assert_eq!(put_late(&tree), ErrorKind::Closed, "nothing is acknowledged any more");
    site.world.clock.advance(Duration::from_secs(7200));
    let _stopped = tree.step();
    let _stopped = tree.close();
    assert_eq!((site.files(), tree.stats().orphan_remove_count), (files, 0));
    compact(&theirs);
    theirs.close().unwrap();
}

fn put_late(tree: &Tree) -> ErrorKind {
    session(tree).put(KEYSPACE_DEFAULT, b"key", b"", firn_engine::WriteOptions::default()).unwrap_err().kind()
}
