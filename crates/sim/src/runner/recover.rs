//! Closing, crashing, and what must be there afterwards.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use firn_engine::blocking::Blocking;
use firn_engine::{KEYSPACE_DEFAULT, WriteOptions};
use firn_storage::backend::Crash;

use super::{Open, Runner, Stop};
use crate::gc_counts::GcCounts;
use crate::model::{Content, Model, Moment};
use crate::ops::{KEY_COUNT, key};
use crate::sessions;
use crate::world::Knobs;

impl Runner<'_> {
    /// Closes the engine and opens it with the settings of `seed`; everything acknowledged must be
    /// there.
    pub(super) fn reopen(&mut self, seed: u64) -> Result<(), Stop> {
        self.finish()?;
        let open = self.opened()?;
        open.scans.clear();
        open.snapshots.clear();
        let closed = open.opened.engine.close();
        closed.map_err(|error| self.failed("close", &error))?;
        self.let_go();
        self.check_files("closed")?;
        self.durable = self.acknowledged;
        let drawn = Knobs::draw(seed);
        // Runs that must repeat exactly stay without threads.
        self.knobs = if self.knobs.has_threads { drawn } else { drawn.stepped() };
        self.open_engine()?;
        self.verify()
    }

    /// Crashes, opens what is left, and holds it to the promise; the run may go on from there.
    ///
    /// What is found must equal the model after some whole batch. No batch acknowledged before the
    /// crash may be left out (after power loss: none acknowledged at `Disk` or synced). The model
    /// forgets the rest.
    pub fn recover(&mut self, crash: Crash, knobs: Knobs) -> Result<(), Stop> {
        self.crash(crash);
        self.knobs = knobs;
        self.check_files(&format!("left by {crash:?}"))?;
        let during = |stop: Stop| match stop {
            Stop::Violation(what) => Stop::Violation(format!("recovery after {crash:?}: {what}")),
            Stop::Gone => Stop::Gone,
        };
        self.open_engine().map_err(during)?;
        let content = self.content().map_err(during)?;
        let floor = match crash {
            Crash::Kill => self.acknowledged,
            Crash::PowerLoss { .. } => self.durable,
        };
        let now_ms = self.now_ms();
        let mut complaint = String::new();
        for mut model in std::iter::once(self.model.clone()).chain(self.alternative.take()) {
            match prefix(&model, floor, now_ms, &content) {
                Ok(moment) => {
                    model.truncate(moment);
                    self.model = model;
                    // What power loss left is on the device; what a kill left is, where it was
                    // before (decision 0003).
                    self.acknowledged = moment;
                    self.durable = match crash {
                        Crash::Kill => self.durable.min(moment),
                        Crash::PowerLoss { .. } => moment,
                    };
                    return self.verify_copy().and_then(|()| self.verify()).map_err(during);
                }
                Err(what) => complaint.push_str(&what),
            }
        }
        Err(during(Stop::Violation(complaint)))
    }

    /// Crashes, begins to recover, and stops the machine again before operation `operation` of
    /// that.
    ///
    /// [`recover`](Self::recover) must follow; it crashes the machine again wherever it is.
    pub fn interrupt(&mut self, crash: Crash, operation: u64) -> Result<(), Stop> {
        self.crash(crash);
        if crash != Crash::Kill {
            self.acknowledged = self.durable;
        }
        self.memory.cut_at(operation);
        let opened = self.open_engine();
        self.let_go();
        match opened {
            Ok(()) | Err(Stop::Gone) => Ok(()),
            Err(Stop::Violation(what)) => Err(Stop::Violation(format!("recovery after {crash:?}: {what}"))),
        }
    }

    /// The engine and perhaps its machine are gone, and what is left is as `crash` says. A kill
    /// leaves workers elsewhere alive.
    fn crash(&mut self, crash: Crash) {
        let left = self.memory.crash(crash);
        self.let_go();
        self.memory = left;
        match crash {
            Crash::Kill => self.past.move_to(self.memory.clone()),
            Crash::PowerLoss { .. } => self.past.forget_workers(),
        }
    }

    /// Drops the engine.
    pub(super) fn let_go(&mut self) {
        let Some(open) = self.open.take() else { return };
        // What came of it is not told.
        let _finished = open.opened.finish();
        let workers = open.opened.workers.clone();
        self.past.gcs += GcCounts::of(&open.opened.engine.stats(), workers.as_deref());
        drop(open);
        // With threads, or where the machine has gone, an answer may not have been looked at yet.
        if !self.knobs.has_threads && !self.is_gone() {
            self.past.note_believed(workers.as_deref());
        }
        self.past.keep(workers);
    }

    /// The files, which are not open, are sound to another reader than the engine.
    fn check_files(&self, which: &str) -> Result<(), Stop> {
        self.past.check()?;
        let checked = self.world.check(Arc::new(self.memory.clone()));
        if self.is_gone() {
            return Ok(());
        }
        checked.map_err(|what| Stop::Violation(format!("the files {which}: {what}")))
    }

    /// Takes a copy and reads it; every second one is written to, to see that its origin does
    /// not change.
    pub(super) fn take_copy(&mut self) -> Result<(), Stop> {
        self.copy_count += 1;
        let path = PathBuf::from(format!("copy-{}", self.copy_count));
        let taken = self.opened()?.opened.engine.copy_to(&path);
        taken.map_err(|error| self.failed("copy", &error))?;
        let is_written = self.copy_count.is_multiple_of(2);
        self.read_copy(&path, &self.model.clone(), is_written)?;
        if !is_written {
            self.copy = Some((path, self.model.clone()));
        }
        Ok(())
    }

    /// A copy that was complete before a crash is complete after it.
    fn verify_copy(&mut self) -> Result<(), Stop> {
        let Some((path, model)) = self.copy.take() else { return Ok(()) };
        self.read_copy(&path, &model, false)?;
        self.copy = Some((path, model));
        Ok(())
    }

    fn read_copy(&mut self, path: &Path, model: &Model, is_written: bool) -> Result<(), Stop> {
        let failed = |error: firn_engine::Error| self.failed("a copy", &error);
        let Some(memory) = self.memory.directory(path) else {
            return Err(Stop::Violation(format!("copy {} is gone", path.display())));
        };
        let knobs = self.knobs.clone().stepped();
        let opened = self.world.open(Arc::new(memory), &knobs, self.clock.clone()).map_err(failed)?;
        let keys: Vec<Vec<u8>> = (0..KEY_COUNT).map(key).collect();
        let content = sessions::content(&opened.engine, &keys).map_err(failed)?;
        if let Some(what) = model.difference(model.end(), self.now_ms(), &content) {
            return Err(Stop::Violation(format!("copy {}: {what}", path.display())));
        }
        if is_written {
            let o = WriteOptions::default();
            let mut session = Blocking::new(opened.engine.session());
            session.put(KEYSPACE_DEFAULT, b"key", b"of the copy", o).map_err(failed)?;
            opened.engine.flush().map_err(failed)?;
            opened.engine.close().map_err(failed)?;
        }
        Ok(())
    }
}

/// The last whole batch after which the model, nothing before `floor` being left out, holds just
/// `content`.
fn prefix(model: &Model, floor: Moment, now_ms: u64, content: &Content) -> Result<Moment, String> {
    let candidates = model.boundaries().iter().rev().copied().take_while(|moment| *moment >= floor);
    for moment in candidates.clone() {
        if model.difference(moment, now_ms, content).is_none() {
            return Ok(moment);
        }
    }
    let mut text = format!("what is left is no prefix of {} batches. ", candidates.clone().count());
    for moment in candidates.clone().take(2).chain(candidates.last()) {
        let difference = model.difference(moment, now_ms, content).unwrap_or_default();
        text.push_str(&format!(
            "Against moment {moment} (floor {floor}, end {}): {difference}. ",
            model.end()
        ));
    }
    Err(text)
}

impl Drop for Open {
    fn drop(&mut self) {
        // Scans and snapshots first: an engine may wait for them.
        self.scans.clear();
        self.snapshots.clear();
    }
}
