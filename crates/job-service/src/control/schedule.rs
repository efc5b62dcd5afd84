//! The decision: what is owed first, then what stalls soonest for its length, each where it is done
//! first.
//!
//! ```text
//!   jobs that may be decided about now ──in order──► the best slot is free ─► leased
//!                                                 └► it is not ─► all others before it are planned ─► planned, or something is stopped for it
//!   all others wait aside, and are looked at only when they are asked for
//! ```
//! The other jobs get nothing now: no slot is free where they may go, or they are deep work beyond
//! its limit. All they do is keep busy slots busy for longer. So a job that goes to a free slot
//! without them goes there with them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::time::Duration;

use super::line::{Entry, Line};
use super::placement::{Mask, Slots, Wanted};
use super::rank::{Class, Rank, Ranking, WAIT_MAX};
use super::view::{Decision, JobId, Lane, Running, TenantId, View, Waiting, Worker, WorkerId, Zone};

/// Of all slots one in so many is kept for L0 work.
const RESERVED_OF: u32 = 8;

/// Seconds that stopping a deep job must save beyond what it wastes.
const GAIN_MIN: f64 = 1.0;

/// What to do in `view`: leases, and deep work to be stopped for L0 work that would come too late.
///
/// 1. A tenant that is behind its promise goes first, as does a job that has waited for 300 s;
///    among these, what is owed most. A tenant that is ahead of its share while others wait goes
///    last, however urgent its jobs, and nothing is stopped for it. Each second beyond 300 that one
///    of its jobs has waited makes up for a MiB.
/// 2. Then comes what is worth most. A job is worth less by a factor for each mean job's length
///    that its database's stall is away. This is the rule of apparent tardiness costs (Vepsalainen
///    and Morton 1987). It is worth no less than deep work or L0 work that has waited as long. A
///    mean job has mean bytes, by zone.
/// 3. In this order each job gets the slot on which it is done first, by measured speeds, free or
///    not. Jobs with free slots are leased. So no job takes a far or slow slot for long if waiting
///    for another slot would end it sooner.
/// 4. Deep work leaves an eighth of the slots, at least one of several, to L0 work. A deep job is
///    stopped where that brings L0 work that would come too late forward by more than the deep job
///    has done. Deep jobs of a tenant that is behind, or submitted 150 s ago, are not stopped. A
///    worker that has no other slot stops in the same way what it does for other control planes.
///
/// Pure. Puts jobs into lines, as a control plane keeps them, and then decides as it does.
pub fn schedule(view: &View) -> Vec<Decision> {
    let now = view.waiting.iter().map(|job| job.waited).max().unwrap_or_default();
    let mut lines: BTreeMap<(Class, &BTreeSet<WorkerId>), Line> = BTreeMap::new();
    for job in &view.waiting {
        let class = Class { tenant: job.tenant, lane: job.lane, zone: job.zone, stalls_in: job.stalls_in };
        let entry = Entry { id: job.id, bytes: job.bytes, submitted: now - job.waited };
        lines.entry((class, &job.refused_by)).or_default().insert(entry);
    }
    let lines: Vec<Waiters<'_>> =
        lines.iter().map(|((class, refused_by), jobs)| Waiters { class: *class, refused_by, jobs }).collect();
    plan(&Moment { now, lines, workers: &view.workers, owed: &view.owed, refused_by: &|_| None })
}

/// Jobs that wait in a line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiters<'v> {
    pub(super) class: Class,
    /// Workers that can have none of them now.
    pub(super) refused_by: &'v BTreeSet<WorkerId>,
    pub(super) jobs: &'v Line,
}

/// A [`View`] with its jobs in lines.
pub(super) struct Moment<'v> {
    pub(super) now: Duration,
    pub(super) lines: Vec<Waiters<'v>>,
    pub(super) workers: &'v [Worker],
    pub(super) owed: &'v BTreeMap<TenantId, f64>,
    /// Workers that cannot have a job, where they are more than its line's.
    pub(super) refused_by: &'v dyn Fn(JobId) -> Option<BTreeSet<WorkerId>>,
}

impl Moment<'_> {
    /// The same, job by job.
    pub(super) fn view(&self) -> View {
        let jobs = |Waiters { class, refused_by, jobs }| {
            jobs.jobs().map(move |job| Waiting {
                id: job.id,
                tenant: class.tenant,
                lane: class.lane,
                bytes: job.bytes,
                zone: class.zone,
                waited: self.now.saturating_sub(job.submitted),
                stalls_in: class.stalls_in,
                refused_by: (self.refused_by)(job.id).unwrap_or_else(|| refused_by.clone()),
            })
        };
        let mut waiting: Vec<Waiting> = self.lines.iter().copied().flat_map(jobs).collect();
        waiting.sort_by_key(|job| job.id);
        View { waiting, workers: self.workers.to_vec(), owed: self.owed.clone() }
    }
}

