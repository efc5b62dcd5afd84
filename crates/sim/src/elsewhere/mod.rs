//! Workers in another process, as a database sees them: they refuse, go away, answer late or never,
//! and now and then wrongly.
//!
//! ```text
//!   tree ─► ExecutorChain ─┬─► Elsewhere ─► spec's bytes ─► run, in the same directory ─► result's bytes ─► believed? ─► commit
//!                          │       └─ refused, lost, silent, garbled, spoiled ──┐
//!                          └─► here ◄───────────────────────────────────────────┘
//! ```
//! The tree puts its `ExecutorChain` around every executor that it is given, so that whatever
//! happens here changes no answer. Of what is spoiled, only GCs are: a compaction whose
//! rules were not kept is believed unless it is done again.
//!
//! A worker that stood still does its job all the same, later: it was given up by then, or its
//! database is another process since.

mod fate; // what becomes of one job
mod late; // what becomes of those that stand still
mod passing; // time that passes while no worker answers
mod spoil; // ways of answering wrongly
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fastrand::Rng;
use firn_engine::conformance::semantics;
use firn_jobs::{
    Control, Error, ErrorKind, Executor, Finisher, JobHandle, JobResult, JobSpec, Result, new_job, run,
};
use firn_storage::{Clock, Storage};

use self::fate::Fate;
use self::late::Late;
use self::passing::Passing;
use self::spoil::Spoil;

/// Workers of one open engine. All that they do is a function of their seed and of the jobs that
/// they are given, in order.
#[derive(Debug)]
pub struct Elsewhere {
    clock: Arc<Passing>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    storage: Arc<dyn Storage>,
    rng: Rng,
    /// What becomes of every job, where nothing is drawn.
    fate: Option<Fate>,
    /// Never answered as long as they are waited for.
    silent: Vec<Finisher>,
    late: Vec<Late>,
    /// Wrong answers that were given, each with its control: a database that did not believe it has
    /// cancelled the job.
    spoiled: Vec<(Spoil, Control)>,
}

/// Longer than any job here is waited for.
const TOO_LONG: Duration = Duration::from_secs(120);
/// Longer than an executor is left alone that was waited for in vain.
const LONG: Duration = Duration::from_secs(200);
/// About as long as an executor is left alone that refused.
const SHORT: Duration = Duration::from_millis(400);

impl Elsewhere {
    /// Workers that reach `storage`, drawn from `seed`. Where engine and workers have threads, time
    /// passes by itself (`has_threads`).
    pub(crate) fn new(
        storage: Arc<dyn Storage>,
        clock: Arc<dyn Clock>,
        seed: u64,
        has_threads: bool,
    ) -> Arc<Self> {
        let rng = Rng::with_seed(seed ^ 0x656c_7365);
        let (fate, silent, late, spoiled) = Default::default();
        let clock = Arc::new(Passing::new(clock, has_threads));
        Arc::new(Self { clock, state: Mutex::new(State { storage, rng, fate, silent, late, spoiled }) })
    }

    /// The clock by which their database waits for them.
    pub(crate) fn clock(&self) -> Arc<dyn Clock> {
        Arc::<Passing>::clone(&self.clock)
    }

    /// Some time passes, and a worker that stood still may do its job.
    pub(crate) fn go_on(&self) {
        let (late, is_notified, storage) = {
            let mut state = self.lock();
            match state.rng.u8(..32) {
                0..8 => self.clock.pass(SHORT),
                8 => self.clock.pass(LONG),
                _ => {}
            }
            if state.late.is_empty() || state.rng.u8(..4) > 0 {
                return;
            }
            let late = state.late.swap_remove(0);
            (late, state.rng.bool(), Arc::clone(&state.storage))
        };
        late.go_on(&*storage, is_notified);
    }

    /// Workers that stand still go on in `storage`: the same directory, which another process has
    /// opened since.
    pub(crate) fn move_to(&self, storage: Arc<dyn Storage>) {
        self.lock().storage = storage;
    }

    /// Whether no worker stands still.
    pub(crate) fn is_done(&self) -> bool {
        self.lock().late.is_empty()
    }

    /// How many answers were wrong.
    pub(crate) fn spoiled_count(&self) -> u64 {
        self.lock().spoiled.len() as u64
    }

