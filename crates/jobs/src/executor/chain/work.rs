//! Actions of the policy, done: jobs are handed to executors, looked at, given up and answered.
//!
//! An action is begun under the lock of the ledger ([`Shared::begin`]), which moves the state and
//! collects what is needed. What calls executors, storage or callbacks is then done without the
//! lock ([`Shared::perform`]).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use firn_format::file_name::STEM_BYTES_MAX;

use super::action::{Action, Result as Which, To, Why};
use super::check::{Asked, Question, was_not_seen};
use super::state::{Answer, Seen, Stage, State, Took};
use super::{Shared, closed};
use crate::error::{Error, ErrorKind, Result};
use crate::executor::Executor;
use crate::executor::caught::caught;
use crate::executor::cause::Cause;
use crate::executor::handle::{Finisher, JobHandle, new_job};
use crate::executor::ran::Ran;
use crate::spec::{JobResult, JobSpec};
use crate::verify::is_output_of;

/// The state of the chain, and beside each of its jobs what the policy does not need to know.
#[derive(Debug)]
pub(super) struct Ledger {
    pub(super) state: State,
    /// Of the jobs of `state`, by the same numbers.
    pub(super) work: BTreeMap<u64, Work>,
    /// Attempts that were given up and may still write, with their stems.
    given_up: Vec<(JobHandle, String)>,
}

/// A job that has no result yet.
#[derive(Debug)]
pub(super) struct Work {
    /// As it was submitted.
    spec: JobSpec,
    finisher: Finisher,
    submitted: Duration,
    /// Attempts at links.
    attempts: u32,
    /// What goes on for it now.
    attempt: Option<Attempt>,
    /// What a link came to.
    answered: Option<Answered>,
}

/// What an executor, or a look at files, has been asked for.
#[derive(Debug)]
struct Attempt {
    handle: JobHandle,
    /// Of its outputs; empty for a look.
    stem: String,
    begun: Duration,
}

/// What a link came to, before it is the job's result.
#[derive(Debug)]
struct Answered {
    handle: JobHandle,
    /// Of its outputs.
    stem: String,
    result: JobResult,
    ran: Ran,
    /// The stem of the last executor's outputs, and what it came to.
    second: Option<(String, JobResult)>,
}

/// What is to be done without the lock.
#[derive(Debug)]
pub(super) enum Deed {
    /// An executor is given a job under this stem.
    Hand { number: u64, to: To, spec: JobSpec, stem: String, begun: Duration },
    /// The last executor is given a job that a link has done.
    Reexecute { number: u64, spec: JobSpec, stem: String, begun: Duration },
    /// Files are looked at.
    CheckFiles { asked: Box<Asked>, handle: JobHandle },
    /// A job is answered.
    Answer { finisher: Finisher, result: Result<JobResult>, ran: Option<Ran>, discarded: Option<String> },
    /// What was written under these stems is removed.
    Discard(Vec<String>),
}

/// Names the worker of a link that does not tell it.
const ELSEWHERE: &str = "elsewhere";

impl Ledger {
    pub(super) fn new(state: State) -> Self {
        Self { state, work: BTreeMap::new(), given_up: Vec::new() }
    }

    /// Stems of attempts that were given up and have ended since.
    pub(super) fn take_ended(&mut self) -> Vec<String> {
        let ended = self.given_up.extract_if(.., |(handle, _)| handle.is_finished());
        ended.map(|(_, stem)| stem).collect()
    }

    /// Notes what has become of each attempt.
    pub(super) fn look(&mut self, now: Duration) {
        for (number, work) in &self.work {
            self.state.see(*number, work.seen(), now);
        }
    }
}

impl Work {
    pub(super) fn new(spec: JobSpec, finisher: Finisher, submitted: Duration) -> Self {
        Self { spec, finisher, submitted, attempts: 0, attempt: None, answered: None }
    }

    /// What is seen of the attempt that goes on.
    fn seen(&self) -> Seen {
        let is_unwanted = self.finisher.control().is_cancelled();
        let Some(Attempt { handle, .. }) = &self.attempt else {
            return Seen { is_unwanted, ..Seen::default() };
        };
        Seen {
            answer: self.answer(),
            is_waiting: handle.is_waiting(),
            is_syncing: handle.is_syncing(),
            was_tried: handle.trouble().is_some(),
            passed: handle.passed_count(),
            is_unwanted,
        }
    }

