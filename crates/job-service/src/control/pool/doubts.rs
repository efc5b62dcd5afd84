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
    /// One after the other: those of attempts that ran at the same time are one.
    failures: u32,
    /// When the latest of them was counted.
    failed_at: Duration,
    /// It gets no job with files there until then.
    until: Duration,
    /// When the job began that is to find out whether the place can be read again.
    probe: Option<Duration>,
    /// Why the latest failed.
    message: String,
}

/// Pauses double so often.
const DOUBLINGS_MAX: u32 = 6;

/// A doubt that nothing was heard of for so long after its pause is forgotten.
const FORGET: Duration = Duration::from_secs(60);

/// Places that people are told of, and bytes of each one's reason.
const SHOWN_MAX: usize = 3;
const SHOWN_BYTES_MAX: usize = 200;

impl Doubts {
    /// Whether the worker gets no job with files at `place` now.
    pub(super) fn is_paused(&self, now: Duration, place: &str) -> bool {
        self.places.get(place).is_some_and(|doubt| now < doubt.until)
    }

    /// Why the worker gets no job with files at `place` for longer than `most` from now on; `None` = it may get one before, or has one that is to
    /// find out.
    pub(super) fn paused_beyond(&self, now: Duration, place: &str, most: Duration) -> Option<&str> {
        let doubt = self.places.get(place)?;
        let is_long = doubt.probe.is_none() && doubt.until > now.saturating_add(most);
        is_long.then_some(doubt.message.as_str())
    }

    /// Whether a job with files at `place` may begin. Where the ones before failed it is the only one until it ends, or `longest` has passed.
    pub(super) fn begin(&mut self, now: Duration, place: &str, longest: Duration) -> bool {
        if self.is_paused(now, place) {
            return false;
        }
        if let Some(doubt) = self.places.get_mut(place) {
            (doubt.until, doubt.probe) = (now + longest, Some(now));
        }
        true
    }

    /// A job that `began` then failed for a reason that may pass: the next begins `pause` later, and twice as long after each that was begun and failed after that.
    /// Jobs that ran when the first of them failed say nothing new.
    pub(super) fn failed(
        &mut self,
        now: Duration,
        began: Duration,
        place: &str,
        pause: Duration,
        message: &str,
    ) {
        let doubt = self.places.entry(place.to_owned()).or_insert_with(|| Doubt {
            failures: 0,
            failed_at: Duration::ZERO,
            until: Duration::ZERO,
            probe: None,
            message: String::new(),
        });
        message.clone_into(&mut doubt.message);
        if doubt.failures > 0 && began <= doubt.failed_at && doubt.probe != Some(began) {
            return;
        }
        doubt.until = now + pause.saturating_mul(1 << doubt.failures.min(DOUBLINGS_MAX));
        doubt.failures += 1;
        (doubt.failed_at, doubt.probe) = (now, None);
    }

    /// A job ended that read its files.
    pub(super) fn went_well(&mut self, place: &str) {
        self.places.remove(place);
    }

    /// A job that `began` then ended in a way that says nothing of its files: if it was to find out, the next one is.
    pub(super) fn said_nothing(&mut self, now: Duration, began: Duration, place: &str) {
        if let Some(doubt) = self.places.get_mut(place)
            && doubt.probe == Some(began)
        {
            (doubt.until, doubt.probe) = (now, None);
        }
    }

    /// Forgets what is long ago.
    pub(super) fn forget(&mut self, now: Duration) {
        self.places.retain(|_, doubt| now <= doubt.until + FORGET);
    }

    /// For people: where, how often and why; empty = nowhere. Of many places the first ones.
    pub(super) fn shown(&self) -> String {
        let one = |(place, Doubt { failures, message, .. }): (&String, &Doubt)| {
            let end = message.floor_char_boundary(SHOWN_BYTES_MAX);
            format!("{failures} failed at {place}: {}", message.get(..end).unwrap_or_default())
        };
        let mut shown: Vec<String> = self.places.iter().take(SHOWN_MAX).map(one).collect();
        if self.places.len() > SHOWN_MAX {
            shown.push(format!("and at {} other places", self.places.len() - SHOWN_MAX));
        }
        shown.join("; ")
    }
}
