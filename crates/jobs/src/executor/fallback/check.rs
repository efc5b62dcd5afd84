//! Looking at what was written elsewhere and removing unwanted outputs, on threads that may wait
//! for a place that is away.
//!
//! ```text
//!   an answer ─► Checked ─── well ──► the job's result, or done again here ─► Compared ─► the job's result
//!                   │                                                            │
//!                   └─ not, or no longer wanted ─► removed                       └─ the other result: removed
//! ```
//! The thread that watches over the jobs reads no file and removes none. So other jobs can end, be
//! late or be cancelled meanwhile.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::super::caught::caught;
use super::super::cause::Cause;
use super::super::handle::{Finisher, JobHandle, new_job};
use super::super::ran::Ran;
use super::super::trust::Concern;
use super::state::{Answered, Away, Checked, Compared, Job, Place, Running};
use super::{ELSEWHERE, Shared, closed};
use crate::error::{Error, ErrorKind, Result};
use crate::spec::{JobResult, JobSpec};
use crate::verify::{is_output_of, same_files, verify, verify_files, verify_same};

/// Threads that read and remove. While one removes, the others read.
pub(super) const CHECKERS: usize = 2;

/// What is to be found out about a result.
#[derive(Debug)]
pub(super) enum Question {
    /// Whether it is one of the job, and its files are what it says; the job's own spec, and the
    /// stem of the attempt.
    Believe(JobSpec, String),
    /// Whether another result, of a second executor, holds the same.
    Compare(JobResult),
}

/// What waits for those threads.
#[derive(Debug, Default)]
pub(super) struct Chores {
    queue: Mutex<Queue>,
    arrived: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    /// Oldest first.
    questions: VecDeque<Asked>,
    /// Stems of outputs that no job's result names.
    unwanted: Vec<String>,
    is_removing: bool,
    is_closed: bool,
}

/// A question about a result, and the finisher that takes the answer.
#[derive(Debug)]
struct Asked {
    result: JobResult,
    question: Question,
    finisher: Finisher,
}

#[derive(Debug)]
enum Chore {
    Answer(Box<Asked>),
    Remove(Vec<String>),
}

impl Chores {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// No more questions are answered; what is unwanted by now is still removed, as far as the
    /// place is there.
    pub(super) fn close(&self) {
        let mut queue = self.lock();
        queue.is_closed = true;
        let unanswered = std::mem::take(&mut queue.questions);
        drop(queue);
        self.arrived.notify_all();
        // Their callbacks must not find the queue locked.
        drop(unanswered);
    }

    fn is_closed(&self) -> bool {
        self.lock().is_closed
    }