    fn answer(&self) -> Option<Answer> {
        let attempt = self.attempt.as_ref()?;
        Some(match attempt.handle.poll()? {
            Ok(_) => {
                let ran = attempt.handle.ran();
                let opened = ran.as_ref().map_or(Duration::ZERO, |ran| ran.opened);
                Answer::Well(Took { opened, ran: ran.map(|ran| ran.ran) })
            }
            // A look at files has no stem.
            Err(error) if attempt.stem.is_empty() && was_not_seen(&error) => {
                let file = error.source.as_ref().map_or("", |source| source.file.as_str());
                let second = self.answered.as_ref().and_then(|answered| answered.second.as_ref());
                Answer::Unseen { is_own: second.is_some_and(|(stem, _)| is_output_of(file, stem)) }
            }
            Err(error) => Answer::Failed(error.kind),
        })
    }

    /// The error of the attempt that has ended.
    fn error(&self) -> Option<Error> {
        self.attempt.as_ref()?.handle.poll()?.err()
    }

    /// What the outputs of its next attempt at a link are called; `None` if that is too long for a
    /// name.
    fn draw_stem(&mut self) -> Option<String> {
        let stem = match self.attempts {
            0 => format!("{}-e", self.spec.output_stem()),
            attempts => format!("{}-e{attempts}", self.spec.output_stem()),
        };
        self.attempts += 1;
        (stem.len() <= STEM_BYTES_MAX).then_some(stem)
    }

    /// What the outputs of another attempt here are called.
    fn stem_for(&self, suffix: &str) -> Option<String> {
        let stem = format!("{}-{suffix}", self.spec.output_stem());
        (stem.len() <= STEM_BYTES_MAX).then_some(stem)
    }

    /// Why an attempt at a link came to nothing, in words.
    fn reason(&self, why: Why, now: Duration) -> String {
        let error = || self.error().map_or_else(|| "nothing is known".to_owned(), |error| error.to_string());
        let waited = self.attempt.as_ref().map_or(Duration::ZERO, |it| now.saturating_sub(it.begun));
        let waited = waited.as_secs_f64();
        let trouble = self.attempt.as_ref().and_then(|attempt| attempt.handle.trouble());
        let tried = trouble.map(|why| format!("; it was tried, and failed: {why}")).unwrap_or_default();
        match why {
            Why::Failed(_) => format!("it failed: {}", error()),
            Why::Late => format!("there was no answer in {waited:.1} s{tried}"),
            Why::Unbegun { .. } => format!("no worker began it in {waited:.1} s{tried}"),
            Why::Wrong => format!("the answer was wrong: {}", error()),
            Why::Unseen => format!("its files could not be looked at: {}", error()),
            Why::CheckLate => format!("its files could not be looked at in {waited:.1} s"),
        }
    }
}

