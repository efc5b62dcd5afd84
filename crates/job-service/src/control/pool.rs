//! Everything that a control plane knows: jobs, which worker has them, which peers are there. No
//! sockets, no clock, no threads.
//!
//! ```text
//!   submit, cancel, follow ─► jobs ─┐
//!                                   ├─► view ─► schedule ─► leases, stops
//!   pull, beat, finish ─► members ──┘
//! ```
//! All of it is soft. A pool that forgets everything is told again: by clients what they want, and
//! by workers what they have.

mod job; // one job
mod jobs; // all of them, each where it is looked for
mod member; // one worker
mod doubts; // where its jobs fail
mod clients; // what databases ask
mod room; // how much of it, and of which tenant
mod workers; // what workers ask
mod connections; // which are lost with their connections
mod decide; // which worker gets what
mod rows; // what people see
mod history; // what happened lately
mod names; // whatever has a name, by numbers
mod counts; // what has happened
mod figures; // all of it in numbers

use std::collections::BTreeMap;
use std::time::Duration;

pub use clients::Attempts;
pub use connections::{ConnectionId, Lost};
pub use counts::{ByFailure, ByLane, Counts, TENANTS_MAX};
pub use figures::{Figures, Workers};
pub use job::{Ended, Failure, FailureKind, JobKey, Order, Outcome, Timings, Token};
pub use member::Profile;
pub use rows::{JobRow, JobState, Rows, WorkerRow};
pub use workers::{Held, Lease, Pulled};

use super::ledger::Ledger;
use super::scheduler::Scheduler;
use super::view::WorkerId;
use history::History;
use job::Kind;
use jobs::Jobs;
use member::Member;
use names::Names;

/// Times, numbers and the rule that a pool goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// A job that its worker has not named for so long, or has not begun, is given to another
    /// worker. Default 10 s.
    pub lease: Duration,
    /// A worker whose last connection has ended is lost unless it comes back within this; others
    /// get its jobs. Default 1 s: a worker asks again after 100 ms.
    pub reconnect: Duration,
    /// A client that has not asked for so long is gone, and so are its jobs. Default 30 s.
    pub client: Duration,
    /// A job that has read, written and made durable nothing more for so long is taken from its
    /// worker. Default 60 s.
    pub progress: Duration,
    /// The same for a job that waits for a sync: a device or a store that writes a queue out may
    /// take minutes. Its worker, which is heard of, cannot tell that from a sync that hangs.
    /// Default 300 s.
    pub sync: Duration,
    /// A job that no worker there can do waits so long for a worker that can. Default 5 s.
    pub no_worker: Duration,
    /// So many attempts fail for reasons that may pass before the job has failed, each at another
    /// worker where there is one. Default 3.
    pub attempts_max: u32,
    /// After an attempt that failed so, the job's next attempt waits so long, and twice as long
    /// each time. So does the worker with its next job that has files at the same location. Default
    /// 500 ms.
    pub pause: Duration,
    /// Jobs at a time, of all tenants; one tenant may have as many as are left for others. Those
    /// beyond are refused. Default 100 000.
    pub jobs_max: usize,
    /// Bytes of specs and results that are kept, for all tenants and for one as with jobs. Beyond
    /// that no job is taken, but results of taken jobs still are. Default 1 GiB.
    pub held_bytes_max: u64,
    /// Bytes of results in one answer to a client, but for the first. Default 64 MiB: a message has
    /// 256 at most.
    pub answer_bytes_max: u64,
    /// Which job goes to which worker. Default: what stalls soonest.
    pub scheduler: Scheduler,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(10),
            reconnect: Duration::from_secs(1),
            client: Duration::from_secs(30),
            progress: Duration::from_secs(60),
            sync: Duration::from_secs(300),
            no_worker: Duration::from_secs(5),
            attempts_max: 3,
            pause: Duration::from_millis(500),
            jobs_max: 100_000,
            held_bytes_max: 1 << 30,
            answer_bytes_max: 64 << 20,
            scheduler: Scheduler::default(),
        }
    }
}

/// Jobs of many clients and the workers that do them.
///
/// 1. A job has at most one attempt that counts. A worker that has lost it is told to stop when it
///    is next heard of, and what it says of it is not taken.
/// 2. A job ends once, and its end is kept until its client says that it has it, waits for it no
///    more, or is gone.
/// 3. Times are the caller's, and MUST NOT go back.
#[derive(Debug)]
pub struct Pool {
    limits: Limits,
    /// Draws tokens.
    random: fastrand::Rng,
    jobs: Jobs,
    members: BTreeMap<WorkerId, Member>,
    member_ids: BTreeMap<u128, WorkerId>,
    clients: BTreeMap<u128, Client>,
    tenants: Names<String>,
    zones: Names<String>,
    kinds: Names<Kind>,
    /// When unused names were last forgotten.
    swept: Duration,
    ledger: Ledger,
    /// Jobs that their clients ask for no more, and since when: workers spoke of them before they
    /// heard so.
    forgotten: BTreeMap<JobKey, Duration>,
    history: History,
    next: u64,
    counts: Counts,
}

/// A database, by what it says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Client {
    /// When it was last heard of.
    heard: Duration,
    /// When its writers stop if nothing is done, by what it said last; `None` = that is not in
    /// sight.
    stalls_at: Option<Duration>,
}

impl Pool {
    /// Knows nothing yet. Tokens are drawn from `seed`, which no two control planes may share.
    pub fn new(limits: Limits, seed: u64) -> Self {
        Self {
            limits,
            random: fastrand::Rng::with_seed(seed),
            jobs: Jobs::default(),
            members: BTreeMap::new(),
            member_ids: BTreeMap::new(),
            clients: BTreeMap::new(),
            tenants: Names::default(),
            zones: Names::default(),
            kinds: Names::default(),
            swept: Duration::ZERO,
            ledger: Ledger::default(),
            forgotten: BTreeMap::new(),
            history: History::default(),
            next: 0,
            counts: Counts::default(),
        }
    }

    /// What it goes by.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Gives up silent clients and workers, and decides what is to be done now. To be called a few
    /// times a second.
    pub fn tick(&mut self, now: Duration) {
        self.drop_clients(now);
        self.lose_members(now);
        self.expire_attempts(now);
        self.drop_members(now);
        self.members.values_mut().for_each(|member| member.doubts.forget(now));
        let limit = self.limits.lease;
        self.forgotten.retain(|_, since| now.saturating_sub(*since) <= limit);
        self.forget_names(now);
        self.decide(now);
        self.fail_what_nobody_can(now);
    }

    /// What happened to workers since the last call, a line each, for people.
    pub fn take_log(&mut self) -> Vec<String> {
        self.history.take_lines()
    }

    fn draw_id(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

#[cfg(test)]
mod tests;