    /// A wrong answer that was believed, in words. All that were given must have been looked at.
    pub(crate) fn believed(&self) -> Option<String> {
        let state = self.lock();
        let is_believed = |(spoil, control): &&(Spoil, Control)| spoil.must_show() && !control.is_cancelled();
        let (spoil, _) = state.spoiled.iter().find(is_believed)?;
        Some(format!("a GC with a fault ({spoil:?}) was believed"))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does the job whose spec was sent as `sent`, as drawn by `rng`.
    fn work(&self, fate: Fate, sent: &[u8], rng: &mut Rng, finisher: &Finisher) -> Result<JobResult> {
        let storage = Arc::clone(&self.lock().storage);
        match fate {
            Fate::Spoil(spoil) => {
                let JobSpec::BlobGc(spec) = read_spec(sent)? else {
                    return read_result(&serve(sent, &*storage, finisher.control())?);
                };
                let (result, is_wrong) = spoil.answer(&spec, &*storage, rng)?;
                if is_wrong {
                    self.lock().spoiled.push((spoil, finisher.control().clone()));
                }
                read_result(&result.encode())
            }
            Fate::Fail(kind) => Err(Error::new(kind, "it failed there")),
            Fate::GarbleSpec => {
                read_spec(&garbled(sent, rng)).map(|_| unreachable!("flipped bits were read"))
            }
            Fate::GarbleResult => {
                let answer = serve(sent, &*storage, finisher.control())?;
                read_result(&garbled(&answer, rng)).inspect(|_| unreachable!("flipped bits were read"))
            }
            Fate::GoAway => {
                let done = read_result(&serve(sent, &*storage, finisher.control())?)?;
                if rng.bool() {
                    tear(&done, &*storage, rng)?;
                }
                Err(Error::new(ErrorKind::Unavailable, "the worker went away"))
            }
            _ => read_result(&serve(sent, &*storage, finisher.control())?),
        }
    }
}

impl Executor for Elsewhere {
    fn submit(&self, spec: JobSpec) -> Result<JobHandle> {
        let (fate, mut rng) = {
            let mut state = self.lock();
            let drawn = Fate::draw(&mut state.rng);
            (state.fate.unwrap_or(drawn), state.rng.fork())
        };
        let sent = spec.encode();
        let (handle, finisher) = new_job();
        match fate {
            Fate::Refuse(kind) => return Err(Error::new(kind, "no worker there takes it")),
            Fate::Silent => {
                self.lock().silent.push(finisher);
                self.clock.pass(TOO_LONG);
            }
            Fate::Late => {
                let storage = Arc::clone(&self.lock().storage);
                let late = Late::new(sent, finisher, &*storage, &mut rng);
                self.lock().late.push(late);
                self.clock.pass(TOO_LONG);
            }
            _ => {
                let result = self.work(fate, &sent, &mut rng, &finisher);
                finisher.finish(result);
            }
        }
        Ok(handle)
    }
}

/// What a worker does: a spec's bytes in, a result's bytes out.
fn serve(sent: &[u8], storage: &dyn Storage, control: &Control) -> Result<Vec<u8>> {
    run(&read_spec(sent)?, storage, &semantics(), control).map(|result| result.encode())
}

fn read_spec(sent: &[u8]) -> Result<JobSpec> {
    let wrong = |error| Error::new(ErrorKind::Invalid, format!("the job is none: {error}"));
    JobSpec::decode(sent).map_err(wrong)
}

fn read_result(sent: &[u8]) -> Result<JobResult> {
    let wrong = |error| Error::new(ErrorKind::Invalid, format!("the worker's answer is none: {error}"));
    JobResult::decode(sent).map_err(wrong)
}

/// `bytes` with one bit flipped.
fn garbled(bytes: &[u8], rng: &mut Rng) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let at = rng.usize(..bytes.len());
    bytes[at] ^= 1 << rng.u8(..8);
    bytes
}

/// Cuts one of the outputs, as if its worker had gone while it wrote.
fn tear(result: &JobResult, storage: &dyn Storage, rng: &mut Rng) -> Result<()> {
    if let Some((file, bytes)) = rng.choice(outputs(result)) {
        storage.open_write(file)?.set_len(rng.u64(..=bytes))?;
    }
    Ok(())
}

/// Files that came of a job, and their lengths.
fn outputs(result: &JobResult) -> Vec<(&str, u64)> {
    match result {
        JobResult::Compact(result) => {
            let tables = result.tables.iter().map(|table| (table.file.as_str(), table.bytes));
            tables.chain(result.values.iter().map(|segment| (segment.file.as_str(), segment.bytes))).collect()
        }
        JobResult::BlobGc(result) => {
            result.segment.iter().map(|segment| (segment.file.as_str(), segment.bytes)).collect()
        }
    }
}
