//! A question to all threads: each answers for its own clients, on its own thread.

use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

use super::{Message, ServerThread};
use crate::wake::TaskWaker;

/// A question that each thread answers.
#[derive(Clone)]
pub(crate) struct Question(Arc<dyn Answerable>);

impl Question {
    /// A question that ends every thread that answers it.
    #[cfg(test)]
    pub(crate) fn deadly() -> Self {
        struct Deadly;
        impl Answerable for Deadly {
            fn answer(&self, _: &ServerThread) {
                panic!("on purpose");
            }
        }
        Self(Arc::new(Deadly))
    }

    /// Answers for the clients of `thread`.
    pub(super) fn answer(&self, thread: &ServerThread) {
        self.0.answer(thread);
    }
}

impl fmt::Debug for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Question")
    }
}

trait Answerable: Send + Sync {
    fn answer(&self, thread: &ServerThread);
}

/// A question with the answers so far.
struct Survey<Q, A> {
    question: Q,
    answers: Mutex<Vec<A>>,
    /// The task that asks.
    asker: TaskWaker,
}

impl<Q: Fn(&ServerThread) -> A, A> Survey<Q, A> {
    /// Takes in what `thread` answers.
    fn note(&self, thread: &ServerThread) {
        let answer = (self.question)(thread);
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).push(answer);
    }
}

impl<Q: Fn(&ServerThread) -> A + Send + Sync, A: Send> Answerable for Survey<Q, A> {
    fn answer(&self, thread: &ServerThread) {
        self.note(thread);
        self.asker.wake();
    }
}

impl ServerThread {
    /// The answers of all threads to `question`, in no order. Other tasks run meanwhile.
    pub(crate) async fn ask_all<A: Send + 'static>(
        &self,
        question: impl Fn(&ServerThread) -> A + Send + Sync + 'static,
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
