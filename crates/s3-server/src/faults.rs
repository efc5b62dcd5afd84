//! What goes wrong, and what was asked.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::grants::Deed;
use crate::uploads::{Step, Upload, Uploads};

/// How a server treats requests from now on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Of a thousand requests, how many are refused with `503 SlowDown` before anything is done.
    pub refused_per_mille: u32,
    /// Of a thousand requests, how many are done without an answer: the connection is closed.
    pub lost_per_mille: u32,
    /// Of a thousand requests that end an upload in parts, how many more are.
    pub lost_ends_per_mille: u32,
    /// Whether writes are refused as by a store that may be read only.
    pub is_read_only: bool,
    /// Whether writes are refused as by a store without room.
    pub is_full: bool,
    /// Whether there is no bucket.
    pub is_bucket_missing: bool,
    /// How long every answer is held back.
    pub delay: Duration,
}

/// Requests so far, failed ones included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// `GET` and `HEAD` of objects.
    pub reads: u64,
    /// Of these the ones that ask for no bytes: `HEAD`.
    pub heads: u64,
    /// `PUT` and `POST`, but for names to remove.
    pub writes: u64,
    /// `GET` of a bucket: of its objects, or of its uploads.
    pub lists: u64,
    /// `DELETE`, and `POST` of names to remove.
    pub removals: u64,
    /// Refused on purpose.
    pub refused: u64,
    /// Answers kept back for good on purpose.
    pub lost: u64,
    /// Uploads in parts that have begun.
    pub uploads: u64,
    /// Parts that have come.
    pub parts: u64,
    /// Uploads that have become objects.
    pub completed_uploads: u64,
    /// Of these the ones without an answer to the writer.
    pub lost_ends: u64,
}

/// What is to happen to one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Answered,
    Lost,
    SlowDown,
    Denied,
    Full,
    NoBucket,
}

/// Requests that were denied, of which more are not kept.
const DENIED_MAX: usize = 10_000;

#[derive(Debug)]
pub(crate) struct Plan {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    faults: Faults,
    counts: Counts,
    denied: Vec<String>,
    uploads: Uploads,
    random: fastrand::Rng,
}

impl Plan {
    pub(crate) fn new(seed: u64) -> Self {
        let random = fastrand::Rng::with_seed(seed);
        Self {
            state: Mutex::new(State {
                faults: Faults::default(),
                counts: Counts::default(),
                denied: Vec::new(),
                uploads: Uploads::default(),
                random,
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set(&self, faults: Faults) {
        self.lock().faults = faults;
    }

    pub(crate) fn counts(&self) -> Counts {
        self.lock().counts
    }

    /// Keeps a request that its user has no grant for.
    pub(crate) fn deny(&self, what: String) {
        let mut state = self.lock();
        if state.denied.len() < DENIED_MAX {
            state.denied.push(what);
        }
    }

    pub(crate) fn denied(&self) -> Vec<String> {
        self.lock().denied.clone()
    }

    /// Parts of `key` were dealt with as `step` says; `fate`: whether that is told.
    pub(crate) fn note(&self, key: &str, step: &Step, fate: Fate) {
        let mut state = self.lock();
        let State { counts, uploads, .. } = &mut *state;
        match step {
            Step::Begin => counts.uploads += 1,
            Step::Part(_) => counts.parts += 1,
            Step::Complete(_) => {
                counts.completed_uploads += 1;
                counts.lost_ends += u64::from(fate == Fate::Lost);
            }
            Step::Abort(_) => {}
        }
        uploads.note(key, step);
    }

    /// An upload of `key` has begun, and is called `id`.
    pub(crate) fn begin(&self, key: &str, id: &str) {
        self.lock().uploads.begin(key, id);
    }

    pub(crate) fn unfinished_uploads(&self) -> Vec<Upload> {
        self.lock().uploads.unfinished()
    }

    pub(crate) fn completed_uploads(&self) -> BTreeSet<String> {
        self.lock().uploads.completed()
    }

    /// Counts a request; what is to happen to it, and how long its answer is held back.
    pub(crate) fn next(&self, method: &str, deed: &Deed, step: Option<&Step>) -> (Fate, Duration) {
        let mut state = self.lock();
        let State { faults, counts, random, .. } = &mut *state;
        let is_write = matches!(method, "PUT" | "POST" | "DELETE");
        match method {
            _ if deed.is_removal() => counts.removals += 1,
            "PUT" | "POST" => counts.writes += 1,
            _ if deed.is_list() => counts.lists += 1,
            _ => {
                counts.reads += 1;
                counts.heads += u64::from(method == "HEAD");
            }
        }
        let die = random.u32(0..1000);
        let ends = if matches!(step, Some(Step::Complete(_))) { faults.lost_ends_per_mille } else { 0 };
        let fate = if faults.is_bucket_missing {
            Fate::NoBucket
        } else if faults.is_read_only && is_write {
            Fate::Denied
        } else if faults.is_full && is_write && method != "DELETE" {
            Fate::Full
        } else if die < faults.refused_per_mille {
            counts.refused += 1;
            Fate::SlowDown
        } else if die < faults.refused_per_mille + faults.lost_per_mille + ends {
            counts.lost += 1;
            Fate::Lost
        } else {
            Fate::Answered
        };
        (fate, faults.delay)
    }
}
