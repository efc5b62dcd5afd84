//! What a peer sizes, and how much of it is taken: each field of a message that becomes memory,
//! work or time.
//!
//! The constants below are enforced, and [`BOUNDS`] is made of them. SECURITY.md prints it, and a
//! test sends one more than each.

use std::time::Duration;

use tonic::Status;

/// What becomes of a message beyond a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beyond {
    /// It is refused, with the field, the bound and what was found, and nothing of it is done.
    Refused,
    /// The rest of the field is left out.
    Cut,
}

/// How much of one field is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// The field, as `service.proto` names it.
    pub field: &'static str,
    /// So much is taken.
    pub max: u64,
    /// What is counted.
    pub unit: &'static str,
    /// What becomes of more.
    pub beyond: Beyond,
}

const fn refused(field: &'static str, max: u64, unit: &'static str) -> Bound {
    Bound { field, max, unit, beyond: Beyond::Refused }
}

const fn cut(field: &'static str, max: u64, unit: &'static str) -> Bound {
    Bound { field, max, unit, beyond: Beyond::Cut }
}

/// A scheduler's plan has a place for each slot of a worker.
pub(crate) const SLOTS: Bound = refused("Worker.slots", 4096, "slots");
pub(crate) const SLOTS_ALL: Bound = refused("Worker.slots of all workers", 65_536, "slots");
pub(crate) const WORKERS: Bound = refused("workers at a time", 10_000, "workers");
pub(crate) const CLIENTS: Bound = refused("databases at a time", 100_000, "databases");
pub(crate) const WORKER_NAME: Bound = refused("Worker.name", 1024, "bytes");
pub(crate) const WORKER_ZONE: Bound = refused("Worker.zone", 1024, "bytes");
pub(crate) const WORKER_BUILD: Bound = refused("Worker.build", 1024, "bytes");
pub(crate) const HAS: Bound = refused("Worker.has", 4096, "names");
pub(crate) const HAS_BYTES: Bound = refused("a name in Worker.has", 1024, "bytes");
pub(crate) const ELSEWHERE: Bound = refused("Elsewhere.slots", 4096, "slots");
pub(crate) const GIVES_WAY: Bound = refused("Elsewhere.gives_way_ms", 4096, "entries");
pub(crate) const HELD: Bound = refused("PullRequest.held, BeatRequest.held", 16_384, "jobs");
pub(crate) const TENANT: Bound = refused("SubmitRequest.tenant", 1024, "bytes");
pub(crate) const LOCATION: Bound = refused("SubmitRequest.location", 4096, "bytes");
pub(crate) const ZONE: Bound = refused("SubmitRequest.zone", 1024, "bytes");
pub(crate) const NEEDS: Bound = refused("SubmitRequest.needs", 1024, "names");
pub(crate) const NEEDS_BYTES: Bound = refused("a name in SubmitRequest.needs", 1024, "bytes");
pub(crate) const INPUT_BYTES: Bound = refused("SubmitRequest.input_bytes", 1 << 46, "bytes");
/// Also from below, by as much: less than a millionth is refused too, and so is what is no number.
pub(crate) const WEIGHT: Bound = refused("SubmitRequest.weight, and 1 divided by it", 1_000_000, "");
pub(crate) const WAITING: Bound = refused("FollowRequest.waiting", 1 << 20, "jobs");
pub(crate) const TAKEN: Bound = refused("FollowRequest.taken", 1 << 20, "jobs");
pub(crate) const BEGUN: Bound = refused("FollowRequest.begun", 1 << 20, "jobs");
pub(crate) const SYNCING: Bound = refused("Attempts.syncing", 1 << 20, "jobs");
pub(crate) const TRIED: Bound = refused("Attempts.tried", 1 << 20, "jobs");
/// A text that is too long must not keep an end from being told.
pub(crate) const FAILURE: Bound = cut("Failure.message, Tried.failure", 4096, "bytes");
pub(crate) const TIME: Bound = cut("times in answers, ends and urgency", 31_536_000, "seconds");

/// All of them, as SECURITY.md prints them.
pub const BOUNDS: &[Bound] = &[
    SLOTS,
    SLOTS_ALL,
    WORKERS,
    CLIENTS,
    WORKER_NAME,
    WORKER_ZONE,
    WORKER_BUILD,
    HAS,
    HAS_BYTES,
    ELSEWHERE,
    GIVES_WAY,
    HELD,
    TENANT,
    LOCATION,
    ZONE,
    NEEDS,
    NEEDS_BYTES,
    INPUT_BYTES,
    WEIGHT,
    WAITING,
    TAKEN,
    BEGUN,
    SYNCING,
    TRIED,
    FAILURE,
    TIME,
];

impl Bound {
    /// Whether `found` is taken.
    ///
    /// # Errors
    /// It is more than [`max`](Self::max).
    pub(crate) fn check(&self, found: u64) -> Result<(), Status> {
        let Self { field, max, unit, .. } = self;
        if found <= *max {
            return Ok(());
        }
        Err(Status::invalid_argument(format!("expected at most {max} {unit} of {field}, found {found}")))
    }

    /// Whether so many are taken.
    pub(crate) fn count(&self, found: usize) -> Result<(), Status> {
        self.check(found as u64)
    }

    /// `text`, or as much of it as is taken.
    pub(crate) fn cut_text(&self, mut text: String) -> String {
        text.truncate(text.floor_char_boundary(self.max as usize));
        text
    }
}

/// A time that a peer says, as far as it is believed: sums of these fit into what counts them.
pub(crate) fn time(said: Duration) -> Duration {
    said.min(Duration::from_secs(TIME.max))
}
