//! All of a key range rewritten piece by piece, by as many executors as there are.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use firn_engine::{Engine, ErrorKind, KEYSPACE_DEFAULT, Ordered};
use firn_jobs::{Executor, Finisher, JobHandle, JobSpec, Local, new_job};
use firn_storage::backend::{Crash, Effect, Fault, Faulty, Operation, When};
use firn_storage::{Clock, SystemClock};
use firn_tree::{Background, Settings, Tree, TreeOptions};

use crate::support::in_time::{in_time, until};
use crate::support::world::{World, get, put, session, settle, threads, tiny};

/// Many tables of the last level, and little enough above.
pub(crate) fn settings() -> Settings {
    Settings { space_amplification_max: 100.0, ..tiny() }.with_engine(|tree| {
        tree.table_bytes = 64 << 10;
        tree.level0_runs_max = 100;
    })
}

const KEYS: u32 = 4000;

/// Every key, with `value` in it: in rising order, so that tables of one flush are apart.
pub(crate) fn fill(tree: &Tree, value: u8) {
    let mut session = session(tree);
    for key in 0..KEYS {
        put(&mut session, &key.to_be_bytes(), &[value; 500]);
    }
    tree.flush().unwrap();
}

/// A closed database whose last level has every key, and level 0 too, newer.
fn filled() -> World {
    let world = World::new(settings());
    let tree = world.open().unwrap();
    fill(&tree, 1);
    settle(&tree);
    fill(&tree, 2);
    tree.close().unwrap();
    drop(tree);
    world
}

pub(crate) fn holds(tree: &Tree, value: u8) {
    let mut session = session(tree);
    for key in 0..KEYS {
        assert_eq!(get(&mut session, &key.to_be_bytes()).as_deref(), Some(&[value; 500][..]), "key {key}");
    }
}

fn begin<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    #[expect(clippy::disallowed_methods, reason = "a thread that may never end cannot be scoped")]
    std::thread::spawn(work)
}

/// Files of tables, and those of them that the database has.
fn tables(world: &World, tree: &Tree) -> (u64, u64) {
    settle(tree);
    let files = firn_storage::Storage::list(&world.storage).unwrap();
    (
        files.iter().filter(|(name, _)| name.ends_with(".table")).count() as u64,
        tree.stats().tree.expect("a tree").table_count,
    )
}

/// Does jobs on command, oldest first, and says how wide it is, or does not.
#[derive(Debug)]
pub(crate) struct Slow {
    inner: Local,
    width: Option<usize>,
    pub(crate) waiting: Mutex<Vec<(JobSpec, Finisher)>>,
    /// Jobs that were given to it.
    asked: AtomicUsize,
    /// Jobs that may be done.
    allowed: AtomicUsize,
    /// The latest waiting job is done, and not the oldest.
    is_latest_first: AtomicBool,
}

impl Slow {
    pub(crate) fn open(world: &World, width: Option<usize>) -> (Arc<Self>, Arc<Tree>) {
        let options = world.options();
        let inner = Local::inline(Arc::clone(&options.storage), Arc::new(options.semantics.clone()));
        let (waiting, asked, allowed, is_latest_first) = Default::default();
        let slow = Arc::new(Self { inner, width, waiting, asked, allowed, is_latest_first });
        let executor: Option<Arc<dyn Executor>> = Some(Arc::clone(&slow) as _);
        let tree = Tree::open(TreeOptions { executor, background: threads(), ..options }).unwrap();
        (slow, tree)
    }

    pub(crate) fn allow(&self, count: usize) {
        self.allowed.fetch_add(count, Ordering::SeqCst);
        self.go_on();
    }

    fn go_on(&self) {
        loop {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            let cancelled = waiting.iter().position(|(_, finisher)| finisher.control().is_cancelled());
            let next = cancelled.or_else(|| {
                let allow = |left: usize| left.checked_sub(1);
                let is_next = !waiting.is_empty();
                (is_next && self.allowed.fetch_update(Ordering::SeqCst, Ordering::SeqCst, allow).is_ok())
                    .then(|| if self.is_latest_first.load(Ordering::SeqCst) { waiting.len() - 1 } else { 0 })
            });
            let Some(next) = next else { return };
            let (spec, finisher) = waiting.remove(next);
            drop(waiting);
            if cancelled.is_none() {
                finisher.finish(self.inner.submit(spec).and_then(|handle| handle.wait()));
            }
        }
    }
}

impl Executor for Slow {
    fn submit(&self, spec: JobSpec) -> firn_jobs::Result<JobHandle> {
        let (handle, finisher) = new_job();
        self.waiting.lock().unwrap().push((spec, finisher));
        self.asked.fetch_add(1, Ordering::SeqCst);
        self.go_on();
        Ok(handle)
    }

    fn width(&self) -> Option<usize> {
        self.width
    }
}

