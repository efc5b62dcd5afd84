//! Looking at what was written elsewhere and removing unwanted outputs, on threads that may wait
//! for a backend that is away.
//!
//! The thread that watches over the jobs reads no file and removes none. So other jobs can end, be
//! late or be cancelled meanwhile.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::Shared;
use crate::error::{Error, ErrorKind, Result};
use crate::executor::caught::caught;
use crate::executor::handle::Finisher;
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
pub(super) struct Asked {
    pub(super) result: JobResult,
    pub(super) question: Question,
    pub(super) finisher: Finisher,
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
    /// backend is there.
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

    /// Has a question answered, at once where no thread does it.
    pub(super) fn ask_about(&self, asked: Asked) {
        if self.is_inline {
            let Asked { result, question, finisher } = asked;
            finisher.finish(self.find_out(result, &question));
        } else {
            self.chores.lock().questions.push_back(asked);
            self.chores.arrived.notify_one();
        }
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

    /// Removes what was written under `stems`, now or soon. The result does not tell: there may be
    /// none, or a wrong one.
    pub(super) fn discard(&self, stems: Vec<String>) {
        if self.is_inline {
            return self.remove_outputs(&stems);
        }
        self.chores.lock().unwanted.extend(stems);
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
}

/// Whether a backend refused the look, which says nothing of what is there.
pub(super) fn was_not_seen(error: &Error) -> bool {
    use firn_storage::ErrorKind as Kind;
    let kind = error.source.as_ref().map(|source| source.kind);
    error.kind == ErrorKind::Storage && matches!(kind, Some(Kind::Refused | Kind::Io))
}
