//! Executors that refuse, fail, vanish, are slow, or lie, and a chain around them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use firn_format::manifest::TableMeta;
use firn_jobs::{
    Cause, ChainStatus, Error, ErrorKind, Executor, ExecutorChain, Finisher, JobHandle, JobResult, JobSpec,
    Local, Patience, is_output_of, new_job, verify, verify_files,
};
use firn_storage::{Clock, Storage, SystemClock, ThreadSpawn};

use crate::asked_clock::AskedClock;
use crate::world::{Mix, World, semantics};

pub(crate) const MIX: Mix = Mix { operations: 200, merges: true, filter: true, older: true };

pub(crate) const PATIENCE: Patience = Patience {
    least: Duration::from_secs(5),
    bytes_per_second: 1 << 40,
    sync_max: Duration::from_secs(20),
    check_max: Duration::from_secs(100),
    deep_bytes_per_second: 1 << 40,
    wait_max: Duration::from_secs(60),
    stall_near: Duration::from_secs(10),
    begin_max: Duration::from_secs(1),
    reexecuted_share: 0.0,
};

/// What becomes of a job.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Way {
    Serve,
    Refuse,
    /// It panics as it is asked, whatever for.
    Panic,
    /// No executor is there.
    Away,
    /// Filters of compactions are lacking.
    Lack,
    Fail,
    /// It says that an input is damaged.
    Accuse,
    /// Done, and said to be something else.
    Lie,
    /// Half of it is written and the answer says so.
    Half,
    /// Done without the filter, and the sums say so.
    Stray,
    /// Done, and one byte of the first table's first block is another one.
    Spoil,
    /// Done, and never answered; dropped with the executor.
    Vanish,
}

#[derive(Debug)]
pub(crate) struct Elsewhere {
    inner: Local,
    storage: Arc<dyn Storage>,
    way: Mutex<Way>,
    count: AtomicUsize,
    width: Option<usize>,
    pub(crate) kept: Mutex<Vec<(Finisher, JobResult)>>,
}

impl Elsewhere {
    /// An executor that works on `storage`.
    pub(crate) fn new(storage: &Arc<dyn Storage>, way: Way) -> Arc<Self> {
        Self::of_width(storage, way, 5)
    }

    /// An executor that says that it does `width` jobs at a time, or does not say.
    pub(crate) fn of_width(
        storage: &Arc<dyn Storage>,
        way: Way,
        width: impl Into<Option<usize>>,
    ) -> Arc<Self> {
        let width = width.into();
        let inner = Local::inline(Arc::clone(storage), Arc::new(semantics()));
        let (count, kept) = (AtomicUsize::new(0), Mutex::default());
        Arc::new(Self { inner, storage: Arc::clone(storage), way: Mutex::new(way), count, width, kept })
    }

    pub(crate) fn go(&self, way: Way) {
        *self.way.lock().unwrap() = way;
    }
}

impl Executor for Elsewhere {
    fn submit(&self, spec: JobSpec) -> firn_jobs::Result<JobHandle> {
        self.count.fetch_add(1, Ordering::SeqCst);
        let way = *self.way.lock().unwrap();
        match way {
            Way::Refuse => return Err(Error::new(ErrorKind::Rejected, "closed on sundays")),
            Way::Panic => panic!("that cannot be"),
            Way::Away => return Err(Error::new(ErrorKind::Unavailable, "nobody is there")),
            Way::Lack if !spec.needs().is_empty() => {
                return Err(Error::new(ErrorKind::Rejected, "no such filter"));
            }
            _ => {}
        }
        let (handle, finisher) = new_job();
        let spec = match (way, spec) {
            (Way::Stray, JobSpec::Compact(mut spec)) => {
                spec.rules.compaction_filter = None;
                JobSpec::Compact(spec)
            }
            (_, spec) => spec,
        };
        let mut result = self.inner.submit(spec)?.wait()?;
        match way {
            Way::Fail => {
                finisher.finish(Err(Error::new(ErrorKind::Invalid, "the worker is confused")));
                return Ok(handle);
            }
            Way::Accuse => {
                finisher.finish(Err(Error::new(ErrorKind::Corrupt, "a file is damaged")));
                return Ok(handle);
            }
            Way::Vanish => {
                self.kept.lock().unwrap().push((finisher, result));
                return Ok(handle);
            }
            Way::Lie => tables_mut(&mut result)[0].content_hash ^= 1,
            Way::Half => drop(tables_mut(&mut result).pop()),
            Way::Spoil => {
                let file = self.storage.open_write(&tables(&result)[0].file).unwrap();
                file.write_at(20, b"!").unwrap();
            }
            Way::Serve | Way::Refuse | Way::Panic | Way::Away | Way::Lack | Way::Stray => {}
        }
        finisher.finish(Ok(result));
        Ok(handle)
    }

    fn width(&self) -> Option<usize> {
        assert!(
            !matches!(*self.way.lock().unwrap_or_else(PoisonError::into_inner), Way::Panic),
            "nobody counts"
        );
        self.width
    }
}