#[test]
fn a_range_is_rewritten_by_as_many_as_there_are_and_what_is_done_stays_done() {
    let world = filled();
    let (slow, tree) = Slow::open(&world, Some(6));
    let before = tree.stats().keyspaces[0].tree.as_ref().expect("a tree").levels.clone();
    let compacting = Arc::clone(&tree);
    let compaction = begin(move || compacting.compact_range(KEYSPACE_DEFAULT, b"", None));
    until("as many jobs as there are executors", || slow.asked.load(Ordering::SeqCst) >= 6);
    SystemClock::new().sleep(Duration::from_millis(50));
    let at_first = slow.asked.load(Ordering::SeqCst);
    assert_eq!(tree.stats().tree.expect("a tree").compaction_count, 0);
    // The first piece is there before the others are, of which some stay undone, however late it is
    // committed.
    let is_one_done = || tree.stats().tree.expect("a tree").compaction_count > 0;
    let mut allowed = 1;
    while allowed < at_first && !is_one_done() {
        slow.allow(1);
        allowed += 1;
        (0..100)
            .take_while(|_| !is_one_done())
            .for_each(|_| SystemClock::new().sleep(Duration::from_millis(1)));
    }
    until("the first piece", is_one_done);
    let done = tree.stats().tree.expect("a tree").compaction_count;
    let after = tree.stats().keyspaces[0].tree.as_ref().expect("a tree").levels.clone();
    assert!(after[0].1 < before[0].1 && after[0].1 > 0, "a part of level 0 is gone: {before:?}, {after:?}");
    holds(&tree, 2);
    // An opening after a crash now finds it done, and nothing of the others.
    let found = world.crash(Crash::Kill);
    let next = found.open().unwrap();
    holds(&next, 2);
    let found_above = next.stats().keyspaces[0].tree.as_ref().expect("a tree").levels[0].1;
    assert!(found_above <= after[0].1 && after[0].1 < before[0].1, "{found_above}");
    let (files, live) = tables(&found, &next);
    assert_eq!(files, live);
    drop(next);
    let allowing = Arc::clone(&slow);
    slow.allow(1000);
    in_time("the rest", move || compaction.join().unwrap().unwrap());
    drop(allowing);
    assert!(slow.asked.load(Ordering::SeqCst) > at_first, "not all of them at once");
    let stats = tree.stats();
    assert!(
        stats.tree.as_ref().expect("a tree").compaction_count > done + 1,
        "{} after {done}",
        stats.tree.as_ref().expect("a tree").compaction_count
    );
    assert_eq!(
        (stats.keyspaces[0].tree.as_ref().expect("a tree").levels[0].0, stats.jobs_passed_on_count),
        (0, 0)
    );
    holds(&tree, 2);
    let (files, live) = tables(&world, &tree);
    assert_eq!(files, live);
}

#[test]
fn pieces_that_were_done_after_one_that_was_not_leave_nothing() {
    let world = filled();
    let (slow, tree) = Slow::open(&world, Some(8));
    let live = tree.stats().tree.expect("a tree").table_count;
    let compacting = Arc::clone(&tree);
    let compaction = begin(move || compacting.compact_range(KEYSPACE_DEFAULT, b"", None));
    until("as many jobs as there are executors", || slow.asked.load(Ordering::SeqCst) >= 8);
    slow.is_latest_first.store(true, Ordering::SeqCst);
    let all_but_one = slow.waiting.lock().unwrap().len() - 1;
    slow.allow(all_but_one);
    assert_eq!(tree.stats().tree.expect("a tree").compaction_count, 0, "the first piece is not done");
    let closing = Arc::clone(&tree);
    let close = begin(move || closing.close().unwrap());
    // Jobs that the close cancels are let go of, too, where it ends amid this.
    until("the close", || {
        slow.go_on();
        close.is_finished() && compaction.is_finished()
    });
    let error = compaction.join().unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed, "{error:?}");
    let files = firn_storage::Storage::list(&world.storage).unwrap();
    let tables = files.iter().filter(|(name, _)| name.ends_with(".table")).count() as u64;
    assert_eq!(tables, live, "{files:?}");
    drop(tree);
    holds(&world.open().unwrap(), 2);
}

#[test]
fn a_full_disk_costs_the_pieces_that_were_not_done() {
    let world = World::new(settings());
    let faulty = Faulty::new(Arc::new(world.storage.clone()));
    let tree = world.open_on(Arc::new(faulty.clone()), Background::Manual);
    fill(&tree, 1);
    settle(&tree);
    fill(&tree, 2);
    let before = tree.stats();
    let full = Fault {
        on: Operation::Write,
        file: "*.table".to_owned(),
        when: When::Always { after: 12 },
        effect: Effect::Fail(firn_storage::ErrorKind::Full),
    };
    faulty.inject(full);
    let error = tree.compact_range(KEYSPACE_DEFAULT, b"", None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Retry, "{error:?}");
    let half = tree.stats();
    let level0 = |stats: &firn_engine::Stats| stats.keyspaces[0].tree.as_ref().expect("a tree").levels[0].1;
    assert!(
        half.tree.as_ref().expect("a tree").compaction_count > 0 && level0(&half) > 0,
        "{}",
        half.tree.as_ref().expect("a tree").compaction_count
    );
    assert!(level0(&half) < level0(&before));
    holds(&tree, 2);
    let (files, live) = tables(&world, &tree);
    assert_eq!(files, live, "nothing is left of what was not done");
    faulty.clear_faults();
    tree.compact_range(KEYSPACE_DEFAULT, b"", None).unwrap();
    assert_eq!(level0(&tree.stats()), 0);
    holds(&tree, 2);
    tree.close().unwrap();
    holds(&world.open().unwrap(), 2);
}
