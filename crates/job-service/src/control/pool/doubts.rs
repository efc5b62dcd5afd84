//! Locations at which one worker's jobs fail.
//!
//! A worker with a wrong clock or network fails at once, so that it is always free. Left alone it
//! would take all work from the others. A location that is away fails for all workers, and says
//! nothing about other locations. So doubts are kept for each location. A location that a worker
//! does not reach at all is doubted too, but no job waits there for the end of a pause.

use std::collections::BTreeMap;
use std::time::Duration;

use super::job::{Failure, FailureKind};

/// Where one worker's latest jobs failed for reasons that may pass.
#[derive(Debug, Default)]
pub(super) struct Doubts {
    locations: BTreeMap<String, Doubt>,
}

#[derive(Debug)]
struct Doubt {
    /// Failures one after the other: attempts that ran at the same time count as one.
    failures: u32,
    /// When the latest of them was counted.
    failed_at: Duration,
    /// It gets no job with files there until then.
    until: Duration,
    /// When the job began that is to find out whether the location can be read again.
    probe: Option<Duration>,
    /// The worker did not reach the location at all.
    is_out_of_reach: bool,
    /// Why the latest failed.
    message: String,
}

/// Why a worker gets no job with files at a location for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Paused<'d> {
    /// It does not reach the location, which the next job would only be told again.
    pub(super) is_out_of_reach: bool,
    /// What was said of that.
    pub(super) message: &'d str,
}

/// Pauses double so often.
const DOUBLINGS_MAX: u32 = 6;

/// A doubt that nothing was heard of for so long after its pause is forgotten.
const FORGET: Duration = Duration::from_secs(60);

/// Locations that people are told of, and bytes of each one's reason.
const SHOWN_MAX: usize = 3;
const SHOWN_BYTES_MAX: usize = 200;

impl Doubts {
    /// Whether its jobs failed nowhere lately.
    pub(super) fn is_empty(&self) -> bool {
        self.locations.is_empty()
    }

    /// Whether the worker gets no job with files at `location` now.
    pub(super) fn is_paused(&self, now: Duration, location: &str) -> bool {
        self.locations.get(location).is_some_and(|doubt| now < doubt.until)
    }

    /// Why no job with files at `location` waits for the worker. It gets none for longer than
    /// `most` from now on, or none now because it does not reach the location. `None` = it may get
    /// one before, or has one that is to find out.
    pub(super) fn paused_beyond(&self, now: Duration, location: &str, most: Duration) -> Option<Paused<'_>> {
        let Doubt { until, probe, is_out_of_reach, message, .. } = self.locations.get(location)?;
        let most = if *is_out_of_reach { Duration::ZERO } else { most };
        let is_long = probe.is_none() && *until > now.saturating_add(most);
        is_long.then_some(Paused { is_out_of_reach: *is_out_of_reach, message })
    }

    /// Whether jobs with files at `location` failed, so that one alone finds out whether they still
    /// do.
    pub(super) fn has_failed_at(&self, location: &str) -> bool {
        self.locations.contains_key(location)
    }

    /// A job with files at `location`, which is not paused, begins. Where the ones before failed it
    /// is the only one until it ends, or `longest` has passed.
    pub(super) fn begin(&mut self, now: Duration, location: &str, longest: Duration) {
        if let Some(doubt) = self.locations.get_mut(location) {
            (doubt.until, doubt.probe) = (now + longest, Some(now));
        }
    }

    /// A job that `began` then failed for a reason that may pass, or did not reach its files. The
    /// next begins `pause` later, and twice as long after each one that was begun and failed after
    /// that. Jobs that ran when the first of them failed say nothing new.
    pub(super) fn failed(
        &mut self,
        now: Duration,
        began: Duration,
        location: &str,
        pause: Duration,
        failure: &Failure,
    ) {
        let doubt = self.locations.entry(location.to_owned()).or_insert_with(|| Doubt {
            failures: 0,
            failed_at: Duration::ZERO,
            until: Duration::ZERO,
            probe: None,
            is_out_of_reach: false,
            message: String::new(),
        });
        failure.message.clone_into(&mut doubt.message);
        doubt.is_out_of_reach = failure.kind == FailureKind::Unavailable;
        if doubt.failures > 0 && began <= doubt.failed_at && doubt.probe != Some(began) {
            return;
        }
        doubt.until = now + pause.saturating_mul(1 << doubt.failures.min(DOUBLINGS_MAX));
        doubt.failures += 1;
        (doubt.failed_at, doubt.probe) = (now, None);
    }

    /// A job ended that read its files.
    pub(super) fn went_well(&mut self, location: &str) {
        self.locations.remove(location);
    }

    /// A job that `began` then ended in a way that says nothing of its files: if it was to find
    /// out, the next one is.
    pub(super) fn said_nothing(&mut self, now: Duration, began: Duration, location: &str) {
        if let Some(doubt) = self.locations.get_mut(location)
            && doubt.probe == Some(began)
        {
            (doubt.until, doubt.probe) = (now, None);
        }
    }

    /// Forgets what is long ago.
    pub(super) fn forget(&mut self, now: Duration) {
        self.locations.retain(|_, doubt| now <= doubt.until + FORGET);
    }

    /// For people: where, how often and why; empty = nowhere. Of many locations the first ones.
    pub(super) fn shown(&self) -> String {
        let one = |(location, Doubt { failures, message, .. }): (&String, &Doubt)| {
            let end = message.floor_char_boundary(SHOWN_BYTES_MAX);
            format!("{failures} failed at {location}: {}", message.get(..end).unwrap_or_default())
        };
        let mut shown: Vec<String> = self.locations.iter().take(SHOWN_MAX).map(one).collect();
        if self.locations.len() > SHOWN_MAX {
            shown.push(format!("and at {} other locations", self.locations.len() - SHOWN_MAX));
        }
        shown.join("; ")
    }
}
