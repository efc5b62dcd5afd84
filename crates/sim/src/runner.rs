//! Runs a script on an engine and on the model side by side.
//!
//! The first answer that differs stops the run with a [`Stop::Violation`]. When the machine under
//! the engine is gone (see [`Memory::cut_at`]) the run stops with [`Stop::Gone`];
//! [`Runner::recover`] then opens what is left and holds it to the promise.

mod ingest;
mod past;
mod read;
mod recover;
mod transact;
mod write;

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use firn_engine::conformance::semantics;
use firn_engine::{
    Completion, Durability, Error, ErrorKind, KeyspaceId, Outcome, Scan, ScanRange, Snapshot, Ticket,
};
use firn_storage::backend::{Crash, Memory};
use firn_storage::{Clock, ManualClock};

use crate::gc_counts::GcCounts;
use crate::model::{Model, Moment};
use crate::ops::{Op, SPACE_COUNT, Script, space_name, space_settings};
use crate::panicked::panic_text;
use crate::sessions::AnySession;
use crate::world::{Knobs, Opened, World};
use ingest::OpenIngestion;
use past::Past;
use transact::OpenTransaction;

/// Why a run ended before its script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The machine is gone, as planned.
    Gone,
    /// A promise was broken; in words.
    Violation(String),
}

/// Runs `body`; violations and panics as words. A machine that is gone unasked is a violation, too.
pub(crate) fn caught<T>(body: impl FnOnce() -> Result<T, Stop>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(Stop::Violation(what))) => Err(what),
        Ok(Err(Stop::Gone)) => Err("the machine is gone, but nothing stopped it".to_owned()),
        Err(panic) => Err(format!("panic: {}", panic_text(&*panic))),
    }
}

/// An engine, the model beside it, and what is open on both.
pub struct Runner<'w> {
    world: &'w dyn World,
    knobs: Knobs,
    memory: Memory,
    clock: Arc<ManualClock>,
    /// Draws how much background work runs between operations.
    rng: Rng,
    open: Option<Open>,
    model: Model,
    /// What the model would be if a change of keyspaces under way when the machine went had been
    /// done.
    alternative: Option<Model>,
    /// Everything before it was acknowledged.
    acknowledged: Moment,
    /// Everything before it survives power loss.
    durable: Moment,
    copy_count: u32,
    /// Records that were expected and that a compaction may have dropped, as often as one was
    /// missed.
    gone_count: u64,
    /// Ingestions that were finished with records.
    ingest_count: u64,
    past: Past,
    /// The last copy nothing was written to, and what it must hold.
    copy: Option<(PathBuf, Model)>,
}

/// What is gone when the engine is closed. Fields are dropped in this order.
struct Open {
    scans: BTreeMap<u8, OpenScan>,
    transactions: BTreeMap<u8, OpenTransaction>,
    ingestions: BTreeMap<u8, OpenIngestion>,
    snapshots: BTreeMap<u8, (Snapshot, Moment)>,
    session: AnySession,
    /// Completions of other tickets.
    apart: BTreeMap<Ticket, Completion>,
    opened: Opened,
}

struct OpenScan {
    scan: Box<dyn Scan>,
    space: u8,
    range: ScanRange,
    moment: Moment,
    records_max: usize,
    expected: VecDeque<(Vec<u8>, Vec<u8>)>,
    is_finished: bool,
}

/// Whether the script's clock goes on while an operation is pending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TakeTime {
    Yes,
    No,
}

/// When scripts begin, in milliseconds since the Unix epoch.
const START_MS: u64 = 1_700_000_000_000;
/// Most that the script's clock is moved at once while a slowed write waits.
const DELAY_MAX: Duration = Duration::from_millis(256);
/// How long a pending operation may take, in wall time, before it counts as forgotten.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often nothing must have happened by then: on a machine that is starved, time passes and no
/// thread gets a chance.
const ROUNDS_MIN: u32 = 1000;

impl<'w> Runner<'w> {
    /// Opens an empty database in `memory`.
    pub fn new(world: &'w dyn World, knobs: Knobs, memory: Memory, seed: u64) -> Result<Self, Stop> {
        let mut runner = Self {
            world,
            rng: Rng::with_seed(seed ^ knobs.seed.rotate_left(32)),
            knobs,
            memory,
            clock: Arc::new(ManualClock::new(START_MS)),
            open: None,
            model: Model::new(semantics()),
            alternative: None,
            acknowledged: 0,
            durable: 0,
            copy_count: 0,
            gone_count: 0,
            ingest_count: 0,
            past: Past::default(),
            copy: None,
        };
        match runner.open_engine() {
            Ok(()) | Err(Stop::Gone) => Ok(runner),
            Err(violation) => Err(violation),
        }
    }

