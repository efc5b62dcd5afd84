//! Jobs on threads of this process.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use firn_engine::Semantics;
use firn_storage::{Priority, Spawn, Storage};

use super::Executor;
use super::caught::caught;
use super::handle::{Finisher, JobHandle, new_job};
use crate::compact::CompactRules;
use crate::error::{Error, ErrorKind, Result};
use crate::run::run;
use crate::spec::JobSpec;
use crate::write::table_form;

/// Runs jobs with [`run`] on its own threads or on the submitter's: first jobs that writers wait
/// for, then the oldest.
///
/// A job that panics, by an operator or a mistake in Firn, has failed as `Panicked`; its thread
/// goes on with the next.
///
/// Dropped, it lets running jobs end as cancelled and answers `Cancelled` for waiting ones; it does
/// not wait for its threads.
#[derive(Debug)]
pub struct Local {
    shared: Arc<Shared>,
    threads: usize,
}

#[derive(Debug)]
struct Shared {
    storage: Arc<dyn Storage>,
    semantics: Arc<Semantics>,
    queue: Mutex<Queue>,
    arrived: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<(JobSpec, Finisher)>,
    /// Controls of running jobs, one slot a thread.
    running: Vec<Option<crate::Control>>,
    is_closed: bool,
}

impl Local {
    /// Runs each job inside `submit`: for simulation, and for programs that own their threads.
    pub fn inline(storage: Arc<dyn Storage>, semantics: Arc<Semantics>) -> Self {
        let (queue, arrived) = (Mutex::default(), Condvar::new());
        Self { shared: Arc::new(Shared { storage, semantics, queue, arrived }), threads: 0 }
    }

    /// Runs jobs on `threads` threads of `spawn`'s.
    ///
    /// # Errors
    /// `Storage` if a thread cannot be started; those that were started end.
    pub fn threads(
        storage: Arc<dyn Storage>,
        semantics: Arc<Semantics>,
        spawn: &dyn Spawn,
        threads: usize,
    ) -> Result<Self> {
        Self::start(storage, semantics, (spawn, Priority::Background), threads)
    }

    /// As [`threads`](Self::threads), at [`Priority::Idle`].
    ///
    /// # Errors
    /// As there.
    pub fn idle_threads(
        storage: Arc<dyn Storage>,
        semantics: Arc<Semantics>,
        spawn: &dyn Spawn,
        threads: usize,
    ) -> Result<Self> {
        Self::start(storage, semantics, (spawn, Priority::Idle), threads)
    }

    fn start(
        storage: Arc<dyn Storage>,
        semantics: Arc<Semantics>,
        (spawn, priority): (&dyn Spawn, Priority),
        threads: usize,
    ) -> Result<Self> {
        let mut local = Self::inline(storage, semantics);
        local.threads = threads;
        local.shared.lock().running = (0..threads).map(|_| None).collect();
        for slot in 0..threads {
            let shared = Arc::clone(&local.shared);
            let work = Box::new(move || shared.work(slot));
            let name = if priority == Priority::Idle { "firn-idle" } else { "firn-job" };
            spawn.spawn(format!("{name}-{slot}"), priority, work)?;
        }
        Ok(local)
    }

    /// Jobs that wait for a thread.
    pub fn waiting_count(&self) -> usize {
        self.shared.lock().waiting.len()
    }
}

impl Executor for Local {
    fn submit(&self, spec: JobSpec) -> Result<JobHandle> {
        if let JobSpec::Compact(spec) = &spec {
            CompactRules::new(&spec.rules, &self.shared.semantics)?;
            table_form(&spec.output, &self.shared.semantics)?;
        }
        let (handle, finisher) = new_job();
        if self.threads == 0 {
            self.shared.run(spec, finisher);
            return Ok(handle);
        }
        let mut queue = self.shared.lock();
        if queue.is_closed {
            return Err(Error::new(ErrorKind::Unavailable, "the executor is shutting down"));
        }
        queue.waiting.push_back((spec, finisher));
        drop(queue);
        self.shared.arrived.notify_one();
        Ok(handle)
    }

    fn width(&self) -> Option<usize> {
        Some(self.threads.max(1))
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A thread's life: the next job until the executor is closed.
    fn work(&self, slot: usize) {
        loop {
            let mut queue = self.lock();
            if let Some(running) = queue.running.get_mut(slot) {
                *running = None;
            }
            let (spec, finisher) = loop {
                if queue.is_closed {
                    return;
                }
                match queue.take_next() {
                    Some(job) => break job,
                    None => queue = self.arrived.wait(queue).unwrap_or_else(PoisonError::into_inner),
                }
            };
            if let Some(running) = queue.running.get_mut(slot) {
                *running = Some(finisher.control().clone());
            }
            drop(queue);
            self.run(spec, finisher);
        }
    }

    fn run(&self, spec: JobSpec, finisher: Finisher) {
        let control = finisher.control().clone();
        let what = match &spec {
            JobSpec::Compact(_) => "a compaction",
            JobSpec::BlobGc(_) => "a blob GC",
        };
        finisher.finish(caught(what, || run(&spec, &*self.storage, &self.semantics, &control)));
    }
}

impl Queue {
    /// The oldest job that writers wait for, or the oldest of all.
    fn take_next(&mut self) -> Option<(JobSpec, Finisher)> {
        let l0 = self.waiting.iter().position(|(spec, _)| spec.is_l0());
        self.waiting.remove(l0.unwrap_or(0))
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        let mut queue = self.shared.lock();
        queue.is_closed = true;
        queue.running.iter().flatten().for_each(crate::Control::cancel);
        let waiting = std::mem::take(&mut queue.waiting);
        drop(queue);
        self.shared.arrived.notify_all();
        // Finishers answer for jobs that never ran; their callbacks must not find the queue locked.
        drop(waiting);
    }
}

#[cfg(test)]
mod tests {
    use firn_format::manifest::TableMeta;

    use super::*;
    use crate::blob_gc::BlobGcSpec;
    use crate::spec::{CompactSpec, JobInput};

    fn input(level: u32) -> JobInput {
        let table = TableMeta {
            file: "a.table".to_owned(),
            bytes: 1,
            file_checksum: 0,
            smallest: vec![],
            largest: vec![],
            sequence_min: Default::default(),
            sequence_max: Default::default(),
            entry_count: 1,
            tombstone_count: 0,
            range_tombstone_count: 0,
            data_bytes: 1,
            content_hash: 0,
        };
        JobInput { table, level, run: 1 }
    }

    #[test]
    fn what_writers_wait_for_goes_first() {
        let stem = |stem: &str| stem.to_owned();
        let compact = |name: &str, level| {
            CompactSpec { inputs: vec![input(level)], output_stem: stem(name), ..Default::default() }.into()
        };
        let collect = JobSpec::from(BlobGcSpec { output_stem: stem("c"), ..Default::default() });
        let specs = [compact("a", 1), collect, compact("b", 0), compact("d", 2), compact("e", 0)];
        let waiting = specs.into_iter().map(|spec: JobSpec| (spec, new_job().1)).collect();
        let mut queue = Queue { waiting, ..Queue::default() };
        let order: Vec<String> =
            std::iter::from_fn(|| queue.take_next()).map(|(spec, _)| stem(spec.output_stem())).collect();
        assert_eq!(order, ["b", "e", "a", "c", "d"]);
    }
}
