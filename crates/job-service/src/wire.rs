//! Messages, as `proto/service.proto` says, and what they mean here.

use std::time::Duration;

use firn_jobs::{ErrorKind, JobSpec};
use tonic::Status;

use crate::bounds::{self, time};
use crate::control::pool::{
    Attempts, Failure, FailureKind, Held, JobKey, JobRow, JobState, Lease, Order, Outcome, Profile, Rows,
    Timings, Token, WorkerRow,
};
use crate::control::{Elsewhere, Lane};

/// Made from `proto/service.proto`.
#[expect(missing_docs, clippy::allow_attributes, reason = "they are in the file that this is made from")]
pub mod proto {
    tonic::include_proto!("firn.jobs.v1");

    /// The file that this is made from, for clients that ask.
    pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/service.descriptors"));
}

/// Versions of the messages that this build speaks.
pub(crate) const VERSIONS: proto::Versions = proto::Versions { min: 1, max: 1 };

/// Longest message: a spec names each of its inputs, and values that are dead.
pub(crate) const MESSAGE_BYTES_MAX: usize = 256 << 20;

/// The version that both sides speak.
///
/// # Errors
/// There is none.
pub(crate) fn agree(theirs: Option<proto::Versions>) -> Result<u32, Status> {
    let theirs = theirs.ok_or_else(|| invalid("versions"))?;
    let (least, most) = (theirs.min.max(VERSIONS.min), theirs.max.min(VERSIONS.max));
    if least > most || theirs.min == 0 {
        return Err(Status::failed_precondition(format!(
            "expected a client that speaks a version from {} to {}, this one speaks {} to {}: update the older of the two",
            VERSIONS.min, VERSIONS.max, theirs.min, theirs.max
        )));
    }
    Ok(most)
}

/// The lane that `spec` waits in.
pub(crate) fn lane(spec: &JobSpec) -> Lane {
    if spec.is_l0() { Lane::L0 } else { Lane::Deep }
}

/// How jobs get on.
pub(crate) fn put_attempts(attempts: Attempts) -> proto::Attempts {
    let tried = attempts.tried.into_iter();
    let tried = tried.map(|(number, (failures, failure))| proto::Tried { number, failures, failure });
    proto::Attempts { syncing: attempts.syncing.into_iter().collect(), tried: tried.collect() }
}

pub(crate) fn attempts_of(attempts: proto::Attempts) -> Attempts {
    let tried = attempts.tried.into_iter();
    let cut = |text| bounds::FAILURE.cut_text(text);
    let tried = tried.map(|one| (one.number, (one.failures, cut(one.failure))));
    Attempts { syncing: attempts.syncing.into_iter().collect(), tried: tried.collect() }
}

fn invalid(what: &str) -> Status {
    Status::invalid_argument(format!("expected a message with {what}"))
}

pub(crate) fn id_of(bytes: &[u8]) -> Result<u128, Status> {
    let bytes = bytes.try_into().map_err(|_| invalid("an identity of 16 bytes"))?;
    Ok(u128::from_be_bytes(bytes))
}

pub(crate) fn put_key(key: JobKey) -> Option<proto::JobKey> {
    Some(proto::JobKey { client: key.client.to_be_bytes().to_vec().into(), number: key.number })
}

pub(crate) fn key_of(key: Option<proto::JobKey>) -> Result<JobKey, Status> {
    let key = key.ok_or_else(|| invalid("a job's key"))?;
    Ok(JobKey { client: id_of(&key.client)?, number: key.number })
}

/// The share that a client asks for; 0 = 1.
fn weight_of(weight: f64) -> Result<f64, Status> {
    let max = bounds::WEIGHT.max as f64;
    match weight {
        0.0 => Ok(1.0),
        // What is no number is in no range.
        _ if (1.0 / max..=max).contains(&weight) => Ok(weight),
        _ => Err(invalid(&format!("a SubmitRequest.weight from {} to {max}, found {weight}", 1.0 / max))),
    }
}

/// A time that a peer says in milliseconds.
pub(crate) fn time_of_ms(said: u64) -> Duration {
    time(Duration::from_millis(said))
}

