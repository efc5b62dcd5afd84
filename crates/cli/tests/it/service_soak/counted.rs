//! What a client counts and lists: each of it once, though some of it has no answer.

use std::collections::{BTreeMap, BTreeSet};

use super::reader::Reader;

/// A counter and a list of one client, each longer by one with each batch.
#[derive(Default)]
pub(super) struct Counted {
    acknowledged: BTreeSet<u64>,
    /// Elements that had no answer, and may have been added.
    unanswered: BTreeSet<u64>,
    last: u64,
    /// The counter's value and the list as they were checked last.
    checked: (u64, Vec<u64>),
}

pub(super) fn counter(client: u32) -> String {
    format!("counter:{client}")
}

pub(super) fn list(client: u32) -> String {
    format!("list:{client}")
}

impl Counted {
    /// Adds the next element of client `number` to what is sent.
    pub(super) fn add(&mut self, number: u32, pipe: &mut redis::Pipeline) {
        self.last += 1;
        self.unanswered.insert(self.last);
        pipe.cmd("INCR").arg(counter(number)).cmd("RPUSH").arg(list(number)).arg(self.last);
    }

    /// The element that was added last was acknowledged, with the counter's value and the list's
    /// length. Returns that element.
    pub(super) fn acknowledge(&mut self, number: u32, (value, length): (u64, u64)) -> u64 {
        self.unanswered.remove(&self.last);
        self.acknowledged.insert(self.last);
        self.is_possible(&counter(number), value);
        self.is_possible(&list(number), length);
        self.last
    }

    /// Whether anything was added that there is now for sure.
    pub(super) fn is_there(&self) -> bool {
        !self.acknowledged.is_empty()
    }

    fn is_possible(&self, key: &str, found: u64) {
        let (least, more) = (self.acknowledged.len() as u64, self.unanswered.len() as u64);
        assert!(
            (least..=least + more).contains(&found),
            "{key}: {found}, of {least} acknowledged and {more} without an answer"
        );
    }

    /// Expects the counter and the list of client `number` to have each acknowledged element once,
    /// and those without an answer at most once.
    ///
    /// What was acknowledged lies in the list before all that was sent after it.
    pub(super) fn check(&mut self, number: u32, connection: &mut Reader) {
        let value: Option<u64> =
            redis::cmd("GET").arg(counter(number)).query(connection).expect("a counter's value");
        self.is_possible(&counter(number), value.unwrap_or(0));
        let key = list(number);
        let found: Vec<u64> =
            redis::cmd("LRANGE").arg(&key).arg(0).arg(-1).query(connection).expect("a list's elements");
        self.is_possible(&key, found.len() as u64);
        let once: BTreeSet<u64> = found.iter().copied().collect();
        assert!(once.len() == found.len(), "{key}: {} elements, {} of them differ", found.len(), once.len());
        let lost: Vec<&u64> = self.acknowledged.difference(&once).take(5).collect();
        assert!(lost.is_empty(), "{key}: {lost:?} were acknowledged and are not there");
        let mut highest = 0;
        for &element in &found {
            let is_late = element < highest;
            assert!(
                self.unanswered.contains(&element) || !is_late && self.acknowledged.contains(&element),
                "{key}: {element} behind {highest}, or never added"
            );
            highest = highest.max(element);
        }
        self.checked = (value.unwrap_or(0), found);
    }

    /// Stands for no element.
    pub(super) const NONE: u64 = 0;

    /// How many of those without an answer the counter had counted as it was checked last.
    pub(super) fn unanswered_count(&self) -> u64 {
        self.checked.0 - self.acknowledged.len() as u64
    }

    /// Elements without an answer that were in the list as it was checked last, by the acknowledged
    /// element before them, or [`NONE`](Self::NONE).
    pub(super) fn unanswered_behind(&self) -> BTreeMap<u64, Vec<u64>> {
        let mut behind = BTreeMap::<u64, Vec<u64>>::new();
        let mut last = Self::NONE;
        for &element in &self.checked.1 {
            match self.acknowledged.contains(&element) {
                true => last = element,
                false => behind.entry(last).or_default().push(element),
            }
        }
        behind
    }
}
