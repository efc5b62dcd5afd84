//! A question to all workers: each answers for its own clients, on its own thread.

use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

use super::{Message, Worker};
use crate::wake::TaskWaker;

/// A question that each worker answers.
#[derive(Clone)]
pub(crate) struct Question(Arc<dyn Answerable>);

impl Question {
    /// A question that ends every worker that answers it.
    #[cfg(test)]
    pub(crate) fn deadly() -> Self {
        struct Deadly;
        impl Answerable for Deadly {
            fn answer(&self, _: &Worker) {
                panic!("on purpose");
            }
        }
        Self(Arc::new(Deadly))
    }

    /// Answers for the clients of `worker`.
    pub(super) fn answer(&self, worker: &Worker) {
        self.0.answer(worker);
    }
}

impl fmt::Debug for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Question")
    }
}

trait Answerable: Send + Sync {
    fn answer(&self, worker: &Worker);
}

/// A question with the answers so far.
struct Survey<Q, A> {
    question: Q,
    answers: Mutex<Vec<A>>,
    /// The task that asks.
    asker: TaskWaker,
}

impl<Q: Fn(&Worker) -> A, A> Survey<Q, A> {
    /// Takes in what `worker` answers.
    fn note(&self, worker: &Worker) {
        let answer = (self.question)(worker);
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).push(answer);
    }
}

impl<Q: Fn(&Worker) -> A + Send + Sync, A: Send> Answerable for Survey<Q, A> {
    fn answer(&self, worker: &Worker) {
        self.note(worker);
        self.asker.wake();
    }
}

impl Worker {
    /// The answers of all workers to `question`, in no order. Other tasks run meanwhile.
    pub(crate) async fn ask_all<A: Send + 'static>(
        &self,
        question: impl Fn(&Worker) -> A + Send + Sync + 'static,
    ) -> Vec<A> {
        let survey = Arc::new(Survey { question, answers: Mutex::new(Vec::new()), asker: self.waker() });
        for (_, mailbox) in
            self.shared.threads.mailboxes.iter().enumerate().filter(|(index, _)| *index != self.index)
        {
            let survey: Arc<dyn Answerable> = Arc::clone(&survey) as _;
            mailbox.send(Message::Ask(Question(survey)));
        }
        survey.note(self);
        poll_fn(|_| {
            let mut answers = survey.answers.lock().unwrap_or_else(PoisonError::into_inner);
            match answers.len() == self.shared.threads.mailboxes.len() {
                true => Poll::Ready(std::mem::take(&mut *answers)),
                false => Poll::Pending,
            }
        })
        .await
    }
}