/// A time that a peer says in microseconds.
pub(crate) fn time_of_us(said: u64) -> Duration {
    time(Duration::from_micros(said))
}

/// Slots that a database divides its jobs for: no control plane has more than it lets in.
pub(crate) fn slots_of(said: u32) -> u32 {
    said.min(bounds::SLOTS_ALL.max as u32)
}

/// Whether `request` names no more jobs than are looked at for one answer.
pub(crate) fn check_follow(request: &proto::FollowRequest) -> Result<(), Status> {
    bounds::WAITING.count(request.waiting.len())?;
    bounds::TAKEN.count(request.taken.len())?;
    bounds::BEGUN.count(request.begun.len())?;
    let Some(attempts) = &request.attempts else { return Ok(()) };
    bounds::SYNCING.count(attempts.syncing.len())?;
    bounds::TRIED.count(attempts.tried.len())
}

pub(crate) fn order_of(request: proto::SubmitRequest) -> Result<Order, Status> {
    let lane = lane_of(request.lane());
    bounds::TENANT.count(request.tenant.len())?;
    bounds::LOCATION.count(request.location.len())?;
    bounds::ZONE.count(request.zone.len())?;
    bounds::NEEDS.count(request.needs.len())?;
    request.needs.iter().try_for_each(|name| bounds::NEEDS_BYTES.count(name.len()))?;
    bounds::INPUT_BYTES.check(request.input_bytes)?;
    let weight = weight_of(request.weight)?;
    Ok(Order {
        tenant: request.tenant,
        weight,
        location: request.location,
        zone: request.zone,
        spec: request.spec.into(),
        spec_version: request.spec_version,
        needs: request.needs.into_iter().collect(),
        lane,
        bytes: request.input_bytes,
        stalls_in: request.stalls_in_ms.map(time_of_ms),
    })
}

pub(crate) fn put_held(held: &Held) -> proto::Held {
    let Held { key, token, done_bytes, moved_bytes, is_syncing, is_waiting } = *held;
    proto::Held { key: put_key(key), token: token.0, done_bytes, moved_bytes, is_syncing, is_waiting }
}

pub(crate) fn held_of(held: Vec<proto::Held>) -> Result<Vec<Held>, Status> {
    bounds::HELD.count(held.len())?;
    let one = |held: proto::Held| {
        let proto::Held { key, token, done_bytes, moved_bytes, is_syncing, is_waiting } = held;
        Ok(Held { key: key_of(key)?, token: Token(token), done_bytes, moved_bytes, is_syncing, is_waiting })
    };
    held.into_iter().map(one).collect()
}

pub(crate) fn put_lease(lease: Lease) -> proto::Lease {
    let Lease { key, token, location, spec, lane, waited } = lease;
    let (lane, waited_ms) = (put_lane(lane).into(), millis(waited));
    proto::Lease { key: put_key(key), token: token.0, location, spec: spec.into(), lane, waited_ms }
}

pub(crate) fn lease_of(lease: proto::Lease) -> Result<Lease, Status> {
    let (lane, waited) = (lane_of(lease.lane()), time_of_ms(lease.waited_ms));
    let (key, token) = (key_of(lease.key)?, Token(lease.token));
    Ok(Lease { key, token, location: lease.location, spec: lease.spec.into(), lane, waited })
}

pub(crate) fn put_profile(profile: Profile) -> proto::Worker {
    proto::Worker {
        id: profile.id.to_be_bytes().to_vec().into(),
        name: profile.name,
        zone: profile.zone,
        slots: profile.slots,
        has: profile.has.into_iter().collect(),
        spec_version_max: *profile.spec_versions.end(),
        spec_version_min: *profile.spec_versions.start(),
        build: profile.build,
        is_draining: profile.is_draining,
        elsewhere: Some(put_elsewhere(&profile.elsewhere)),
    }
}