/// What is decided at a `moment`, as [`schedule`] says.
///
/// Looks at each line and block, and then at all jobs planned until the last slot that a job can
/// have is given away. That is slots times slots, and more where one is so slow that many jobs are
/// better off waiting for others.
pub(super) fn plan(moment: &Moment<'_>) -> Vec<Decision> {
    // A job that would come first again is not stopped.
    let gives_way = |running: &Running| {
        running.waited < WAIT_MAX / 2 && moment.owed.get(&running.tenant).is_none_or(|owed| *owed <= 0.0)
    };
    let slots = Slots::new(moment.workers, gives_way);
    let mut plan = Plan::new(moment, slots);
    while plan.is_open()
        && let Some(next) = plan.pop(true, None)
    {
        plan.decide(&next);
    }
    plan.decisions
}

/// What may become of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sort {
    /// It may get a free slot while deep work is below its limit.
    Deep,
    /// It may get a free slot.
    L0,
    /// Something may also be stopped for it.
    Pressed,
}

/// Jobs that may have the same slots, by sort.
#[derive(Debug)]
struct Peers {
    may: Mask,
    /// Jobs that were not looked at yet.
    left: [usize; 3],
    /// Whether one of them can be decided about.
    is_open: [bool; 3],
}

/// The next job of a line, or a block in which the first may be the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Next {
    rank: Rank,
    line: usize,
    block: usize,
    job: Option<usize>,
}

struct Plan<'v> {
    moment: &'v Moment<'v>,
    ranking: Ranking<'v>,
    slots: Slots<'v>,
    /// Of each line.
    sorts: Vec<(usize, Sort)>,
    peers: Vec<Peers>,
    /// Jobs that may be decided about, the first in front; what cannot be is found out as it comes.
    open: BinaryHeap<Reverse<Next>>,
    /// Jobs that get nothing, but before others.
    aside: BinaryHeap<Reverse<Next>>,
    deep: usize,
    deep_max: usize,
    decisions: Vec<Decision>,
}

/// A job that is to be decided about now.
#[derive(Debug)]
struct Turn {
    id: JobId,
    bytes: u64,
    rank: Rank,
    class: Class,
    may: Mask,
}

impl Turn {
    fn wanted(&self) -> Wanted<'_> {
        Wanted { bytes: self.bytes, zone: self.class.zone, rank: self.rank, may: &self.may }
    }

    /// Whether it is L0 work for a database that stops its writers before it is done.
    fn is_late(&self, done_at: f64) -> bool {
        let stalls_in = self.class.stalls_in.filter(|_| self.class.lane == Lane::L0);
        stalls_in.is_some_and(|stalls_in| stalls_in.as_secs_f64() < done_at)
    }
}

impl<'v> Plan<'v> {
    fn new(moment: &'v Moment<'v>, slots: Slots<'v>) -> Self {
        let running = moment.workers.iter().flat_map(|worker| &worker.running);
        let deep = running.filter(|running| running.lane == Lane::Deep).count();
        let reserved = if slots.len() > 1 { slots.len().div_ceil(RESERVED_OF) } else { 0 };
        let deep_max = (slots.len() - reserved) as usize;
        let mut by_zone: BTreeMap<Zone, (usize, u128)> = BTreeMap::new();
        for Waiters { class, jobs, .. } in &moment.lines {
            let (count, bytes) = by_zone.entry(class.zone).or_default();
            *count += jobs.len();
            *bytes += jobs.bytes();
        }
        let mut plan = Self {
            moment,
            ranking: Ranking::new(moment.now, moment.workers, moment.owed, &by_zone),
            slots,
            sorts: Vec::new(),
            peers: Vec::new(),
            open: BinaryHeap::new(),
            aside: BinaryHeap::new(),
            deep,
            deep_max,
            decisions: Vec::new(),
        };
        plan.sort();
        if plan.is_open() {
            plan.open = plan.blocks().into();
        }
        plan
    }

    /// Tells for each line what may become of its jobs.
    fn sort(&mut self) {
        let mut by_refusals: BTreeMap<&BTreeSet<WorkerId>, usize> = BTreeMap::new();
        for Waiters { class, refused_by, jobs } in &self.moment.lines {
            let sort = match (class.lane, class.stalls_in) {
                (Lane::Deep, _) => Sort::Deep,
                (Lane::L0, None) => Sort::L0,
                (Lane::L0, Some(_)) => Sort::Pressed,
            };
            let next = by_refusals.len();
            let at = *by_refusals.entry(refused_by).or_insert(next);
            if at == self.peers.len() {
                let may = Mask::without(self.moment.workers, refused_by);
                self.peers.push(Peers { may, left: [0; 3], is_open: [false; 3] });
            }
            if let Some(peers) = self.peers.get_mut(at) {
                peers.left[sort as usize] += jobs.len();
            }
            self.sorts.push((at, sort));
        }
        self.look();
    }

