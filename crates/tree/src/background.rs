//! Background work: what there is to do, which thread does it, and waiting for it.
//!
//! Every unit is chosen under one lock, from the current version and what is already being worked
//! on. It runs without the lock and commits by itself. With threads, each loops over choose and
//! run; without (deterministic tests), the owner calls [`Database::step`].

mod bury;
mod busy;
mod compactions;
mod elsewhere;
mod drains;
mod failure; // retried, set aside or poisoned
mod hiding;
mod reclaim;
mod repack;
mod rest;
mod set_aside;
mod sweep;
mod wait;

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use busy::Busy;
pub(crate) use compactions::FAR_BEHIND;
pub(crate) use failure::Work;
use firn_engine::{Error, ErrorKind, Result};
use firn_format::Position;
use firn_format::value::SegmentNumber;
use firn_jobs::caught;
pub(crate) use firn_maintenance::{Answer, answer_to};
use firn_storage::{Priority, Spawn};
pub(crate) use hiding::Probe;
pub(crate) use rest::Rest;
pub(crate) use set_aside::Unavailable;
pub(crate) use sweep::{Orphans, Sweeps};

use crate::buffer::Run;
use crate::buffer::drain::Drain;
use crate::buffer::pick::pick_merge;
use crate::compact::pick::Choice;
use crate::compact::small::OfKeyspace;
use crate::database::Database;
use crate::error::from_storage;
use crate::values::SEALED_AT_ONCE_MAX;
use crate::version::Version;

/// One unit of background work.
#[derive(Debug)]
pub(crate) enum Task {
    /// The oldest frozen memtable of each of these becomes a run; at least one.
    Freeze { keyspaces: Vec<u32> },
    /// Runs of a keyspace, adjacent in age, become one; by the starts of their spans, newest first.
    Merge { keyspace: u32, runs: Vec<Position> },
    /// The oldest runs of a keyspace become tables; newest first.
    Drain { keyspace: u32, runs: Vec<Position> },
    /// The runs of several keyspaces that hold little become tables; newest first.
    DrainSmall { drains: Vec<(u32, Vec<Position>)> },
    /// One key range of a drain that another thread began.
    DrainPart { drain: Arc<Drain>, part: usize },
    /// Tables are rewritten or moved.
    Compact { keyspace: u32, choice: Choice },
    /// Tables of several keyspaces that hold little are rewritten or moved, in one edit.
    CompactSmall { choices: Vec<OfKeyspace> },
    /// Tables of a keyspace that range tombstones hide are removed.
    Reclaim { keyspace: u32 },
    /// The device is asked to begin writing values, so that sealing waits less.
    WriteBackValues,
    /// Tables that lie in shared files, most of which is dead, are copied to a new one.
    Repack { tables: Vec<repack::Moving> },
    /// Value segments that take nothing more are sealed.
    SealValues,
    /// What the buffer of a keyspace hides is brought to light: its memtable is frozen, or all is
    /// drained through there.
    Expose { keyspace: u32, through: Position },
    /// What lives in value segments goes to a new one.
    Collect { victims: Vec<SegmentNumber> },
    /// Files that nothing refers to are removed.
    Bury,
    /// Outputs that nothing waits for are looked for and removed.
    Sweep,
    /// What was put on shared storage in many groups is put there in few.
    Regroup,
    /// The cache makes room for what will be written next.
    Balance,
    /// The log gives up what no record needs, and at rest what it holds is drained.
    ShortenLog,
    /// What dead segments and tables left, and no new file took in a while, goes back to the
    /// system.
    GiveUpSpares,
}

/// What is being worked on, and what was asked for.
#[derive(Debug)]
pub(crate) struct Schedule {
    state: Mutex<Busy>,
    work: Condvar,
    idle: Condvar,
    manual: bool,
}

impl Schedule {
    pub(crate) fn new(manual: bool) -> Self {
        Self { state: Mutex::default(), work: Condvar::new(), idle: Condvar::new(), manual }
    }

    pub(crate) fn is_manual(&self) -> bool {
        self.manual
    }

