//! Whether what clients saw at the same time could have happened one after the other.
//!
//! A *history* is a list of operations on one object, each with the moments it began and ended at.
//! It is linearizable if a [`Model`] of the object allows some order of the operations in which
//! each takes effect between its two moments. An operation whose client got no answer may have
//! taken effect at any moment after it began, or never.
//!
//! [`check`] tries orders and remembers which sets of operations led to which states: the search of
//! Wing and Gong with the cache of Lowe (2017). Its cost grows with how many operations run at
//! once, not with how many there are. Operations without an answer run at once with all that come
//! later, so they are tried last. Most never took effect; where such an operation is tried, only a
//! later one that should have seen it shows that. Objects do not influence each other: histories
//! are checked one by one.

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
    type Output: Clone + Eq + Hash + Debug;

    /// What it holds at first.
    fn initial() -> Self::State;

    /// What it answers to `input`, and what it holds then.
    fn step(state: &Self::State, input: &Self::Input) -> (Self::Output, Self::State);

    /// Whether `input`, whose client got no answer, need not be tried in `state`, in a history of
    /// these `answers`. It contradicts them, or whatever order explains them with it explains them
    /// without it.
    fn is_idle(_state: &Self::State, _input: &Self::Input, _answers: &HashSet<&Self::Output>) -> bool {
        false
    }
}

/// One operation of a history. Moments are of one clock, of any unit.
#[derive(Clone, Debug)]
pub struct Operation<M: Model> {
    /// The client that asked; for reports.
    pub client: usize,
    /// When it was asked.
    pub begin: u64,
    /// When the answer came, and what it was; `None` if none came.
    pub end: Option<(u64, M::Output)>,
    /// What was asked.
    pub input: M::Input,
}

/// A history that no order explains, or none that was found in time.
#[derive(Clone, Debug)]
pub struct Anomaly {
    /// The longest order that was found, and the operations that could not follow it.
    pub explanation: String,
}

/// Whether `history`, in any order, is linearizable.
///
/// # Errors
/// It is not, or that takes more than [`STATES_MAX`] states to decide: the operations are shown.
pub fn check<M: Model>(history: &[Operation<M>]) -> Result<(), Anomaly> {
    let mut search = Search::new(history);
    match search.run() {
        true => Ok(()),
        false => Err(search.explain()),
    }
}

/// States after which a search gives up: what is undecided is a failure of the test, and not one of
/// the machine's memory.
pub const STATES_MAX: usize = 1_000_000;

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

/// A turn at which an operation is tried: below the count of operations those with an answer, then
/// those without.
type Candidate = usize;

struct Search<'h, M: Model> {
    /// By their beginnings.
    operations: Vec<&'h Operation<M>>,
    answers: HashSet<&'h M::Output>,
    taken: Taken,
    /// The order so far: candidates, and the states before them.
    order: Vec<(Candidate, M::State)>,
    state: M::State,
    seen: HashSet<(Taken, M::State)>,
    longest: Vec<usize>,
}

impl<'h, M: Model> Search<'h, M> {
    fn new(history: &'h [Operation<M>]) -> Self {
        let answers = history.iter().filter_map(|operation| Some(&operation.end.as_ref()?.1)).collect();
        let mut operations: Vec<&Operation<M>> = history.iter().collect();
        operations.sort_by_key(|operation| operation.begin);
        let taken = Taken::new(operations.len());
        let (order, seen, longest) = (Vec::new(), HashSet::new(), Vec::new());
        Self { operations, answers, taken, order, state: M::initial(), seen, longest }
    }

    fn run(&mut self) -> bool {
        // The next candidate to try at this depth.
        let mut candidate = 0;
        loop {
            if self.is_complete() {
                return true;
            }
            match self.next_from(candidate) {
                Some(_) if self.seen.len() >= STATES_MAX => return false,
                Some(chosen) => {
                    let index = self.operation_of(chosen);
                    candidate = chosen + 1;
                    let input = &self.operations[index].input;
                    if chosen >= self.operations.len() && M::is_idle(&self.state, input, &self.answers) {
                        continue;
                    }
                    let (output, state) = M::step(&self.state, input);
                    let expected = self.operations[index].end.as_ref().map(|(_, output)| output);
                    if expected.is_some_and(|expected| *expected != output) {
                        continue;
                    }
                    self.taken.flip(index);
                    if !self.seen.insert((self.taken.clone(), state.clone())) {
                        self.taken.flip(index);
                        continue;
                    }
                    self.order.push((chosen, std::mem::replace(&mut self.state, state)));
                    if self.order.len() > self.longest.len() {
                        let indexes = self.order.iter().map(|(chosen, _)| self.operation_of(*chosen));
                        self.longest = indexes.collect();
                    }
                    candidate = 0;
                }
                None => {
                    let Some((chosen, state)) = self.order.pop() else { return false };
                    self.taken.flip(self.operation_of(chosen));
                    self.state = state;
                    candidate = chosen + 1;
                }
            }
        }
    }

    /// Whether everything that was answered is in the order: the rest may never have taken effect.
    fn is_complete(&self) -> bool {
        let mut operations = self.operations.iter().enumerate();
        operations.all(|(index, operation)| self.taken.has(index) || operation.end.is_none())
    }

    fn operation_of(&self, candidate: Candidate) -> usize {
        candidate % self.operations.len()
    }

    /// The first candidate from `from` on that may come next: it began before any that is left has
    /// ended.
    fn next_from(&self, from: Candidate) -> Option<Candidate> {
        let count = self.operations.len();
        let ends = (0..count).filter(|index| !self.taken.has(*index));
        let earliest_end =
            ends.filter_map(|index| self.operations[index].end.as_ref().map(|(end, _)| *end)).min();
        (from..2 * count).find(|candidate| {
            let (index, has_answer) = (candidate % count, *candidate < count);
            let operation = self.operations[index];
            operation.end.is_some() == has_answer
                && !self.taken.has(index)
                && earliest_end.is_none_or(|end| operation.begin <= end)
        })
    }

    fn explain(&self) -> Anomaly {
        use std::fmt::Write;
        let verdict = if self.seen.len() >= STATES_MAX { "undecided" } else { "not linearizable" };
        let mut explanation = format!("{verdict} after {} states; the longest order:\n", self.seen.len());
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