impl Shared {
    /// Begins `action`: moves the state, and returns what is left to do without the lock.
    pub(super) fn begin(&self, ledger: &mut Ledger, action: Action, now: Duration) -> Option<Deed> {
        let deed = match action {
            Action::Wait => None,
            Action::Hand(number, to, _) => self.begin_hand(ledger, number, to, action, now),
            Action::TakeBack(number, allowed) => {
                if let Some(attempt) = ledger.work.get_mut(&number).and_then(|work| work.attempt.take()) {
                    // It may have begun all the same: what it leaves is removed once it has ended.
                    attempt.handle.cancel();
                    self.given_up.fetch_add(1, Ordering::Relaxed);
                    ledger.given_up.push((attempt.handle, attempt.stem));
                }
                self.begin_hand(ledger, number, To::Idle(allowed), action, now)
            }
            Action::Hold(_) => {
                ledger.state.apply(action, now);
                self.changed.notify_all();
                None
            }
            Action::Extend(..) => {
                ledger.state.apply(action, now);
                None
            }
            Action::Stop(number) => {
                ledger.state.apply(action, now);
                if let Some(attempt) = ledger.work.get(&number).and_then(|work| work.attempt.as_ref()) {
                    attempt.handle.cancel();
                }
                None
            }
            Action::GiveUp(number, why) => {
                let reason = ledger.work.get(&number).map(|work| work.reason(why, now));
                ledger.state.apply(action, now);
                self.status.explain(reason.unwrap_or_default());
                self.give_up(ledger, number).map(|stem| Deed::Discard(vec![stem]))
            }
            Action::GiveAway(number, is_late) => {
                ledger.state.apply(action, now);
                if is_late {
                    self.status.count_idle(true);
                }
                let attempt = ledger.work.get_mut(&number).and_then(|work| work.attempt.take());
                attempt.map(|attempt| Deed::Discard(vec![attempt.stem]))
            }
            Action::Cancel(number) => {
                ledger.state.apply(action, now);
                let discarded = self.give_up(ledger, number);
                let work = ledger.work.remove(&number)?;
                Some(Deed::Answer { finisher: work.finisher, result: Err(closed()), ran: None, discarded })
            }
            Action::Check(number, _) => {
                ledger.state.apply(action, now);
                ledger.work.get_mut(&number).and_then(|work| begin_check(work, now))
            }
            Action::Reexecute(number) => self.begin_again(ledger, number, now),
            Action::Compare(number, _) => {
                ledger.state.apply(action, now);
                ledger.work.get_mut(&number).and_then(|work| begin_compare(work, now))
            }
            Action::Finish(number, which) => self.begin_finish(ledger, number, which, now),
        };
        self.report(ledger);
        deed
    }

    fn begin_hand(
        &self,
        ledger: &mut Ledger,
        number: u64,
        to: To,
        action: Action,
        now: Duration,
    ) -> Option<Deed> {
        ledger.state.apply(action, now);
        let work = ledger.work.get_mut(&number)?;
        let stem = match to {
            To::Link { .. } => work.draw_stem(),
            To::Last => Some(work.spec.output_stem().to_owned()),
            To::Idle(_) => work.stem_for("i"),
        };
        let Some(stem) = stem else {
            ledger.state.unnamed(number);
            return self.go_on(ledger, number, now);
        };
        let spec = match to {
            To::Link { .. } => work.spec.with_stem(&stem),
            To::Last => work.spec.clone(),
            // A recycled file that it names may be with the attempt at the link.
            To::Idle(_) => work.spec.with_stem(&stem).without_recycled(),
        };
        if let (To::Last, Some(job)) = (to, ledger.state.jobs.get(&number)) {
            self.status.count_one(job.cause);
        }
        Some(Deed::Hand { number, to, spec, stem, begun: now })
    }

    /// Lets go of what a link has of the job `number`; the stem of what it may have written.
    fn give_up(&self, ledger: &mut Ledger, number: u64) -> Option<String> {
        let work = ledger.work.get_mut(&number)?;
        let attempt = work.attempt.take();
        if let Some(attempt) = &attempt {
            attempt.handle.cancel();
        }
        let (handle, stem) = match work.answered.take() {
            Some(answered) => (answered.handle, answered.stem),
            None => attempt.map(|attempt| (attempt.handle, attempt.stem))?,
        };
        // What a link answered in vain is not wanted either.
        handle.cancel();
        self.given_up.fetch_add(1, Ordering::Relaxed);
        if !handle.is_finished() {
            ledger.given_up.push((handle, stem.clone()));
        }
        Some(stem)
    }

    /// Has the last executor do what a link has done, if its outputs can have a name.
    fn begin_again(&self, ledger: &mut Ledger, number: u64, now: Duration) -> Option<Deed> {
        let Some(stem) = ledger.work.get(&number).and_then(|work| work.stem_for("c")) else {
            return self.begin_finish(ledger, number, Which::Checked, now);
        };
        ledger.state.apply(Action::Reexecute(number), now);
        let work = ledger.work.get_mut(&number)?;
        let looked = work.attempt.take().map_or(now, |look| look.begun);
        if let Some(answered) = &mut work.answered {
            answered.ran.checked = now.saturating_sub(looked);
        }
        // A recycled file that it names went to the attempt that renamed it.
        let spec = work.spec.with_stem(&stem).without_recycled();
        Some(Deed::Reexecute { number, spec, stem, begun: now })
    }

