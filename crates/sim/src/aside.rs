//! Units of background work that stop in the middle of a job while the script goes on.
//!
//! ```text
//!   script's thread:  write ─ step ┐         ┌ get ─ copy ─ step ┐         ┌ …
//!   unit's thread:                 └ choose ─ job (stops)              └ (goes on) commit ┘
//! ```
//! One of both has the turn, so that a run stays a function of its seed.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread::ThreadId;

use fastrand::Rng;
use firn_engine::{Error, Result};
use firn_jobs::{Executor, JobHandle, JobSpec};
use firn_storage::{Priority, Spawn};
use firn_tree::Tree;

use crate::panicked::panic_text;

/// An executor around another one, and the thread on which a tree without threads does units of its
/// work.
///
/// 1. The thread works only while the script waits in [`step`](Self::step) or
///    [`finish`](Self::finish).
/// 2. A unit stops before or after a job, but before its answer; jobs that the script itself asks
///    for never stop.
pub(crate) struct Aside {
    inner: Arc<dyn Executor>,
    tree: OnceLock<Weak<Tree>>,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    rng: Rng,
    turn: Turn,
    /// Of the units.
    thread: Option<ThreadId>,
    /// A unit has begun and not ended.
    is_amid: bool,
    /// What came of the last unit, until the script takes it.
    ended: Option<Result<bool>>,
    /// Units no longer stop.
    is_finishing: bool,
    stop_count: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    Script,
    Unit,
    /// There are no more units.
    Free,
}

impl fmt::Debug for Aside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Aside").finish_non_exhaustive()
    }
}

impl Aside {
    /// Has `inner` run jobs; all that is drawn is a function of `seed`.
    pub(crate) fn new(inner: Arc<dyn Executor>, seed: u64) -> Arc<Self> {
        let state = State {
            rng: Rng::with_seed(seed ^ 0x6173_6964),
            turn: Turn::Script,
            thread: None,
            is_amid: false,
            ended: None,
            is_finishing: false,
            stop_count: 0,
        };
        Arc::new(Self { inner, tree: OnceLock::new(), state: Mutex::new(state), changed: Condvar::new() })
    }

    /// From now on units of `tree`, which has no threads, are done on one of `spawn`'s.
    pub(crate) fn belong_to(self: &Arc<Self>, tree: &Arc<Tree>, spawn: &dyn Spawn) -> Result<()> {
        let _first = self.tree.set(Arc::downgrade(tree));
        let aside = Arc::clone(self);
        let started = spawn.spawn("firn-aside".to_owned(), Priority::Normal, Box::new(move || aside.work()));
        started.map_err(|error| Error::bug(error.to_string()))
    }

    /// Goes on with the unit that has stopped, or begins one; perhaps another one is done here
    /// meanwhile. Whether there was work.
    ///
    /// # Errors
    /// The unit's.
    pub(crate) fn step(&self, tree: &Tree) -> Result<bool> {
        let mut state = self.lock();
        if state.is_amid && state.rng.bool() {
            drop(state);
            return tree.step();
        }
        self.give_turn(state).unwrap_or(Ok(true))
    }

    /// Ends the unit that has stopped, if one has.
    ///
    /// # Errors
    /// The unit's.
    pub(crate) fn finish(&self) -> Result<()> {
        let mut state = self.lock();
        if !state.is_amid {
            return Ok(());
        }
        state.is_finishing = true;
        let ended = self.give_turn(state);
        self.lock().is_finishing = false;
        ended.unwrap_or(Ok(true)).map(drop)
    }

    /// How often a unit has stopped.
    #[cfg(test)]
    pub(crate) fn stop_count(&self) -> u64 {
        self.lock().stop_count
    }

    /// Ends the unit that has stopped, and the thread.
    pub(crate) fn end(&self) {
        // A caller that wants to know what came of it has finished it before.
        let _ended = self.finish();
        self.lock().turn = Turn::Free;
        self.changed.notify_all();
    }

    /// The unit has the turn until it stops or ends; what came of it if it has ended.
    fn give_turn(&self, mut state: MutexGuard<'_, State>) -> Option<Result<bool>> {
        state.turn = Turn::Unit;
        state.is_amid = true;
        self.changed.notify_all();
        let mut state = self.wait(state, |turn| turn != Turn::Unit);
        state.ended.take()
    }

    /// The thread's life.
    fn work(&self) {
        self.lock().thread = Some(std::thread::current().id());
        loop {
            let state = self.wait(self.lock(), |turn| turn != Turn::Script);
            if state.turn == Turn::Free {
                return;
            }
            drop(state);
            let tree = self.tree.get().and_then(Weak::upgrade);
            let step = || tree.as_ref().map_or(Ok(false), |tree| tree.step());
            let ended = catch_unwind(AssertUnwindSafe(step));
            drop(tree);
            let mut state = self.lock();
            state.ended = Some(ended.unwrap_or_else(|panic| {
                let what = panic_text(&*panic);
                Err(Error::bug(format!("a unit of background work panicked: {what}")))
            }));
            state.is_amid = false;
            state.turn = Turn::Script;
            self.changed.notify_all();
        }
    }

    /// If this is a unit, the script may have the turn now.
    fn stop(&self) {
        let mut state = self.lock();
        let is_unit = state.thread == Some(std::thread::current().id());
        if !is_unit || state.is_finishing || state.rng.bool() {
            return;
        }
        state.stop_count += 1;
        state.turn = Turn::Script;
        self.changed.notify_all();
        drop(self.wait(state, |turn| turn == Turn::Unit));
    }

    fn wait<'s>(
        &self,
        state: MutexGuard<'s, State>,
        is_come: impl Fn(Turn) -> bool,
    ) -> MutexGuard<'s, State> {
        let waited = self.changed.wait_while(state, |state| !is_come(state.turn));
        waited.unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends units when their engine is let go, whatever else becomes of it.
pub(crate) struct Ending(pub(crate) Arc<Aside>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl Executor for Aside {
    fn submit(&self, spec: JobSpec) -> firn_jobs::Result<JobHandle> {
        self.stop();
        let done = self.inner.submit(spec);
        self.stop();
        done
    }
}

#[cfg(test)]
mod tests;