    /// All blocks.
    fn blocks(&self) -> Vec<Reverse<Next>> {
        let lines = self.moment.lines.iter().enumerate();
        let blocks = lines.flat_map(|(line, waiters)| {
            let blocks = waiters.jobs.blocks().iter().enumerate();
            blocks.map(move |(block, jobs)| {
                Reverse(Next { rank: self.ranking.of(&waiters.class, &jobs.first()), line, block, job: None })
            })
        });
        blocks.collect()
    }

    /// Looks again which jobs can be decided about.
    fn look(&mut self) {
        let is_deep_open = self.deep < self.deep_max;
        for peers in &mut self.peers {
            let (free, stoppable) = (self.slots.has_free(&peers.may), self.slots.has_stoppable(&peers.may));
            peers.is_open = [free && is_deep_open, free, free || stoppable];
        }
    }

    /// Whether anything can be decided about what was not looked at yet.
    fn is_open(&self) -> bool {
        let of =
            |peers: &Peers| peers.left.iter().zip(peers.is_open).any(|(left, is_open)| *left > 0 && is_open);
        self.peers.iter().any(of)
    }

    /// The first job that may be decided about, or else of those aside; before `until`, if that is
    /// given.
    fn pop(&mut self, is_open: bool, until: Option<&Rank>) -> Option<Turn> {
        loop {
            let heap = if is_open { &mut self.open } else { &mut self.aside };
            let Reverse(next) = *heap.peek()?;
            if until.is_some_and(|until| next.rank > *until) {
                return None;
            }
            heap.pop();
            let (waiters, (peers, sort)) = (self.moment.lines.get(next.line)?, *self.sorts.get(next.line)?);
            let peers = self.peers.get_mut(peers)?;
            if is_open && !peers.is_open[sort as usize] {
                self.aside.push(Reverse(next));
                continue;
            }
            let block = waiters.jobs.blocks().get(next.block)?;
            let Some(job) = next.job else {
                let jobs = block.jobs().iter().enumerate();
                let jobs = jobs.map(|(job, entry)| {
                    Reverse(Next { rank: self.ranking.of(&waiters.class, entry), job: Some(job), ..next })
                });
                heap.extend(jobs);
                continue;
            };
            peers.left[sort as usize] -= 1;
            let Entry { id, bytes, .. } = *block.jobs().get(job)?;
            let may = match (self.moment.refused_by)(id) {
                Some(refused_by) => Mask::without(self.moment.workers, &refused_by),
                None => peers.may.clone(),
            };
            return Some(Turn { id, bytes, rank: next.rank, class: waiters.class, may });
        }
    }

    fn decide(&mut self, job: &Turn) {
        let Some(mut best) = self.slots.best(&job.wanted()) else { return };
        while !best.is_free
            && let Some(before) = self.pop(false, Some(&job.rank))
        {
            if self.pass(&before) == Some(best.slot)
                && let Some(then) = self.slots.best(&job.wanted())
            {
                best = then;
            }
        }
        let is_deep = job.class.lane == Lane::Deep;
        if best.is_free {
            self.deep += usize::from(is_deep);
            self.decisions.push(Decision::Lease { job: job.id, worker: best.worker });
        } else if job.is_late(best.done_at)
            && !self.ranking.is_ahead(job.class.tenant)
            && let Some(stopped) = self.slots.to_stop(&job.wanted(), best.done_at, GAIN_MIN)
        {
            let worker = stopped.worker;
            if let Some(deep) = stopped.job {
                self.decisions.push(Decision::Preempt { job: deep, worker, l0: job.id });
                self.deep -= 1;
            } else {
                self.decisions.push(Decision::Lease { job: job.id, worker });
            }
            self.take(stopped.slot, job.rank, stopped.done_at);
            // All that were aside before it are planned; for others there may be something now.
            self.open.append(&mut self.aside);
            return;
        }
        self.take(best.slot, job.rank, best.done_at);
    }

    /// Plans a job that gets nothing; the slot that it makes busy for longer.
    fn pass(&mut self, job: &Turn) -> Option<usize> {
        // Beyond the limit deep work takes nothing that is free.
        let best = self.slots.best(&job.wanted()).filter(|best| !best.is_free)?;
        self.take(best.slot, job.rank, best.done_at);
        Some(best.slot)
    }

    fn take(&mut self, slot: usize, rank: Rank, done_at: f64) {
        if self.slots.take(slot, rank, done_at) {
            self.look();
        }
    }
}

#[cfg(test)]
mod tests;
