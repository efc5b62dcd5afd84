//! Answers that may come later.

/// What an operation answers: its result, or a ticket for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Outcome<T> {
    /// The operation is over and this is its result.
    Done(T),
    /// The operation goes on; its [`crate::Completion`] will carry this ticket.
    Pending(Ticket),
}

impl<T> Outcome<T> {
    /// The result, if the operation is over.
    pub fn done(self) -> Option<T> {
        match self {
            Outcome::Done(value) => Some(value),
            Outcome::Pending(_) => None,
        }
    }
}

/// Name of a pending operation, unique within its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);