    fn lock(&self) -> MutexGuard<'_, Busy> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_compacting(&self) -> bool {
        self.lock().compacting > 0
    }

    /// Tells threads to end and waits until no task runs.
    pub(crate) fn stop(&self) {
        let mut busy = self.lock();
        busy.stop = true;
        self.work.notify_all();
        while busy.running > 0 {
            busy = self.idle.wait(busy).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Lets nothing begin until the answer is dropped; what is in progress goes on.
    fn hold(&self) -> Held<'_> {
        self.lock().held += 1;
        Held(self)
    }

    /// Has everything below `through` drained.
    pub(crate) fn drain_through(&self, through: Position) {
        let mut busy = self.lock();
        busy.drain_through = busy.drain_through.max(through);
    }

    /// Whether something that writes files found no room, and has not been tried since.
    pub(crate) fn is_refused(&self) -> bool {
        let busy = self.lock();
        busy.refused.is_some() || busy.refused_job.is_some()
    }

    /// Why the last drain could not be done, if that keeps other drains from being tried.
    pub(crate) fn refused(&self) -> Option<Error> {
        self.lock().refused.as_ref().map(|refused| refused.why.clone())
    }

    /// Lets drains be tried again.
    pub(crate) fn forget_refused(&self) {
        self.lock().refused = None;
    }

    /// Whether a task in progress should give up.
    pub(crate) fn is_stopping(&self) -> bool {
        self.lock().stop
    }
}

/// A unit of work in progress; given up when dropped, by a panic too. It counts as running until
/// what it held is gone. The tables it replaced are then in the graveyard, so that a caller that
/// waits for quiet waits for their burial.
struct Claim<'c> {
    shared: &'c Database,
    task: Option<Task>,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.shared.fail(&Error::bug(format!("background work panicked: {:?}", self.task)));
        }
        if let Some(task) = self.task.take() {
            self.shared.schedule.lock().release(&task);
        }
        self.shared.schedule.lock().running -= 1;
        self.shared.schedule.idle.notify_all();
        self.shared.schedule.work.notify_all();
    }
}

/// See [`Database::hold_background`].
pub(crate) struct Held<'s>(&'s Schedule);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.lock().held -= 1;
        self.0.work.notify_all();
    }
}