    /// Gives the job `number` the result that `which` names.
    fn begin_finish(&self, ledger: &mut Ledger, number: u64, which: Which, now: Duration) -> Option<Deed> {
        let cause = ledger.state.jobs.get(&number).map(|job| job.cause);
        ledger.state.apply(Action::Finish(number, which), now);
        let work = ledger.work.remove(&number)?;
        if !matches!(which, Which::Last | Which::Idle) {
            return self.finish_answered(work, which, now);
        }
        let Work { finisher, submitted, attempt, .. } = work;
        let begun = attempt.as_ref().map_or(now, |attempt| attempt.begun);
        let result = attempt.and_then(|attempt| attempt.handle.poll()).unwrap_or_else(|| Err(closed()));
        if which == Which::Idle {
            self.status.count_idle(false);
        } else if cause == Some(Cause::Damaged) && result.is_ok() {
            self.status.explain("it called files damaged that are whole".to_owned());
        }
        let (queued, ran) = (begun.saturating_sub(submitted), now.saturating_sub(begun));
        let ran = Some(Ran { queued, ran, ..Ran::default() });
        Some(Deed::Answer { finisher, result, ran, discarded: None })
    }

    /// Answers a job that a link has done.
    fn finish_answered(&self, work: Work, which: Which, now: Duration) -> Option<Deed> {
        let error = work.error();
        let Work { finisher, attempt, answered, .. } = work;
        let Answered { stem, result, mut ran, second, .. } = answered?;
        let attempt = attempt.inspect(|attempt| attempt.handle.cancel());
        let ours = Ran { queued: ran.queued, ..Ran::default() };
        let (result, ran, discarded) = match (which, second) {
            (Which::Differs, Some((_, second))) => {
                self.status.count_reexecuted(true);
                self.given_up.fetch_add(1, Ordering::Relaxed);
                let executor = if ran.worker.is_empty() { ELSEWHERE } else { &ran.worker };
                let why = error.unwrap_or_else(closed);
                self.status.explain(format!("{executor} came to something else than this process: {why}"));
                self.status.count_one(Cause::Wrong);
                (second, ours, Some(stem))
            }
            (Which::LinkUnseen, Some((_, second))) => {
                // That says nothing of the executor that wrote it. But no result should rest on
                // such a file where there is another.
                let why = error.unwrap_or_else(closed);
                let what = "a job that was done elsewhere was done here again, since its files could not be";
                self.status.explain(format!("{what} looked at: {why}"));
                self.status.count_one(Cause::Unseen);
                (second, ours, Some(stem))
            }
            (Which::Checked, _) => {
                ran.checked = attempt.map_or(Duration::ZERO, |look| now.saturating_sub(look.begun));
                (result, ran, None)
            }
            (_, Some((own_stem, _))) => {
                if which == Which::Same {
                    self.status.count_reexecuted(false);
                }
                (result, ran, Some(own_stem))
            }
            (_, None) => {
                let is_reported =
                    |error: &Error| !matches!(error.kind, ErrorKind::Cancelled | ErrorKind::Storage);
                if let Some(why) = error.filter(is_reported) {
                    self.status.explain(format!("a job that was done elsewhere fails here: {why}"));
                }
                (result, ran, attempt.map(|attempt| attempt.stem))
            }
        };
        Some(Deed::Answer { finisher, result: Ok(result), ran: Some(ran), discarded })
    }

