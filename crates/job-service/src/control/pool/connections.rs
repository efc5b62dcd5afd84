//! Which connections workers are heard of on, and workers that are lost with the last of theirs.
//!
//! A process that is killed has its connections closed by its system at once: long before its
//! lease is over. A network may break a connection too. Its worker comes back on another one within
//! moments, and has lost nothing.

use std::collections::BTreeSet;
use std::time::Duration;

use super::job::JobKey;

/// A connection of a control plane; no other one has the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConnectionId(pub u64);

/// The connections of one worker.
#[derive(Debug, Default)]
pub(super) struct Connections {
    open: BTreeSet<ConnectionId>,
    /// When the last of them ended.
    broken: Option<Duration>,
    /// The jobs that it had when it was given up for lost.
    lost: Option<BTreeSet<JobKey>>,
}

/// A worker that has no connection any more, as people see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Since its last connection ended.
    pub since: Duration,
    /// What became of the jobs that it had then; empty = that is not decided yet.
    pub jobs: String,
}

/// Workers that are named where jobs of a lost worker went.
const NAMED_MAX: usize = 3;

impl Connections {
    /// The worker was heard of on `connection`. Answers whether it was given up for lost, and
    /// whether it had none.
    pub(super) fn begin(&mut self, connection: ConnectionId) -> (bool, bool) {
        self.open.insert(connection);
        (self.lost.take().is_some(), self.broken.take().is_some())
    }

    pub(super) fn end(&mut self, now: Duration, connection: ConnectionId) {
        if self.open.remove(&connection) && self.open.is_empty() {
            self.broken = Some(now);
        }
    }

    /// Whether the worker had connections and all of them have ended.
    pub(super) fn is_broken(&self) -> bool {
        self.broken.is_some()
    }

    /// Whether that is so for `patience`, and the worker was not given up yet.
    pub(super) fn is_to_be_given_up(&self, now: Duration, patience: Duration) -> bool {
        let broken = self.broken.filter(|_| self.lost.is_none());
        broken.is_some_and(|since| now.saturating_sub(since) >= patience)
    }

    /// The worker is given up for lost, with `jobs`.
    pub(super) fn give_up(&mut self, jobs: BTreeSet<JobKey>) {
        self.lost = Some(jobs);
    }

    /// How people see it, if it is broken. `state_of` is what became of a job.
    pub(super) fn shown(&self, now: Duration, state_of: impl Fn(&JobKey) -> Fate) -> Option<Lost> {
        let since = now.saturating_sub(self.broken?);
        let jobs = self.lost.as_ref().map(|keys| whereabouts(keys.iter().map(state_of).collect()));
        Some(Lost { since, jobs: jobs.unwrap_or_default() })
    }
}

/// What became of a job that a lost worker had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// Another worker has it, or has done it.
    WentTo(String),
    Waits,
    /// It failed, or is wanted no more: its database does it.
    WentBack,
}

/// Where the jobs of a lost worker went, in words.
fn whereabouts(fates: Vec<Fate>) -> String {
    let (all, mut to) = (fates.len(), BTreeSet::new());
    let count = |fate: Fate| fates.iter().filter(|it| **it == fate).count();
    let (waiting, back) = (count(Fate::Waits), count(Fate::WentBack));
    let went = all - waiting - back;
    for fate in &fates {
        if let Fate::WentTo(worker) = fate {
            to.insert(worker.as_str());
        }
    }
    let mut named: Vec<String> = to.iter().take(NAMED_MAX).map(|name| (*name).to_owned()).collect();
    if to.len() > NAMED_MAX {
        named.push(format!("{} more", to.len() - NAMED_MAX));
    }
    let named = named.join(", ");
    let databases = "went back to their databases";
    match all {
        0 => "it had no job".to_owned(),
        _ if went == all => format!("{} to {named}", its_jobs(all, "went", "went")),
        _ if waiting == all => format!("{} for another worker", its_jobs(all, "waits", "wait")),
        _ if back == all => its_jobs(all, "went back to its database", databases),
        _ => {
            let parts = [
                (went, format!("{went} went to {named}")),
                (waiting, format!("{waiting} wait for another worker")),
                (back, format!("{back} {databases}")),
            ];
            let parts: Vec<String> =
                parts.into_iter().filter(|(count, _)| *count > 0).map(|(_, part)| part).collect();
            format!("of its {all} jobs {}", parts.join(", "))
        }
    }
}

/// What is said of a worker called `name` that had so many `jobs`.
pub(super) fn said_of_lost(name: &str, jobs: usize) -> String {
    match jobs {
        0 => format!("lost worker {name}, which had no job"),
        _ => format!("lost worker {name}; {} for others", its_jobs(jobs, "waits", "wait")),
    }
}

/// "its job goes", "its 2 jobs go".
fn its_jobs(count: usize, one: &str, many: &str) -> String {
    match count {
        1 => format!("its job {one}"),
        _ => format!("its {count} jobs {many}"),
    }
}