impl Database {
    /// Lets no compaction begin until the answer is dropped, after those in progress have ended.
    pub(crate) fn hold_background(&self) -> Held<'_> {
        let held = self.schedule.hold();
        let mut busy = self.schedule.lock();
        while !busy.tables.is_empty() {
            busy = self.schedule.idle.wait(busy).unwrap_or_else(PoisonError::into_inner);
        }
        drop(busy);
        held
    }

    /// Starts the background threads, which end after [`Schedule::stop`], and one that only watches
    /// over the pace of sessions, which ends after
    /// [`Admission::end`](crate::write::admission::Admission::end).
    ///
    /// # Errors
    /// If a thread cannot be started; those that were have ended then, or are about to.
    pub(crate) fn start_background(self: &Arc<Self>, spawn: &dyn Spawn) -> Result<()> {
        let started = self.start_threads(spawn);
        if started.is_err() {
            self.schedule.stop();
            self.commit.admission.end();
        }
        started
    }

    fn start_threads(self: &Arc<Self>, spawn: &dyn Spawn) -> Result<()> {
        for index in 0..self.thread_count() {
            let shared = Arc::clone(self);
            let body = Box::new(move || shared.work());
            spawn.spawn(format!("firn-work-{index}"), Priority::Background, body).map_err(from_storage)?;
        }
        let shared = Arc::clone(self);
        let body = Box::new(move || shared.commit.admission.nudge());
        spawn.spawn("firn-pace".to_owned(), Priority::Normal, body).map_err(from_storage)
    }

    /// There may be something to do.
    pub(crate) fn wake_background(&self) {
        self.schedule.work.notify_all();
    }

    /// The loop of a background thread.
    fn work(&self) {
        loop {
            let task = {
                let mut busy = self.schedule.lock();
                loop {
                    if busy.stop {
                        return;
                    }
                    self.tell_urgency();
                    if let Some(task) = self.choose(&busy) {
                        self.claim(&mut busy, &task);
                        break task;
                    }
                    let rested = self.schedule.work.wait_timeout(busy, POLL);
                    busy = rested.unwrap_or_else(PoisonError::into_inner).0;
                }
            };
            // What fails for good is kept in `failure`; the rest is chosen again.
            let _kept = self.perform(task);
        }
    }

    /// Claims `task`, so that no other thread chooses it. What its compactions are worth to reads
    /// counts as paid.
    fn claim(&self, busy: &mut Busy, task: &Task) {
        busy.claim(task);
        let version = self.catalog.version.load();
        let pay = |keyspace: u32, choice: &Choice| {
            if let Ok(state) = version.keyspace(keyspace)
                && !choice.moves
            {
                state.observed.seeks.pay(choice.input_bytes(), self.settings.read_compaction_price);
            }
        };
        match task {
            Task::Compact { keyspace, choice } => pay(*keyspace, choice),
            Task::CompactSmall { choices } => {
                choices.iter().for_each(|(keyspace, choice)| pay(*keyspace, choice));
            }
            _ => {}
        }
    }

    /// Does one unit of work on this thread, if there is any; tells whether there was.
    ///
    /// # Errors
    /// Whatever the unit failed with; it is chosen again by a later call unless the failure is
    /// final.
    pub(crate) fn step(&self) -> Result<bool> {
        self.tell_urgency();
        let task = {
            let mut busy = self.schedule.lock();
            let Some(task) = self.choose(&busy) else { return Ok(false) };
            self.claim(&mut busy, &task);
            task
        };
        self.perform(task).map(|()| true)
    }

    /// Why work failed with `error`: where another machine has taken the database over, it has
    /// removed files too.
    pub(crate) fn explained(&self, error: Error) -> Error {
        if error.kind() == ErrorKind::Retry || self.files.storage.shared_part().is_none() {
            return error;
        }
        let mut manifest = self.catalog.manifest.lock().unwrap_or_else(PoisonError::into_inner);
        if manifest.is_overtaken() { manifest.failure().map_or(error, from_storage) } else { error }
    }

    fn perform(&self, task: Task) -> Result<()> {
        let claim = Claim { shared: self, task: Some(task) };
        let Some(task) = &claim.task else { return Ok(()) };
        // A panic must not end this thread: writers would miss it, and so would a close.
        let result = match caught("background work", || Ok(self.work_on(task))) {
            Ok(done) => done.map_err(|error| self.explained(error)),
            Err(panic) => {
                let panic = Error::bug(panic.message);
                self.fail(&panic);
                Err(panic)
            }
        };
        match &result {
            Ok(()) => self.note_done(task),
            Err(error) => self.note_failed(task, error),
        }
        drop(claim);
        result
    }

    fn note_done(&self, task: &Task) {
        let mut busy = self.schedule.lock();
        match task.work().0.writes_files() {
            true => busy.note_written(task, None, self.clock.now()),
            false => busy.note_done(task.work()),
        }
    }

    /// Gives the failure of `task` its answer; see [`answer_to`].
    fn note_failed(&self, task: &Task, error: &Error) {
        let (work, now) = (task.work(), self.clock.now());
        match answer_to(error) {
            Answer::Retried if work.0.writes_files() => {
                // Before spares go, so that the removal of a file from now on lifts it.
                self.schedule.lock().note_written(task, Some(error.clone()), now);
                // Their blocks may be what is wanted; once they are removed, the work is tried
                // again.
                self.give_up_spares();
            }
            Answer::Retried => self.schedule.rest(work, error.clone(), now),
            _ if self.schedule.is_stopping() => {}
            Answer::SetAside => match self.set_aside(task, error) {
                true => self.note_done(task),
                false => self.schedule.rest(work, error.clone(), now),
            },
            Answer::Poisoned => self.fail(error),
        }
    }

    fn work_on(&self, task: &Task) -> Result<()> {
        match task {
            Task::Freeze { keyspaces } => self.freeze(keyspaces),
            Task::Merge { keyspace, runs } => self.merge_runs(*keyspace, runs),
            Task::Drain { keyspace, runs } => self.drain(*keyspace, runs),
            Task::DrainSmall { drains } => self.drain_small(drains),
            Task::DrainPart { drain, part } => {
                drain.run_part(*part, self);
                Ok(())
            }
            Task::Compact { keyspace, choice } => self.compact(*keyspace, choice),
            Task::CompactSmall { choices } => self.compact_small(choices),
            Task::Reclaim { keyspace } => self.reclaim(*keyspace),
            Task::Repack { tables } => self.repack(tables),
            Task::WriteBackValues => self.values.begin_write_back().map_err(from_storage),
            Task::SealValues => self.seal_values(SEALED_AT_ONCE_MAX),
            Task::Expose { keyspace, through } => self.expose(*keyspace, *through),
            Task::Collect { victims } => self.collect(victims),
            Task::Bury => self.bury(),
            Task::Sweep => self.sweep(),
            Task::Regroup => self.regroup(),
            Task::ShortenLog => self.shorten_log(),
            Task::Balance => {
                self.balance_memory();
                Ok(())
            }
            Task::GiveUpSpares => {
                self.give_up_spares();
                Ok(())
            }
        }
    }

    /// The most urgent unit that can be worked on now.
    fn choose(&self, busy: &Busy) -> Option<Task> {
        // A reader changes nothing on disk, and what it recovered it reads from memtables as well
        // as from runs.
        if self.read_only || self.failure.get().is_some() {
            return None;
        }
        if self.reads.balance.is_due() {
            return Some(Task::Balance);
        }
        let version = self.catalog.version.load();
        let now = self.clock.now();
        // Nothing else moves it over the end of a segment that no writer follows.
        let watermark = self.commit.log.advance().ok()?;
        if let Some(task) = self.choose_freeze(busy, &version, watermark, now) {
            return Some(task);
        }
        if let Some(task) = self.choose_for_files(busy) {
            return Some(task);
        }
        if let Some(keyspace) = self.choose_look(busy, &version) {
            return Some(Task::Reclaim { keyspace });
        }
        if let Some(task) = self.choose_to_shorten(busy, &version) {
            return Some(task);
        }
        if let Some((drain, part)) = busy.drains.iter().find(|(drain, next)| *next < drain.part_count()) {
            return Some(Task::DrainPart { drain: Arc::clone(drain), part: *part });
        }
        // A thread that is alone would else drain for ever where writers never rest, and level 0
        // grow.
        if self.settings.background_threads == 1
            && let Some(task) = self.choose_far_behind(busy, &version)
        {
            return Some(task);
        }
        if busy.may_drain(now)
            && let Some(task) = self.choose_drain(busy, &version, now)
        {
            return Some(task);
        }
        if busy.may_write(now) {
            if let Some(task) = self.choose_for_hidden(busy, &version, now) {
                return Some(task);
            }
            if let Some(task) = self.choose_compaction_of_references(busy, &version) {
                return Some(task);
            }
            // What is copied is held twice meanwhile: many of them would leave less room for what
            // is dead.
            if busy.held == 0
                && busy.collections < self.collections_max()
                && self.is_thread_left(busy, false)
                && busy.may_try((Work::Collect, 0), now)
                && let Some(victims) = self.choose_collection(&version, &busy.unavailable_segments())
            {
                return Some(Task::Collect { victims });
            }
        }
        if let Some(task) = self.choose_merge(busy, &version, now) {
            return Some(task);
        }
        if busy.may_write(now)
            && let Some(task) = self.choose_repack(busy, &version, now)
        {
            return Some(task);
        }
        let spare = self.choose_spare_compaction(busy, &version);
        spare.or_else(|| self.choose_write_back(busy)).or_else(|| self.choose_to_give_up())
    }

    /// Runs that become one.
    fn choose_merge(&self, busy: &Busy, version: &Version, now: Duration) -> Option<Task> {
        let may_merge = |id| busy.may_try((Work::Merge, id), now);
        version.live().filter(|keyspace| may_merge(keyspace.id())).find_map(|keyspace| {
            let id = keyspace.id();
            let is_busy = |run: &Run| busy.runs.contains(&(id, run.span().start));
            let runs = pick_merge(&keyspace.runs, self.settings.merge_fan_in, is_busy)?;
            Some(Task::Merge { keyspace: id, runs })
        })
    }

    /// A flush, or a freeze, for what the buffer hides.
    fn choose_for_hidden(&self, busy: &Busy, version: &Version, now: Duration) -> Option<Task> {
        let through = |keyspace| busy.drained_through(keyspace);
        let may_expose = |task: &Task| busy.may_try(task.work(), now);
        let of_values = self.choose_to_expose(version, through).filter(may_expose);
        of_values.or_else(|| self.choose_to_flush(version, through).filter(may_expose))
    }

    /// What is to be done about files, whatever is in them.
    fn choose_for_files(&self, busy: &Busy) -> Option<Task> {
        if !self.files.graveyard.is_empty() {
            return Some(Task::Bury);
        }
        if !busy.has_written_back
            && let Some(task) = self.choose_write_back(busy)
        {
            return Some(task);
        }
        let now = self.clock.now();
        let may_write = |work| busy.may_write(now) && busy.may_try((work, 0), now);
        if !busy.is_bringing_values() && may_write(Work::Values) && !self.values.to_be_sealed().is_empty() {
            return Some(Task::SealValues);
        }
        if !busy.is_regrouping && may_write(Work::Groups) && self.are_groups_too_many() {
            return Some(Task::Regroup);
        }
        (busy.may_try((Work::Files, 0), now) && self.is_sweep_due(busy)).then_some(Task::Sweep)
    }

    fn choose_write_back(&self, busy: &Busy) -> Option<Task> {
        let may_try = busy.may_try((Work::Files, 0), self.clock.now());
        (may_try && !busy.is_bringing_values() && self.values.is_write_back_due())
            .then_some(Task::WriteBackValues)
    }
}

/// How long a thread sleeps at most before it looks again.
const POLL: Duration = Duration::from_millis(100);
