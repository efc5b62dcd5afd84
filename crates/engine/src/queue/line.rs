//! The writes of a session that wait, in call order.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::{CompletionSender, Ticket};

/// Writes `W` that wait, and acknowledgements `A` of writes that are done and not yet answered.
///
/// Owned by its session, as writes happen in call order: each write that comes while another stands
/// in the line joins it. A write that is worked on elsewhere [holds](Self::hold) the line. Times
/// are of the engine's clock.
#[derive(Debug)]
pub struct Line<W, A> {
    /// Writes not yet written, in call order.
    waiting: VecDeque<(Ticket, W)>,
    /// Nothing that waits may be written now.
    is_held: Arc<AtomicBool>,
    /// Since when the first one finds no room.
    stopped_since: Option<Duration>,
    delayed: Vec<Delayed<A>>,
}

/// An acknowledgement, and when it may be given.
#[derive(Debug)]
struct Delayed<A> {
    due: Duration,
    ticket: Ticket,
    acknowledgement: A,
}

/// Keeps a line from going on until it is dropped, on any thread: its session is nudged then.
#[derive(Debug)]
#[must_use = "dropped, it lets the line go on"]
pub struct Hold {
    is_held: Arc<AtomicBool>,
    session: CompletionSender,
}

/// How soon a line in which writes wait is looked at again, nudged or not.
const LOOK: Duration = Duration::from_millis(10);
/// The shortest time that is worth a wait.
const WAIT_MIN: Duration = Duration::from_micros(50);

impl<W, A> Default for Line<W, A> {
    fn default() -> Self {
        Self { waiting: VecDeque::new(), is_held: Arc::default(), stopped_since: None, delayed: Vec::new() }
    }
}

impl<W, A> Line<W, A> {
    /// Whether a write may be written now, before no other.
    pub fn is_free(&self) -> bool {
        self.waiting.is_empty() && !self.is_held()
    }

