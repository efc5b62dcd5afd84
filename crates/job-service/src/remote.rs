//! The database's side: an executor that sends its jobs to a control plane.

mod urgency; // when writers will stop
mod follow; // the task that talks

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use firn_format::file_name::STEM_BYTES_MAX;
use firn_jobs::{Error, ErrorKind, Executor, Finisher, JobHandle, JobSpec, Ran, Result, new_job};
use firn_storage::{Clock, Spawn};
use tokio::sync::Notify;

use crate::channel::Planes;
use crate::control::pool::JobKey;
use crate::runtime::Runtime;
use crate::tls::ClientTls;
use crate::token::SharedToken;
use crate::wire::{VERSIONS, lane, proto, put_key, put_lane};
use crate::worker::ATTEMPT_BYTES;
use urgency::Urgency;

/// What an executor elsewhere is told.
#[derive(Clone, Debug)]
pub struct RemoteOptions {
    /// `http://HOST:PORT` or `https://HOST:PORT` of each control plane. One is asked at a time,
    /// another one when it does not answer.
    pub control_planes: Vec<String>,
    /// What it shows them.
    pub token: SharedToken,
    /// The authorities it believes, and what it shows, where they are at `https://`.
    pub tls: ClientTls,
    /// Where the database's files are, as workers name it.
    pub location: String,
    /// Where that is near to; empty = everywhere.
    pub zone: String,
    /// The tenant with the share of the workers that its jobs count to.
    pub tenant: String,
    /// Of that share.
    pub weight: f64,
    /// Drawn for this opening of the database, and never again.
    pub client: u128,
    /// Without an answer of any control plane for so long, jobs come back as `Unavailable`. Default
    /// 3 s.
    pub away_max: Duration,
}

impl RemoteOptions {
    /// Jobs on files of `location`, for those at `control_planes`.
    pub fn new(control_planes: Vec<String>, location: &str, client: u128) -> Self {
        Self {
            control_planes,
            token: SharedToken::none(),
            tls: ClientTls::default(),
            location: location.to_owned(),
            zone: String::new(),
            tenant: location.to_owned(),
            weight: 1.0,
            client,
            away_max: Duration::from_secs(3),
        }
    }
}

/// Runs jobs on the workers of a control plane.
///
/// 1. `submit` never blocks on the network. A job that no worker can do, that no control plane
///    takes, or that comes back without a result fails with what was said. The executor behind
///    ([`ExecutorChain`](firn_jobs::ExecutorChain)) does it then.
/// 2. A control plane that does not know a job any more is told again; so is another one.
/// 3. The outputs' names are the spec's stem, a `-`, 16 hex digits and what follows. Attempts that
///    did not count may leave files so named, at any later time.
/// 4. While it has no jobs it asks nothing: how many workers there are it knows from the last
///    question.
/// 5. Jobs that have not begun are said to wait ([`JobHandle::is_waiting`]), as of half a second
///    ago.
/// 6. Jobs whose worker waits for a sync are said to ([`JobHandle::is_syncing`]). Of jobs that are
///    tried again it is said why attempts failed ([`JobHandle::trouble`]). Both come as soon as a
///    control plane hears it.
/// 7. How soon writers stop is said with each job and with each question. While jobs wait, it is
///    said anew when it has changed by a quarter, at most once in a second.
#[derive(Debug)]
pub struct Remote {
    shared: Arc<Shared>,
}

struct Shared {
    options: RemoteOptions,
    planes: Planes,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    /// There is something new to say.
    wake: Notify,
}

#[derive(Debug, Default)]
struct State {
    jobs: BTreeMap<u64, Away>,
    /// Ends that are here, and may be forgotten there.
    taken: Vec<u64>,
    next: u64,
    urgency: Urgency,
    /// Jobs of this database that workers do at the same time, by what was said last; 0 = not said
    /// yet.
    slots: u32,
    is_closed: bool,
}

/// A job that is elsewhere.
#[derive(Debug)]
struct Away {
    finisher: Finisher,
    request: proto::SubmitRequest,
    is_submitted: bool,
    /// A worker has begun it, by what was said last.
    has_begun: bool,
    /// Its worker waits for a sync, and so many attempts have failed, by what was said last.
    is_syncing: bool,
    failures: u32,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Remote {
    /// Does not connect yet. One thread of `spawn`'s talks.
    ///
    /// # Errors
    /// `Invalid`: a name of a control plane is none, or does not fit what was said of certificates.
    /// `Storage`: the system gives no thread.
    pub fn new(options: RemoteOptions, clock: Arc<dyn Clock>, spawn: &dyn Spawn) -> Result<Self> {
        let runtime = Runtime::start("firn-remote", spawn)?;
        let planes = Planes::new(&options.control_planes, &options.token, &options.tls, &runtime)
            .map_err(|error| Error::new(ErrorKind::Invalid, error.to_string()))?;
        let (state, wake) = Default::default();
        let shared = Arc::new(Shared { options, planes, clock, state, wake });
        // The task keeps its thread until it has said good-bye.
        runtime.begin(follow::talk(Arc::clone(&shared), runtime.clone()));
        Ok(Self { shared })
    }
}

impl Executor for Remote {
    fn submit(&self, spec: JobSpec) -> Result<JobHandle> {
        if spec.output_stem().len() + ATTEMPT_BYTES > STEM_BYTES_MAX {
            return Err(Error::new(ErrorKind::Rejected, "the stem has no room for an attempt's"));
        }
        let spec = spec.without_recycled();
        let options = &self.shared.options;
        let mut state = self.shared.lock();
        let number = state.next;
        state.next += 1;
        let request = proto::SubmitRequest {
            versions: Some(VERSIONS),
            key: put_key(JobKey { client: options.client, number }),
            tenant: options.tenant.clone(),
            weight: options.weight,
            location: options.location.clone(),
            zone: options.zone.clone(),
            spec: spec.encode().into(),
            spec_version: JobSpec::VERSION,
            needs: spec.needs().into_iter().collect(),
            lane: put_lane(lane(&spec)).into(),
            input_bytes: spec.input_bytes(),
            // As it is when this is sent.
            stalls_in_ms: None,
        };
        let (handle, finisher) = new_job();
        let (is_submitted, has_begun, is_syncing, failures) = Default::default();
        let away = Away { finisher, request, is_submitted, has_begun, is_syncing, failures };
        state.jobs.insert(number, away);
        drop(state);
        self.shared.wake.notify_one();
        Ok(handle)
    }

    fn width(&self) -> Option<usize> {
        Some(self.shared.lock().slots.max(1) as usize)
    }

    fn urge(&self, stalls_in: Option<Duration>) {
        let now = self.shared.clock.now();
        let mut state = self.shared.lock();
        state.urgency.set(now, stalls_in);
        let is_news = !state.jobs.is_empty() && state.urgency.is_news(now);
        drop(state);
        if is_news {
            self.shared.wake.notify_one();
        }
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.shared.lock().is_closed = true;
        self.shared.wake.notify_one();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a job its result, which `ran` tells about; its end may be forgotten elsewhere.
    fn finish(&self, number: u64, result: Result<firn_jobs::JobResult>, ran: Ran) {
        let mut state = self.lock();
        let away = state.jobs.remove(&number);
        state.taken.push(number);
        drop(state);
        // Callbacks may submit the next job.
        if let Some(away) = away {
            away.finisher.finish_ran(result, ran);
        }
    }
}
