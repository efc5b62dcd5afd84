//! Places at which one worker's jobs fail.
//!
//! A worker whose clock or network is wrong fails at once, so that it is always free: left alone it would take all work from the others. A place that is
//! away fails for all workers, and says nothing about others; so what is kept is kept for each place.

use std::collections::BTreeMap;
use std::time::Duration;

/// Where one worker's latest jobs failed for reasons that may pass.
#[derive(Debug, Default)]
pub(super) struct Doubts {
    places: BTreeMap<String, Doubt>,
}

#[derive(Debug)]
struct Doubt {
    /// One after the other.
    failures: u32,
    /// It gets no job with files there until then.
    until: Duration,
    /// Why the latest failed.
    message: String,
}

/// Pauses double so often.
const DOUBLINGS_MAX: u32 = 6;

/// A doubt that nothing was heard of for so long after its pause is forgotten.
const FORGET: Duration = Duration::from_secs(60);

impl Doubts {
    /// Whether the worker gets no job with files at `place` now.
    pub(super) fn is_paused(&self, now: Duration, place: &str) -> bool {
        self.places.get(place).is_some_and(|doubt| now < doubt.until)
    }

    /// Whether a job with files at `place` may begin. Where the ones before failed it is the only one until it ends, or `longest` has passed.
    pub(super) fn begin(&mut self, now: Duration, place: &str, longest: Duration) -> bool {
        if self.is_paused(now, place) {
            return false;
        }
        if let Some(doubt) = self.places.get_mut(place) {
            doubt.until = now + longest;
        }
        true
    }

    /// A job failed for a reason that may pass: the next begins `pause` later, and twice as long after each that fails then.
    pub(super) fn failed(&mut self, now: Duration, place: &str, pause: Duration, message: &str) {
        let fresh = Doubt { failures: 0, until: Duration::ZERO, message: String::new() };
        let doubt = self.places.entry(place.to_owned()).or_insert(fresh);
        doubt.until = now + pause.saturating_mul(1 << doubt.failures.min(DOUBLINGS_MAX));
        doubt.failures += 1;
        message.clone_into(&mut doubt.message);
    }

    /// A job ended that read its files.
    pub(super) fn went_well(&mut self, place: &str) {
        self.places.remove(place);
    }

    /// A job ended in a way that says nothing of its files.
    pub(super) fn said_nothing(&mut self, now: Duration, place: &str) {
        if let Some(doubt) = self.places.get_mut(place) {
            doubt.until = doubt.until.min(now);
        }
    }

    /// Forgets what is long ago.
    pub(super) fn forget(&mut self, now: Duration) {
        self.places.retain(|_, doubt| now <= doubt.until + FORGET);
    }

    /// For people: where, how often and why; empty = nowhere.
    pub(super) fn shown(&self) -> String {
        let one = |(place, Doubt { failures, message, .. }): (&String, &Doubt)| {
            format!("{failures} failed at {place}: {message}")
        };
        self.places.iter().map(one).collect::<Vec<_>>().join("; ")
    }
}