pub(crate) fn profile_of(worker: Option<proto::Worker>) -> Result<Profile, Status> {
    let worker = worker.ok_or_else(|| invalid("a worker"))?;
    bounds::SLOTS.check(worker.slots.into())?;
    bounds::WORKER_NAME.count(worker.name.len())?;
    bounds::WORKER_ZONE.count(worker.zone.len())?;
    bounds::WORKER_BUILD.count(worker.build.len())?;
    bounds::HAS.count(worker.has.len())?;
    worker.has.iter().try_for_each(|name| bounds::HAS_BYTES.count(name.len()))?;
    Ok(Profile {
        id: id_of(&worker.id)?,
        name: worker.name,
        zone: worker.zone,
        slots: worker.slots,
        has: worker.has.into_iter().collect(),
        // Builds that did not say read all from the first on.
        spec_versions: worker.spec_version_min.max(1)..=worker.spec_version_max,
        build: worker.build,
        is_draining: worker.is_draining,
        elsewhere: elsewhere_of(worker.elsewhere)?,
    })
}

pub(crate) fn put_outcome(outcome: Outcome) -> Option<proto::Outcome> {
    use proto::failure::Kind;
    use proto::outcome::Is;
    let is = match outcome {
        Outcome::Done(result) => Is::Result(result.into()),
        Outcome::Failed(failure) => {
            let kind = match failure.kind {
                FailureKind::Rejected => Kind::Rejected,
                FailureKind::Cancelled => Kind::Cancelled,
                FailureKind::Invalid => Kind::Invalid,
                FailureKind::Storage => Kind::Storage,
                FailureKind::NotConserved => Kind::NotConserved,
                FailureKind::Unavailable => Kind::Unavailable,
                FailureKind::Corrupt => Kind::Corrupt,
            };
            Is::Failure(proto::Failure { kind: kind.into(), message: failure.message })
        }
    };
    Some(proto::Outcome { is: Some(is) })
}

pub(crate) fn outcome_of(outcome: Option<proto::Outcome>) -> Result<Outcome, Status> {
    use proto::failure::Kind;
    use proto::outcome::Is;
    match outcome.and_then(|outcome| outcome.is) {
        None => Err(invalid("an outcome")),
        Some(Is::Result(result)) => Ok(Outcome::Done(result.into())),
        Some(Is::Failure(failure)) => {
            let kind = match failure.kind() {
                Kind::Rejected => FailureKind::Rejected,
                Kind::Cancelled => FailureKind::Cancelled,
                Kind::Storage => FailureKind::Storage,
                Kind::NotConserved => FailureKind::NotConserved,
                Kind::Unavailable => FailureKind::Unavailable,
                Kind::Corrupt => FailureKind::Corrupt,
                // What is not known here is not tried again.
                Kind::Invalid | Kind::Unspecified => FailureKind::Invalid,
            };
            Ok(Outcome::Failed(Failure { kind, message: bounds::FAILURE.cut_text(failure.message) }))
        }
    }
}

/// What a job failed with, as it travels.
pub(crate) fn failure_of(error: &firn_jobs::Error) -> Failure {
    let kind = match error.kind {
        ErrorKind::Rejected => FailureKind::Rejected,
        ErrorKind::Cancelled => FailureKind::Cancelled,
        // No other worker is to try it: all have the same operators.
        ErrorKind::Invalid | ErrorKind::Panicked => FailureKind::Invalid,
        ErrorKind::Storage => FailureKind::Storage,
        ErrorKind::NotConserved => FailureKind::NotConserved,
        ErrorKind::Unavailable => FailureKind::Unavailable,
        ErrorKind::Corrupt => FailureKind::Corrupt,
    };
    Failure { kind, message: error.to_string() }
}

/// What travelled as `failure`.
pub(crate) fn error_of(failure: Failure) -> firn_jobs::Error {
    let kind = match failure.kind {
        FailureKind::Rejected => ErrorKind::Rejected,
        FailureKind::Cancelled => ErrorKind::Cancelled,
        FailureKind::Invalid => ErrorKind::Invalid,
        FailureKind::Storage => ErrorKind::Storage,
        FailureKind::NotConserved => ErrorKind::NotConserved,
        FailureKind::Unavailable => ErrorKind::Unavailable,
        FailureKind::Corrupt => ErrorKind::Corrupt,
    };
    firn_jobs::Error::new(kind, failure.message)
}