    /// Runs every step; an engine that is gone at the end counts as [`Stop::Gone`].
    ///
    /// A violation names the step's number (from 1) and text.
    pub fn run(&mut self, script: &Script) -> Result<(), Stop> {
        for (index, op) in script.ops.iter().enumerate() {
            self.op(op).map_err(|stop| match stop {
                Stop::Violation(what) => Stop::Violation(format!("step {} `{op}`: {what}", index + 1)),
                Stop::Gone => Stop::Gone,
            })?;
        }
        if self.is_gone() { Err(Stop::Gone) } else { Ok(()) }
    }

    /// Ends the run: the GCs in its course.
    pub fn end(mut self) -> Result<GcCounts, Stop> {
        self.let_go();
        self.past.check().map(|()| self.past.gcs)
    }

    /// The storage the engine lies in.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    fn op(&mut self, op: &Op) -> Result<(), Stop> {
        if self.open.is_none() {
            return Err(Stop::Gone);
        }
        let begun_ms = self.now_ms();
        self.past.go_on();
        if op.needs_order() && !self.keeps_order()? {
            return Ok(());
        }
        match op {
            Op::Create(space) => self.create(*space)?,
            Op::Drop(space) => self.drop_space(*space)?,
            Op::Write { parts, single, disk } => self.write(parts, *single, *disk)?,
            Op::Update { space, key, kind, seed } => self.update(*space, *key, *kind, *seed)?,
            Op::Get { at, space, key } => self.get(*at, *space, *key)?,
            Op::MultiGet { at, space, keys } => self.multi_get(*at, *space, keys)?,
            Op::Scan { at, visit } => self.scan(*at, *visit)?,
            Op::IterOpen { slot, at, visit } => self.scan_open(*slot, *at, *visit)?,
            Op::IterNext(slot) => self.scan_next(*slot)?,
            Op::IterTurn(slot) => self.scan_turn(*slot)?,
            Op::IterClose(slot) => drop(self.opened()?.scans.remove(slot)),
            Op::SnapshotOpen(slot) => self.snapshot_open(*slot)?,
            Op::SnapshotClose(slot) => drop(self.opened()?.snapshots.remove(slot)),
            Op::TransactionBegin(slot) => self.transaction_begin(*slot)?,
            Op::TransactionGet { slot, space, key } => self.transaction_get(*slot, *space, *key)?,
            Op::TransactionScan { slot, visit } => self.transaction_scan(*slot, *visit)?,
            Op::TransactionCommit { slot, parts, disk } => self.transaction_commit(*slot, parts, *disk)?,
            Op::IngestBegin { slot, space, records } => self.ingest_begin(*slot, *space, records)?,
            Op::IngestFinish(slot) => self.ingest_finish(*slot)?,
            Op::IngestDrop(slot) => drop(self.opened()?.ingestions.remove(slot)),
            Op::Verify => self.verify()?,
            Op::CopyDatabase => self.take_copy()?,
            Op::Flush => self.maintain("flush", |open| open.opened.engine.flush())?,
            Op::Sync => self.maintain("sync", |open| open.opened.engine.sync().map(|_| ()))?,
            Op::Idle => self.maintain("wait_idle", |open| open.opened.engine.wait_idle())?,
            Op::Compact { space, start, end } => self.compact(*space, *start, *end)?,
            Op::Separate { space, bytes } => self.separate(*space, *bytes)?,
            Op::Reopen(seed) => self.reopen(*seed)?,
            Op::Kill => self.recover(Crash::Kill, self.knobs.clone())?,
            Op::PowerLoss(seed) => self.recover(Crash::PowerLoss { seed: *seed }, self.knobs.clone())?,
            Op::Step(count) => self.steps(*count)?,
            Op::Advance(ms) => self.clock.advance(Duration::from_millis(u64::from(*ms))),
        }
        if self.now_ms() != begun_ms {
            // Whether an open scan looks at the clock again is the engine's choice.
            self.opened()?.scans.clear();
        }
        let steps = self.rng.u32(0..=self.knobs.steps_max);
        self.steps(steps)
    }

    /// Whether the engine offers what scripts ask of order; those steps are left out otherwise.
    fn keeps_order(&mut self) -> Result<bool, Stop> {
        Ok(self.opened()?.session.ordered().is_some())
    }

    fn opened(&mut self) -> Result<&mut Open, Stop> {
        self.open.as_mut().ok_or(Stop::Gone)
    }

    fn steps(&mut self, count: u32) -> Result<(), Stop> {
        for _ in 0..count {
            let stepped = (self.opened()?.opened.step)();
            match stepped {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => return Err(self.failed("background work", &error)),
            }
        }
        Ok(())
    }

    /// Ends background work that is in the middle of a job: what comes waits for it.
    fn finish(&mut self) -> Result<(), Stop> {
        let finished = self.opened()?.opened.finish();
        finished.map_err(|error| self.failed("background work", &error))
    }

    fn is_gone(&self) -> bool {
        self.memory.cut_operation().is_some()
    }

    /// What an error of the engine means for the run.
    fn failed(&self, what: &str, error: &Error) -> Stop {
        if self.is_gone() {
            Stop::Gone
        } else {
            Stop::Violation(format!("{what} failed: {error} ({error:?})"))
        }
    }

    fn now_ms(&self) -> u64 {
        self.clock.unix_ms()
    }

    fn open_engine(&mut self) -> Result<(), Stop> {
        let storage = Arc::new(self.memory.clone());
        match self.world.open(storage, &self.knobs, self.clock.clone()) {
            Ok(opened) => {
                let mut session = AnySession::of(&opened.engine);
                session.set_inline(self.knobs.seed % 2 == 1);
                self.open = Some(Open {
                    scans: BTreeMap::new(),
                    transactions: BTreeMap::new(),
                    ingestions: BTreeMap::new(),
                    snapshots: BTreeMap::new(),
                    session,
                    apart: BTreeMap::new(),
                    opened,
                });
                Ok(())
            }
            Err(error) => Err(self.failed("open", &error)),
        }
    }

    /// The keyspace on both sides: (the engine's, the model's); `None` if there is none.
    fn space(&mut self, space: u8) -> Result<Option<(KeyspaceId, KeyspaceId)>, Stop> {
        let name = space_name(space);
        let modelled = self.model.keyspace(name);
        let found = self.opened()?.opened.engine.keyspace(name);
        match (found, modelled) {
            (Some(found), Some(modelled)) => Ok(Some((found, modelled))),
            (None, None) => Ok(None),
            (found, _) => {
                Err(Stop::Violation(format!("keyspace {name} is {found:?}, the model has {modelled:?}")))
            }
        }
    }

    fn create(&mut self, space: u8) -> Result<(), Stop> {
        let (name, settings) = (space_name(space), space_settings(space));
        let created = self.opened()?.opened.engine.create_keyspace(name, settings.clone());
        let mut model = self.model.clone();
        let expected = model.create_keyspace(name, &settings);
        self.changed("create_keyspace", created.map(|_| ()), expected.map(|_| ()), model)
    }

    fn drop_space(&mut self, space: u8) -> Result<(), Stop> {
        let Some((id, modelled)) = self.space(space)? else { return Ok(()) };
        self.opened()?.scans.retain(|_, scan| scan.space != space % SPACE_COUNT);
        let dropped = self.opened()?.opened.engine.drop_keyspace(id);
        let mut model = self.model.clone();
        let expected = model.drop_keyspace(modelled);
        self.changed("drop_keyspace", dropped, expected, model)
    }

    /// Takes over a change of keyspaces that both sides did or both refused.
    fn changed(
        &mut self,
        what: &str,
        found: firn_engine::Result<()>,
        expected: firn_engine::Result<()>,
        model: Model,
    ) -> Result<(), Stop> {
        match (found, expected) {
            (Ok(()), Ok(())) => {
                self.model = model;
                Ok(())
            }
            (Err(found), Err(expected)) if found.kind() == expected.kind() => Ok(()),
            (Err(error), Ok(())) => {
                self.alternative = Some(model);
                Err(self.failed(what, &error))
            }
            (found, expected) => Err(Stop::Violation(format!("{what}: {found:?}, expected {expected:?}"))),
        }
    }

    /// A call that changes no answer; all but waiting make everything acknowledged durable.
    fn maintain(
        &mut self,
        what: &str,
        call: impl FnOnce(&mut Open) -> firn_engine::Result<()>,
    ) -> Result<(), Stop> {
        let done = call(self.opened()?);
        done.map_err(|error| self.failed(what, &error))?;
        if what != "wait_idle" {
            self.durable = self.acknowledged;
        }
        Ok(())
    }

    fn separate(&mut self, space: u8, bytes: u32) -> Result<(), Stop> {
        let Some((id, _)) = self.space(space)? else { return Ok(()) };
        let bytes = (bytes > 0).then_some(bytes);
        let done = self.opened()?.opened.engine.set_separate_bytes(id, bytes);
        done.map_err(|error| self.failed("set_separate_bytes", &error))
    }

    fn compact(&mut self, space: u8, start: Option<u16>, end: Option<u16>) -> Result<(), Stop> {
        let Some((id, _)) = self.space(space)? else { return Ok(()) };
        let start = start.map(crate::ops::key).unwrap_or_default();
        let end = end.map(crate::ops::key);
        if end.as_ref().is_some_and(|end| *end <= start) {
            return Ok(());
        }
        let Some(ordered) = Arc::clone(&self.opened()?.opened.engine).ordered() else { return Ok(()) };
        self.finish()?;
        let compacted = ordered.compact_range(id, &start, end.as_deref());
        drop(ordered);
        compacted.map_err(|error| self.failed("compact_range", &error))
    }

    /// The result of an operation, waited for if it is pending.
    ///
    /// The outer error stops the run; the inner one is the operation's. Writes may take time on the
    /// script's clock (they may be slowed); while a read waits the clock stands still, so that
    /// nothing expires meanwhile.
    fn settle<T>(
        &mut self,
        outcome: firn_engine::Result<Outcome<T>>,
        take_time: TakeTime,
        take: impl FnOnce(Completion) -> Option<T>,
    ) -> Result<firn_engine::Result<T>, Stop> {
        let ticket = match outcome {
            Ok(Outcome::Done(result)) => return Ok(Ok(result)),
            Ok(Outcome::Pending(ticket)) => ticket,
            Err(error) => return Ok(Err(error)),
        };
        match self.wait_for(ticket, take_time) {
            // As if the operation had failed with it: what it wrote may be there, or not.
            Err(Stop::Gone) => Ok(Err(Error::new(ErrorKind::Closed, "the machine is gone"))),
            Err(stop) => Err(stop),
            Ok(Completion::Failed(error)) => Ok(Err(error)),
            Ok(completion) => {
                let kind = kind_of(&completion);
                match take(completion) {
                    Some(result) => Ok(Ok(result)),
                    None => Err(Stop::Violation(format!("completed as {kind}"))),
                }
            }
        }
    }

    fn wait_for(&mut self, ticket: Ticket, take_time: TakeTime) -> Result<Completion, Stop> {
        #[expect(
            clippy::disallowed_methods,
            reason = "patience is wall time: a stuck engine must not stop a run"
        )]
        let now = std::time::Instant::now;
        let give_up = now() + PATIENCE;
        let mut delay = Duration::from_millis(1);
        let mut rounds = 0;
        loop {
            if let Some(completion) = self.opened()?.apart.remove(&ticket) {
                return Ok(completion);
            }
            if self.collect()? > 0 {
                continue;
            }
            let stepped = (self.opened()?.opened.step)();
            if let Err(error) = &stepped {
                let stop = format!("background work failed: {error} ({error:?})");
                return Err(if self.is_gone() { Stop::Gone } else { Stop::Violation(stop) });
            }
            if matches!(stepped, Ok(true)) {
                continue;
            }
            let pause = if self.knobs.has_threads { Duration::from_millis(1) } else { Duration::ZERO };
            // A session may be woken for nothing.
            if self.opened()?.session.wait(Some(now() + pause)) && self.collect()? > 0 {
                continue;
            }
            if take_time == TakeTime::Yes {
                self.clock.advance(delay);
                delay = (delay * 2).min(DELAY_MAX);
            }
            rounds += 1;
            if rounds > ROUNDS_MIN && now() > give_up {
                return Err(Stop::Violation(format!("{ticket:?} was not completed in {PATIENCE:?}")));
            }
        }
    }

    /// Puts what is completed apart; how much that is.
    fn collect(&mut self) -> Result<usize, Stop> {
        let open = self.opened()?;
        let apart = &mut open.apart;
        let mut twin = None;
        let count = open.session.poll(&mut |other, completion| {
            if apart.insert(other, completion).is_some() {
                twin = Some(other);
            }
        });
        match twin {
            Some(twin) => Err(Stop::Violation(format!("{twin:?} completed twice"))),
            None => Ok(count),
        }
    }

    fn is_disk(&self, disk: bool) -> bool {
        disk || self.knobs.durability >= Durability::Disk
    }
}

/// What has completed, in words; the values may be long.
fn kind_of(completion: &Completion) -> &'static str {
    match completion {
        Completion::Written(_) => "a write",
        Completion::Modified(..) => "a named change",
        Completion::Value(_) => "a read",
        Completion::Values(_) => "a read of several",
        Completion::Scanned(_) => "a scan",
        Completion::ScannedByHash(_) => "a scan by hash",
        Completion::Locked(_) => "a lock",
        Completion::Failed(_) => "a failure",
    }
}

impl std::fmt::Debug for Runner<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runner")
            .field("world", &self.world)
            .field("knobs", &self.knobs)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
