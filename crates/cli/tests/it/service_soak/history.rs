//! What a client is known to have done, in its order, to be done again elsewhere.

use super::counted::{Counted, counter, list};
use super::keys::{self, State};

/// What was done to one client's keys, which no other client writes.
pub(super) enum Operation {
    /// A key became the value of a round, or nothing.
    Put(u32, State),
    /// An element was added to the list, and the counter counted it.
    Add(u64),
}

/// Operations of one client that were acknowledged, each at its place. Operations without an answer
/// that were found done stand where they were found.
///
/// An operation without an answer on a key that was written later is left out. Nothing can tell
/// whether it was done, and nothing depends on it.
#[derive(Default)]
pub(super) struct History(Vec<Operation>);

/// Operations that are sent together.
const TOGETHER: usize = 200;

impl History {
    pub(super) fn add(&mut self, operation: Operation) {
        self.0.push(operation);
    }

    /// Does all of it again, as client `number`, in its order, where nothing was done before.
    /// `counted` knows what became of its counter and its list, and what expires late does so at
    /// `late_ms`.
    pub(super) fn replay(
        &self,
        number: u32,
        late_ms: u64,
        counted: &Counted,
        connection: &mut redis::Connection,
    ) {
        let behind = counted.unanswered_behind();
        let push = |pipe: &mut redis::Pipeline, elements: &[u64]| {
            for element in elements {
                pipe.cmd("RPUSH").arg(list(number)).arg(element).ignore();
            }
        };
        let push_behind = |pipe: &mut redis::Pipeline, element: u64| {
            push(pipe, behind.get(&element).map_or(&[], Vec::as_slice));
        };
        let mut pipe = redis::pipe();
        push_behind(&mut pipe, Counted::NONE);
        // When one was counted that had no answer does not show.
        for _ in 0..counted.unanswered_count() {
            pipe.cmd("INCR").arg(counter(number)).ignore();
        }
        for (operation, at) in self.0.iter().zip(1..) {
            match operation {
                Operation::Put(key, state) => keys::put(&mut pipe, *key, *state, late_ms),
                Operation::Add(element) => {
                    pipe.cmd("INCR").arg(counter(number)).ignore();
                    push(&mut pipe, &[*element]);
                    push_behind(&mut pipe, *element);
                }
            }
            if at % TOGETHER == 0 {
                send(&mut pipe, connection);
            }
        }
        send(&mut pipe, connection);
    }
}

fn send(pipe: &mut redis::Pipeline, connection: &mut redis::Connection) {
    if !pipe.is_empty() {
        pipe.query::<()>(connection).expect("replies");
        pipe.clear();
    }
}