    /// Does `deed`; what is to be done with the same job at once after that, begun.
    pub(super) fn perform(self: &Arc<Self>, deed: Deed) -> Option<Deed> {
        match deed {
            Deed::Hand { number, to, spec, stem, begun } => {
                let executor = match to {
                    To::Link { link, .. } => Some(&self.links[link]),
                    To::Last => Some(&self.last),
                    To::Idle(_) => self.idle.get().map(|(idle, _)| idle),
                };
                let handed = executor.map_or_else(|| Err(closed()), |it| submit(&**it, spec));
                match handed {
                    Ok(handle) => self.follow(number, Attempt { handle, stem, begun }),
                    Err(error) => self.refused(number, to, error),
                }
            }
            Deed::Reexecute { number, spec, stem, begun } => match submit(&*self.last, spec) {
                Ok(handle) => self.follow(number, Attempt { handle, stem, begun }),
                Err(_) => {
                    let mut ledger = self.lock();
                    self.begin(&mut ledger, Action::Finish(number, Which::NotCompared), self.clock.now())
                }
            },
            Deed::CheckFiles { asked, handle } => {
                self.ask_about(*asked);
                self.wake_for(&handle);
                None
            }
            Deed::Answer { finisher, result, ran, discarded } => {
                if let Some(stem) = discarded {
                    self.discard(vec![stem]);
                }
                match ran {
                    Some(ran) => finisher.finish_ran(result, ran),
                    None => finisher.finish(result),
                }
                None
            }
            Deed::Discard(stems) => {
                self.discard(stems);
                None
            }
        }
    }

    /// Watches over what goes on for the job `number` from now on.
    fn follow(self: &Arc<Self>, number: u64, attempt: Attempt) -> Option<Deed> {
        let handle = attempt.handle.clone();
        let mut ledger = self.lock();
        ledger.state.handed(number);
        if let Some(Stage::Reexecuted { is_stopped: true, .. }) =
            ledger.state.jobs.get(&number).map(|job| &job.stage)
        {
            handle.cancel();
        }
        if let Some(work) = ledger.work.get_mut(&number) {
            work.attempt = Some(attempt);
        }
        self.report(&ledger);
        drop(ledger);
        self.changed.notify_all();
        self.wake_for(&handle);
        None
    }

    /// Goes on with the job `number`, which the executor that it was handed to refused.
    fn refused(&self, number: u64, to: To, error: Error) -> Option<Deed> {
        let now = self.clock.now();
        let mut ledger = self.lock();
        if matches!(to, To::Link { .. }) {
            self.status.explain(format!("it was refused: {error}"));
        }
        ledger.state.refused(number, error.kind, now);
        if matches!(to, To::Last) {
            let work = ledger.work.remove(&number)?;
            return Some(Deed::Answer {
                finisher: work.finisher,
                result: Err(error),
                ran: None,
                discarded: None,
            });
        }
        self.go_on(&mut ledger, number, now)
    }
}

/// Has what a link answered looked at.
fn begin_check(work: &mut Work, now: Duration) -> Option<Deed> {
    let Attempt { handle, stem, begun } = work.attempt.take()?;
    let result = handle.poll()?.ok()?;
    let waited = now.saturating_sub(begun);
    let ran = handle.ran().unwrap_or_else(|| Ran { ran: waited, ..Ran::by(ELSEWHERE) });
    let question = Question::Believe(work.spec.clone(), stem.clone());
    let deed = begin_files_check(work, result.clone(), question, now);
    work.answered = Some(Answered { handle, stem, result, ran, second: None });
    Some(deed)
}

/// Has what a link came to compared with what the last executor did.
fn begin_compare(work: &mut Work, now: Duration) -> Option<Deed> {
    let Attempt { handle, stem, .. } = work.attempt.take()?;
    let second = handle.poll()?.ok()?;
    let answered = work.answered.as_mut()?;
    answered.second = Some((stem, second.clone()));
    let result = answered.result.clone();
    Some(begin_files_check(work, result, Question::Compare(second), now))
}

fn begin_files_check(work: &mut Work, result: JobResult, question: Question, now: Duration) -> Deed {
    let (handle, finisher) = new_job();
    work.attempt = Some(Attempt { handle: handle.clone(), stem: String::new(), begun: now });
    Deed::CheckFiles { asked: Box::new(Asked { result, question, finisher }), handle }
}

/// Hands `spec` to `executor`. A panic there fails this job alone: the thread that watches over all
/// jobs goes on.
fn submit(executor: &dyn Executor, spec: JobSpec) -> Result<JobHandle> {
    caught("taking the job", || executor.submit(spec))
}