/// What a worker measured; one of a build that did not look what it waited for says zero.
pub(crate) fn timings_of(end: &proto::FinishRequest) -> Timings {
    Timings {
        opened: time_of_us(end.opened_us),
        ran: time_of_us(end.ran_us),
        reading: time_of_us(end.read_us),
        writing: time_of_us(end.write_us),
    }
}

/// Microseconds, as far as they can be counted.
pub(crate) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Milliseconds, as far as they can be counted.
pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

pub(crate) fn put_lane(lane: Lane) -> proto::Lane {
    match lane {
        Lane::L0 => proto::Lane::L0,
        Lane::Deep => proto::Lane::Deep,
    }
}

fn lane_of(lane: proto::Lane) -> Lane {
    match lane {
        proto::Lane::L0 => Lane::L0,
        // A lane that is not known here is none that writers wait for.
        proto::Lane::Deep | proto::Lane::Unspecified => Lane::Deep,
    }
}

pub(crate) fn put_elsewhere(elsewhere: &Elsewhere) -> proto::Elsewhere {
    let gives_way_ms = elsewhere.gives_way.iter().copied().map(millis).collect();
    proto::Elsewhere { slots: elsewhere.slots, gives_way_ms }
}

/// What a worker says that it does for others; builds that did not say do nothing.
pub(crate) fn elsewhere_of(elsewhere: Option<proto::Elsewhere>) -> Result<Elsewhere, Status> {
    let proto::Elsewhere { slots, gives_way_ms } = elsewhere.unwrap_or_default();
    bounds::ELSEWHERE.check(slots.into())?;
    bounds::GIVES_WAY.count(gives_way_ms.len())?;
    let gives_way = gives_way_ms.into_iter().take(slots as usize).map(time_of_ms);
    Ok(Elsewhere { slots, gives_way: gives_way.collect() })
}

/// What people are told, where workers are silent after `lease`.
pub(crate) fn put_rows(rows: Rows, lease: Duration) -> proto::ListReply {
    proto::ListReply {
        waiting: rows.waiting_count,
        running: rows.running_count,
        waiting_bytes: rows.waiting_bytes,
        waiting_ms_max: millis(rows.waiting_max),
        lease_ms: millis(lease),
        jobs: rows.jobs.into_iter().map(put_job_row).collect(),
        workers: rows.workers.into_iter().map(put_worker_row).collect(),
    }
}

fn put_job_row(row: JobRow) -> proto::JobRow {
    use proto::job_row::State;
    let state = match row.state {
        JobState::Waiting => State::Waiting,
        JobState::Running => State::Running,
        JobState::Done => State::Done,
        JobState::Failed => State::Failed,
    };
    proto::JobRow {
        key: put_key(row.key),
        tenant: row.tenant,
        weight: row.weight,
        lane: put_lane(row.lane).into(),
        input_bytes: row.bytes,
        done_bytes: row.done_bytes,
        state: state.into(),
        worker: row.worker,
        attempts: row.attempts,
        age_ms: millis(row.age),
        failure: row.failure,
        location: row.location,
        stalls_in_ms: row.stalls_in.map(millis),
        queued_us: micros(row.queued),
        opened_us: micros(row.timings.opened),
        ran_us: micros(row.timings.ran),
        read_us: micros(row.timings.reading),
        write_us: micros(row.timings.writing),
    }
}

fn put_worker_row(row: WorkerRow) -> proto::WorkerRow {
    let (lost_ms, lost_jobs) = row.lost.map(|lost| (millis(lost.since), lost.jobs)).unzip();
    proto::WorkerRow {
        name: row.name,
        zone: row.zone,
        slots: row.slots,
        running: row.running,
        quiet_ms: millis(row.quiet),
        near_bytes_per_second: row.near_bytes_per_second.unwrap_or(0.0),
        far_bytes_per_second: row.far_bytes_per_second.unwrap_or(0.0),
        is_draining: row.is_draining,
        jobs_done: row.jobs_done,
        build: row.build,
        failing: row.failing,
        lost_ms,
        lost_jobs: lost_jobs.unwrap_or_default(),
    }
}
