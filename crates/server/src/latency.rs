//! What took longer than operators wanted, by kind of event, over time.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Samples of one event that are kept, one a second at most.
pub(crate) const SAMPLES_MAX: usize = 160;

/// The worst of one second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sample {
    pub(crate) unix_s: u64,
    pub(crate) ms: u64,
}

/// What is known of one kind of event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Event {
    /// Oldest first.
    pub(crate) samples: VecDeque<Sample>,
    /// The worst of all times.
    pub(crate) worst_ms: u64,
}

/// Events of all server threads.
#[derive(Debug, Default)]
pub(crate) struct Latency {
    events: Mutex<BTreeMap<&'static str, Event>>,
}

impl Latency {
    fn events(&self) -> MutexGuard<'_, BTreeMap<&'static str, Event>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `event` took `ms` milliseconds.
    pub(crate) fn note(&self, event: &'static str, unix_s: u64, ms: u64) {
        let mut events = self.events();
        let event = events.entry(event).or_default();
        event.worst_ms = event.worst_ms.max(ms);
        match event.samples.back_mut() {
            Some(last) if last.unix_s == unix_s => last.ms = last.ms.max(ms),
            _ => {
                event.samples.push_back(Sample { unix_s, ms });
                if event.samples.len() > SAMPLES_MAX {
                    event.samples.pop_front();
                }
            }
        }
    }

    /// All events by name.
    pub(crate) fn all(&self) -> Vec<(&'static str, Event)> {
        self.events().iter().map(|(name, event)| (*name, event.clone())).collect()
    }

    /// The samples of one event.
    pub(crate) fn samples(&self, name: &[u8]) -> VecDeque<Sample> {
        let events = self.events();
        let found = events.iter().find(|(known, _)| known.as_bytes().eq_ignore_ascii_case(name));
        found.map(|(_, event)| event.samples.clone()).unwrap_or_default()
    }

    /// Forgets this event, or all; how many there were.
    pub(crate) fn reset(&self, name: Option<&[u8]>) -> usize {
        let mut events = self.events();
        let before = events.len();
        let is_meant = |known: &str| name.is_none_or(|name| known.as_bytes().eq_ignore_ascii_case(name));
        events.retain(|known, _| !is_meant(known));
        before - events.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_has_one_sample_the_worst() {
        let latency = Latency::default();
        for (second, ms) in [(1, 5), (1, 9), (1, 7), (2, 3)] {
            latency.note("command", second, ms);
        }
        (10..10 + SAMPLES_MAX as u64).for_each(|second| latency.note("fast-command", second, 1));
        latency.note("fast-command", 500, 2);
        let samples: Vec<(u64, u64)> =
            latency.samples(b"COMMAND").iter().map(|sample| (sample.unix_s, sample.ms)).collect();
        assert_eq!(samples, [(1, 9), (2, 3)]);
        let all = latency.all();
        assert_eq!((all[0].1.worst_ms, all[1].1.samples.len()), (9, SAMPLES_MAX));
        assert_eq!(all[1].1.samples[0].unix_s, 11, "the oldest went");
        assert_eq!(latency.reset(Some(b"nonsense")), 0);
        assert_eq!(latency.reset(Some(b"command")), 1);
        assert_eq!(latency.reset(None), 1);
        assert!(latency.all().is_empty());
    }
}