    /// Whether neither a write nor an acknowledgement waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.delayed.is_empty()
    }

    fn is_held(&self) -> bool {
        self.is_held.load(Ordering::Acquire)
    }

    /// Puts `write` at the end.
    pub fn push(&mut self, ticket: Ticket, write: W) {
        self.waiting.push_back((ticket, write));
    }

    /// Takes the first write; `None` if none waits or the line is held.
    pub fn pop(&mut self) -> Option<(Ticket, W)> {
        if self.is_held() { None } else { self.waiting.pop_front() }
    }

    /// Puts `write`, which was the first, back where it was.
    pub fn put_back(&mut self, ticket: Ticket, write: W) {
        self.waiting.push_front((ticket, write));
    }

    /// Holds the line for a write that is worked on elsewhere; `session` is nudged when that is
    /// over.
    pub fn hold(&self, session: CompletionSender) -> Hold {
        self.is_held.store(true, Ordering::Release);
        Hold { is_held: Arc::clone(&self.is_held), session }
    }

    /// The first write finds no room at `now`; `false` if it had found none before.
    pub fn note_stopped(&mut self, now: Duration) -> bool {
        let is_first = self.stopped_since.is_none();
        self.stopped_since.get_or_insert(now);
        is_first
    }

    /// Since when the first write finds no room; `None` = it was not seen that it finds none.
    pub fn stopped_since(&self) -> Option<Duration> {
        self.stopped_since
    }

    /// The first write was written, or none waits any more. Answers since when there was no room.
    pub fn note_written(&mut self) -> Option<Duration> {
        self.stopped_since.take()
    }

    /// Whether no write waits.
    pub fn has_no_writes(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Keeps an acknowledgement until it is `due`.
    pub fn delay(&mut self, ticket: Ticket, acknowledgement: A, due: Duration) {
        self.delayed.push(Delayed { due, ticket, acknowledgement });
    }

    /// Gives the acknowledgements that are due at `now`, each once.
    pub fn take_due(&mut self, now: Duration, mut give: impl FnMut(Ticket, A)) {
        let mut index = 0;
        while let Some(delayed) = self.delayed.get(index) {
            if delayed.due > now {
                index += 1;
                continue;
            }
            let Delayed { ticket, acknowledgement, .. } = self.delayed.swap_remove(index);
            give(ticket, acknowledgement);
        }
    }

    /// How long after `now` the line is to be looked at again; `None` if a nudge or nothing will
    /// come.
    pub fn next_look(&self, now: Duration) -> Option<Duration> {
        let due = self.delayed.iter().map(|delayed| delayed.due.saturating_sub(now)).min();
        let again = (!self.waiting.is_empty()).then_some(LOOK);
        let wait = match (due, again) {
            (Some(due), Some(again)) => due.min(again),
            (due, again) => due.or(again)?,
        };
        Some(wait.max(WAIT_MIN))
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.is_held.store(false, Ordering::Release);
        self.session.nudge();
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Wake, Waker};

    use super::*;
    use crate::CompletionQueue;

    const MS: Duration = Duration::from_millis(1);

    #[derive(Default)]
    struct Woken(AtomicBool);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    #[test]
    fn writes_keep_their_order_and_wait_while_the_line_is_held() {
        let (queue, mut line) = (CompletionQueue::new(), Line::<&str, ()>::default());
        assert!(line.is_free() && line.pop().is_none());
        line.push(Ticket(1), "first");
        line.push(Ticket(2), "second");
        assert!(!line.is_free());
        let (ticket, first) = line.pop().unwrap();
        line.put_back(ticket, first);
        assert_eq!(line.pop(), Some((Ticket(1), "first")));
        let (hold, woken) = (line.hold(queue.sender()), Arc::new(Woken::default()));
        queue.notifier().register(&Waker::from(Arc::clone(&woken)));
        assert_eq!((line.pop(), line.is_free()), (None, false));
        assert!(!woken.0.load(Ordering::Relaxed));
        drop(hold);
        assert!(woken.0.load(Ordering::Relaxed), "the session is nudged");
        assert_eq!(line.pop(), Some((Ticket(2), "second")));
        assert!(line.is_free());
    }

    #[test]
    fn acknowledgements_come_when_they_are_due_and_once() {
        let mut line = Line::<(), u8>::default();
        assert_eq!(line.next_look(MS), None);
        for (number, due) in [(1, 5), (2, 3), (3, 9)] {
            line.delay(Ticket(number), number as u8, due * MS);
        }
        assert!(line.is_free() && !line.is_empty());
        assert_eq!([0, 3, 7].map(|now| line.next_look(now * MS)), [3 * MS, WAIT_MIN, WAIT_MIN].map(Some));
        let mut taken = |now: u32| {
            let mut given = Vec::new();
            line.take_due(now * MS, |ticket, number| given.push((ticket, number)));
            given.sort_unstable();
            given
        };
        assert_eq!(taken(2), []);
        assert_eq!(taken(5), [(Ticket(1), 1), (Ticket(2), 2)]);
        assert_eq!(taken(5), []);
        assert_eq!(taken(9), [(Ticket(3), 3)]);
        assert!(line.is_empty());
    }

    #[test]
    fn a_line_in_which_writes_wait_is_looked_at_soon() {
        let mut line = Line::<(), ()>::default();
        line.delay(Ticket(1), (), 100 * MS);
        assert_eq!(line.next_look(MS), Some(99 * MS));
        line.push(Ticket(2), ());
        assert_eq!(line.next_look(MS), Some(LOOK));
        assert_eq!(line.next_look(95 * MS), Some(5 * MS));
    }

    #[test]
    fn the_time_without_room_counts_from_the_first_try() {
        let mut line = Line::<(), ()>::default();
        assert_eq!(line.note_written(), None);
        assert!(line.note_stopped(2 * MS) && !line.note_stopped(5 * MS));
        assert_eq!(line.stopped_since(), Some(2 * MS));
        assert_eq!(line.note_written(), Some(2 * MS));
        assert_eq!(line.note_written(), None);
    }
}