pub(crate) fn tables(result: &JobResult) -> &[TableMeta] {
    match result {
        JobResult::Compact(result) => &result.tables,
        JobResult::BlobGc(_) => panic!("a compaction"),
    }
}

pub(crate) fn tables_mut(result: &mut JobResult) -> &mut Vec<TableMeta> {
    match result {
        JobResult::Compact(result) => &mut result.tables,
        JobResult::BlobGc(_) => panic!("a compaction"),
    }
}

/// Waits for `done`; fails if that takes half a minute.
pub(crate) fn until(what: &str, done: impl Fn() -> bool) {
    let clock = SystemClock::new();
    while !done() {
        assert!(clock.now() < Duration::from_secs(30), "{what}: not in half a minute");
        std::thread::yield_now();
    }
}

/// Why jobs were done here, and how many for each reason.
pub(crate) fn causes(status: &ChainStatus) -> Vec<(Cause, u64)> {
    status.by_cause().into_iter().filter(|(_, count)| *count > 0).collect()
}

/// What `handle` says in the end.
pub(crate) fn answer(handle: &JobHandle) -> firn_jobs::Result<JobResult> {
    until("an answer", || handle.poll().is_some());
    handle.wait()
}

/// A world, an executor that goes its way, and a chain around it and a faultless second one.
pub(crate) struct Scene {
    pub(crate) world: World,
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) clock: Arc<AskedClock>,
    pub(crate) elsewhere: Arc<Elsewhere>,
    pub(crate) spawn: ThreadSpawn,
}

impl Scene {
    pub(crate) fn new(way: Way) -> Self {
        let world = World::new(11, MIX);
        let storage: Arc<dyn Storage> = Arc::new(world.storage.clone());
        let elsewhere = Elsewhere::new(&storage, way);
        Self { world, storage, clock: Arc::new(AskedClock::new()), elsewhere, spawn: ThreadSpawn::new() }
    }

    pub(crate) fn chain(&self, is_inline: bool) -> ExecutorChain {
        self.chain_with(is_inline, PATIENCE)
    }

    pub(crate) fn chain_with(&self, is_inline: bool, patience: Patience) -> ExecutorChain {
        let (storage, semantics) = (Arc::clone(&self.storage), Arc::new(semantics()));
        let first: Arc<dyn Executor> = Arc::clone(&self.elsewhere) as _;
        let clock = Arc::clone(&self.clock) as _;
        if is_inline {
            let second: Arc<dyn Executor> = Arc::new(Local::inline(Arc::clone(&storage), semantics));
            return ExecutorChain::inline([first, second], storage, clock, patience, 1);
        }
        let second = Local::threads(Arc::clone(&storage), semantics, &self.spawn, 1).unwrap();
        ExecutorChain::threads([first, Arc::new(second)], storage, clock, patience, 1, &self.spawn).unwrap()
    }

    /// Waits until the thread that watches over jobs has looked from now on, and has gone on with
    /// what it found. It looks only while some job has no answer.
    pub(crate) fn let_it_look(&self) {
        let pause = |ms| SystemClock::new().sleep(Duration::from_millis(ms));
        // It may be going on with something now. From one look to the next that finds nothing new
        // are 20 ms.
        for _ in 0..3 {
            let before = self.clock.asked_count();
            until("a look", || {
                pause(1);
                self.clock.asked_count() > before
            });
            pause(20);
        }
    }

    pub(crate) fn spec(&self, stem: &str) -> JobSpec {
        self.world.job(stem)
    }

    /// The result is right, and nothing but it is left by the job called `stem` soon.
    pub(crate) fn accept(&self, stem: &str, result: &JobResult) {
        verify(&self.spec(stem), result).unwrap();
        verify_files(&*self.storage, &self.spec(stem), result).unwrap();
        let names: Vec<_> = tables(result).iter().map(|table| table.file.clone()).collect();
        self.leaves(stem, &names);
    }

    /// Nothing but the files called `names` is left by the job called `stem` soon: the answer does
    /// not wait for the removal of the rest.
    pub(crate) fn leaves(&self, stem: &str, names: &[String]) {
        until(&format!("nothing but {names:?} of {stem}"), || self.files(stem) == names);
    }

    pub(crate) fn files(&self, stem: &str) -> Vec<String> {
        let names = self.storage.list().unwrap().into_iter().map(|(name, _)| name);
        names.filter(|name| is_output_of(name, stem)).collect()
    }

    /// Whether the job with this number that was kept was asked to stop.
    pub(crate) fn is_cancelled(&self, number: usize) -> bool {
        self.elsewhere.kept.lock().unwrap()[number].0.control().is_cancelled()
    }

    pub(crate) fn go(&self, way: Way) {
        self.elsewhere.go(way);
    }

    pub(crate) fn asked(&self) -> usize {
        self.elsewhere.count.load(Ordering::SeqCst)
    }
}