    /// The next one; `None` once there will be no more.
    fn take(&self) -> Option<Chore> {
        let mut queue = self.lock();
        loop {
            if !queue.is_removing && !queue.unwanted.is_empty() {
                queue.is_removing = true;
                return Some(Chore::Remove(std::mem::take(&mut queue.unwanted)));
            }
            if let Some(asked) = queue.questions.pop_front() {
                return Some(Chore::Answer(Box::new(asked)));
            }
            if queue.is_closed {
                return None;
            }
            queue = self.arrived.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Shared {
    /// The life of a thread that reads and removes.
    pub(super) fn do_chores(&self) {
        while let Some(chore) = self.chores.take() {
            match chore {
                // The job that asked is over.
                Chore::Answer(asked) if asked.finisher.control().is_cancelled() => {}
                Chore::Answer(asked) => {
                    let Asked { result, question, finisher } = *asked;
                    finisher.finish(self.find_out(result, &question));
                }
                Chore::Remove(stems) => {
                    self.remove_outputs(&stems);
                    self.chores.lock().is_removing = false;
                }
            }
        }
    }

    /// Has `question` answered about `result`: that, if the answer is yes.
    fn ask_about(&self, result: JobResult, question: Question) -> JobHandle {
        let (handle, finisher) = new_job();
        if self.is_inline {
            finisher.finish(self.find_out(result, &question));
        } else {
            self.chores.lock().questions.push_back(Asked { result, question, finisher });
            self.chores.arrived.notify_one();
        }
        handle
    }

    fn find_out(&self, result: JobResult, question: &Question) -> Result<JobResult> {
        caught("looking at what was answered", || {
            match question {
                Question::Believe(spec, stem) => {
                    verify(&spec.with_stem(stem), &result)?;
                    verify_files(&*self.storage, spec, &result)?;
                }
                Question::Compare(second) => {
                    verify_same(&result, second)?;
                    same_files(&*self.storage, &result, second)?;
                }
            }
            Ok(result)
        })
    }

    /// Removes what was written under `stem`, now or soon. The result does not tell: there may be
    /// none, or a wrong one.
    pub(super) fn discard(&self, stem: String) {
        if self.is_inline {
            return self.remove_outputs(&[stem]);
        }
        self.chores.lock().unwanted.push(stem);
        self.chores.arrived.notify_one();
    }

    fn remove_outputs(&self, stems: &[String]) {
        // What cannot be listed or removed now is garbage that the committer finds by its name.
        for (name, _) in self.storage.list().unwrap_or_default() {
            if !stems.iter().any(|stem| is_output_of(&name, stem)) {
                continue;
            }
            // Closing waits for this thread, so that the first removal that fails then ends it.
            if self.storage.remove(&name).is_err() && self.chores.is_closed() {
                return;
            }
        }
    }

    /// Has what the first executor answered looked at.
    pub(super) fn check(
        self: &Arc<Self>,
        running: (Job, JobHandle, Away),
        result: JobResult,
        waited: Duration,
    ) {
        let (job, answered, away) = running;
        let question = Question::Believe(job.spec.clone(), away.stem.clone());
        let (begun, deadline) = self.time_to_look(&job.spec);
        let handle = self.ask_about(result, question);
        let place = Place::Checked(Box::new(Checked { away, answered, waited, deadline }));
        self.follow(Running { job, handle, begun, place, is_cancelled: false });
    }

    /// Now, and until when what came of a job may be looked at, behind all that is.
    fn time_to_look(&self, spec: &JobSpec) -> (Duration, Duration) {
        let bytes = self.lock().bytes_looked_at().saturating_add(spec.input_bytes());
        let now = self.clock.now();
        (now, now.saturating_add(self.patience.check_limit(bytes)))
    }

    /// Goes on with a job whose answer was looked at. `found` is `None` if the job was cancelled or
    /// the look took too long.
    pub(super) fn settle_checked(
        self: &Arc<Self>,
        mut job: Job,
        checked: Checked,
        found: Option<Result<JobResult>>,
        (begun, is_cancelled): (Duration, bool),
    ) {
        let Checked { away, answered, waited, .. } = checked;
        match found {
            Some(Ok(result)) => {
                self.end_probe(&away);
                self.went_well(&job.spec);
                let ran = answered.ran();
                if let Some(ran) = &ran {
                    self.lock().rates.was_done_there(&job.spec, ran);
                }
                let checked = self.clock.now().saturating_sub(begun);
                let ran = ran.unwrap_or_else(|| Ran { ran: waited, ..Ran::by(ELSEWHERE) });
                self.reexecute(job, away.stem, result, Ran { checked, ..ran });
            }
            other => {
                let (cause, what) = match other.and_then(Result::err) {
                    Some(error) if was_not_seen(&error) => {
                        (Cause::Unseen, format!("its files could not be looked at: {error}"))
                    }
                    Some(error) => (Cause::Wrong, format!("the answer was wrong: {error}")),
                    None => {
                        let looked = self.clock.now().saturating_sub(begun).as_secs_f64();
                        (Cause::Unseen, format!("its files could not be looked at in {looked:.1} s"))
                    }
                };
                job.cause = cause;
                self.give_up((job, answered, away), (Concern::Service, what), waited, is_cancelled);
            }
        }
    }

    /// Has what the first executor came to compared with what the second did.
    pub(super) fn compare(self: &Arc<Self>, job: Job, answered: Box<Answered>, second: Result<JobResult>) {
        // What was not done again (the disk is full, or the job was cancelled) says nothing of what
        // was done.
        match second {
            Ok(second) => {
                let question = Question::Compare(second.clone());
                let (begun, deadline) = self.time_to_look(&job.spec);
                let handle = self.ask_about(answered.result.clone(), question);
                let place = Place::Compared(Box::new(Compared { answered: *answered, second, deadline }));
                self.follow(Running { job, handle, begun, place, is_cancelled: false });
            }
            Err(error) => self.not_done_again(job, *answered, &error),
        }
    }

    /// Gives the job what the first executor came to, unless the second came to something else.
    /// `found` is `None` if the job was cancelled, writers are about to stop, or the comparison
    /// took too long.
    pub(super) fn settle_compared(&self, job: Job, compared: Compared, found: Option<Result<JobResult>>) {
        let Compared { answered, second, deadline } = compared;
        let found = match found {
            None => return self.not_done_again(job, answered, &closed()),
            Some(Err(error)) if was_not_seen(&error) => {
                return self.settle_unseen(job, Compared { answered, second, deadline }, &error);
            }
            Some(found) => found,
        };
        self.fallbacks.count_reexecuted(found.is_err());
        let Answered { stem, own_stem, result, ran } = answered;
        let Err(error) = found else {
            self.discard(own_stem);
            return job.finisher.finish_ran(Ok(result), ran);
        };
        self.given_up.fetch_add(1, Ordering::Relaxed);
        self.discard(stem);
        let executor = if ran.worker.is_empty() { ELSEWHERE } else { &ran.worker };
        let reason = format!("{executor} came to something else than this process: {error}");
        self.refused(&job.spec, Concern::Service, reason, ran.ran);
        self.fallbacks.count_one(Cause::Wrong);
        job.finisher.finish_ran(Ok(second), Ran { queued: ran.queued, ..Ran::default() });
    }

    /// Gives the job the second executor's result, since a file of the first could not be looked
    /// at. If it was a file of the second, the job gets the first's. That says nothing of the
    /// executor that wrote it. But no result should rest on such a file where there is another.
    fn settle_unseen(&self, job: Job, compared: Compared, why: &Error) {
        let Compared { answered, second, .. } = compared;
        let file = why.source.as_ref().map_or("", |source| source.file.as_str());
        if is_output_of(file, &answered.own_stem) {
            return self.not_done_again(job, answered, why);
        }
        self.discard(answered.stem);
        self.fallbacks.explain(format!(
            "a job that was done elsewhere was done here again, since its files could not be looked at: {why}"
        ));
        self.fallbacks.count_one(Cause::Unseen);
        job.finisher.finish_ran(Ok(second), Ran { queued: answered.ran.queued, ..Ran::default() });
    }

    fn not_done_again(&self, job: Job, answered: Answered, why: &Error) {
        self.discard(answered.own_stem);
        if !matches!(why.kind, ErrorKind::Cancelled | ErrorKind::Storage) {
            self.fallbacks.explain(format!("a job that was done elsewhere fails here: {why}"));
        }
        job.finisher.finish_ran(Ok(answered.result), answered.ran);
    }
}

/// Whether a place refused the look, which says nothing of what is there.
fn was_not_seen(error: &Error) -> bool {
    use firn_storage::ErrorKind as Kind;
    let kind = error.source.as_ref().map(|source| source.kind);
    error.kind == ErrorKind::Storage && matches!(kind, Some(Kind::Refused | Kind::Io))
}
