//! Whether what clients saw at the same time could have happened one after the other.
//!
//! A *history* is a list of operations on one object, each with the moments it began and ended at. It is linearizable if
//! the operations can be put into an order that a [`Model`] of the object allows and in which each takes effect between its
//! two moments. An operation whose client never heard an answer may have taken effect at any moment after it began, or
//! never.
//!
//! [`check`] tries orders, the earliest end first, and remembers which sets of operations led to which states: the search
//! of Wing and Gong with the cache of Lowe (2017). Its cost grows with how many operations run at once, not with how many
//! there are. Objects do not influence each other: histories are checked one by one.

mod objects;

use std::collections::HashSet;
use std::fmt::Debug;
use std::hash::Hash;

pub use objects::{Answer, Counters, CountersInput, List, ListInput, Text, TextInput};

/// What an object does, one operation after the other.
pub trait Model {
    /// What the object holds.
    type State: Clone + Eq + Hash + Debug;
    /// What is asked of it.
    type Input: Clone + Debug;
    /// What it answers.
    type Output: Clone + Eq + Debug;

    /// What it holds at first.
    fn initial() -> Self::State;

    /// What it answers to `input`, and what it holds then.
    fn step(state: &Self::State, input: &Self::Input) -> (Self::Output, Self::State);
}

/// One operation of a history. Moments are of one clock, of any unit.
#[derive(Clone, Debug)]
pub struct Operation<M: Model> {
    /// Who asked; for reports.
    pub client: usize,
    /// When it was asked.
    pub begin: u64,
    /// When the answer came, and what it was; `None` if none came.
    pub end: Option<(u64, M::Output)>,
    /// What was asked.
    pub input: M::Input,
}

/// A history that no order explains.
#[derive(Clone, Debug)]
pub struct Anomaly {
    /// The longest order that was found, and the operations that could not follow it.
    pub explanation: String,
}

/// Whether `history`, in any order, is linearizable.
///
/// # Errors
/// It is not: the operations are shown.
pub fn check<M: Model>(history: &[Operation<M>]) -> Result<(), Anomaly> {
    let mut search = Search::new(history);
    match search.run() {
        true => Ok(()),
        false => Err(search.explain()),
    }
}

/// Operations that were taken into an order, as a set of bits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Taken(Vec<u64>);

impl Taken {
    fn new(count: usize) -> Self {
        Self(vec![0; count.div_ceil(64)])
    }

    fn has(&self, index: usize) -> bool {
        self.0[index / 64] >> (index % 64) & 1 == 1
    }

    fn flip(&mut self, index: usize) {
        self.0[index / 64] ^= 1 << (index % 64);
    }
}

struct Search<'h, M: Model> {
    /// By their beginnings.
    operations: Vec<&'h Operation<M>>,
    taken: Taken,
    /// The order so far: operations, and the states before them.
    order: Vec<(usize, M::State)>,
    state: M::State,
    seen: HashSet<(Taken, M::State)>,
    longest: Vec<usize>,
}

impl<'h, M: Model> Search<'h, M> {
    fn new(history: &'h [Operation<M>]) -> Self {
        let mut operations: Vec<&Operation<M>> = history.iter().collect();
        operations.sort_by_key(|operation| operation.begin);
        let taken = Taken::new(operations.len());
        let (order, seen, longest) = (Vec::new(), HashSet::new(), Vec::new());
        Self { operations, taken, order, state: M::initial(), seen, longest }
    }

    fn run(&mut self) -> bool {
        // The next candidate to try at this depth.
        let mut candidate = 0;
        loop {
            if self.is_complete() {
                return true;
            }
            match self.next_from(candidate) {
                Some(index) => {
                    let (output, state) = M::step(&self.state, &self.operations[index].input);
                    let expected = self.operations[index].end.as_ref().map(|(_, output)| output);
                    candidate = index + 1;
                    if expected.is_some_and(|expected| *expected != output) {
                        continue;
                    }
                    self.taken.flip(index);
                    if !self.seen.insert((self.taken.clone(), state.clone())) {
                        self.taken.flip(index);
                        continue;
                    }
                    self.order.push((index, std::mem::replace(&mut self.state, state)));
                    if self.order.len() > self.longest.len() {
                        self.longest = self.order.iter().map(|(index, _)| *index).collect();
                    }
                    candidate = 0;
                }
                None => {
                    let Some((index, state)) = self.order.pop() else { return false };
                    self.taken.flip(index);
                    self.state = state;
                    candidate = index + 1;
                }
            }
        }
    }

    /// Whether everything that was answered is in the order: the rest may never have taken effect.
    fn is_complete(&self) -> bool {
        let mut operations = self.operations.iter().enumerate();
        operations.all(|(index, operation)| self.taken.has(index) || operation.end.is_none())
    }

    /// The first operation from `from` on that may come next: it began before any that is left has ended.
    fn next_from(&self, from: usize) -> Option<usize> {
        let left = |index: &usize| !self.taken.has(*index);
        let ends = (0..self.operations.len()).filter(left);
        let earliest_end =
            ends.filter_map(|index| self.operations[index].end.as_ref().map(|(end, _)| *end)).min();
        let may_be_next = |index: &usize| earliest_end.is_none_or(|end| self.operations[*index].begin <= end);
        (from..self.operations.len()).take_while(may_be_next).find(left)
    }

    fn explain(&self) -> Anomaly {
        use std::fmt::Write;
        let mut explanation = String::new();
        let mut state = M::initial();
        for index in &self.longest {
            let operation = self.operations[*index];
            let (output, next) = M::step(&state, &operation.input);
            let _ = writeln!(explanation, "{}", shown(operation, Some(&output)));
            state = next;
        }
        let _ = writeln!(explanation, "state: {state:?}\nnone of these can follow:");
        for (index, operation) in self.operations.iter().enumerate() {
            if !self.longest.contains(&index) {
                let _ = writeln!(explanation, "{}", shown(operation, None));
            }
        }
        Anomaly { explanation }
    }
}

fn shown<M: Model>(operation: &Operation<M>, explained: Option<&M::Output>) -> String {
    let (client, begin, input) = (operation.client, operation.begin, &operation.input);
    match (&operation.end, explained) {
        (Some((end, output)), _) => format!("client {client} {begin}..{end} {input:?} -> {output:?}"),
        (None, Some(output)) => {
            format!("client {client} {begin}.. {input:?} (no answer; took effect: {output:?})")
        }
        (None, None) => format!("client {client} {begin}.. {input:?} (no answer)"),
    }
}

#[cfg(test)]
mod tests;
