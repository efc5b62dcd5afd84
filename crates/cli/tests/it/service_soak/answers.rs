//! What databases tell of answers to their jobs, and control planes of attempts at them: whether a
//! worker was wrong.
//!
//! A wrong worker loses nothing: the database does the job again, and its content is right. Only
//! what the database tells shows it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Add;

use crate::bad_store::{jobs_done, line};
use crate::service_http::{Samples, sum};

/// Attempts that fail so, as control planes call it, met a mistake. A store that fails, workers
/// that are killed or late and clocks that are wrong make none.
///
/// The others are had here: `storage` and `unavailable` of a store that fails, `cancelled` of what
/// a database or a control plane gives up. `rejected` says what a worker lacks, and no worker's
/// answer.
const WRONG: [&str; 3] = ["invalid", "not_conserved", "corrupt"];

/// What a database calls an answer that it does not take.
const REFUSED: [&str; 3] =
    ["the answer was wrong", "the answers were wrong together", "came to something else"];

/// What databases have told of their jobs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Jobs {
    /// Done by workers.
    pub(crate) elsewhere: u64,
    /// Done by the database.
    here: u64,
    /// Done by workers, and by the database too.
    pub(crate) again: u64,
    /// Those of them of which something else came there.
    pub(crate) differed: u64,
    /// Workers' jobs that the database did, by why.
    causes: BTreeMap<String, u64>,
    /// Answers that were not taken, in words, as far as they were seen: a database tells the last
    /// ones only.
    pub(crate) wrong: BTreeSet<String>,
}

impl Jobs {
    /// What INFO says.
    pub(crate) fn parse(info: &str) -> Self {
        let (elsewhere, here) = jobs_done(info);
        let count = |name| line(info, name).parse().unwrap_or_else(|_| panic!("no {name} in {info}"));
        let (again, differed) = (count("jobs_reexecuted_count"), count("jobs_differed_count"));
        let causes = line(info, "jobs_passed_on_causes");
        let cause = |text: &str| {
            let (cause, count) = text.split_once('=').unwrap_or_else(|| panic!("{text} in {info}"));
            (cause.to_owned(), count.parse().unwrap_or_else(|_| panic!("{text} in {info}")))
        };
        let causes = causes.split(',').map(cause).collect();
        let reason = line(info, "jobs_passed_on_reason");
        let is_wrong = REFUSED.iter().any(|words| reason.contains(words));
        let wrong = is_wrong.then_some(reason).into_iter().collect();
        Self { elsewhere, here, again, differed, causes, wrong }
    }

    /// No answer of a worker was wrong.
    pub(crate) fn are_right(&self) -> bool {
        self.differed == 0
            && self.wrong.is_empty()
            && self.causes.get("wrong").is_none_or(|count| *count == 0)
    }
}

impl Add for Jobs {
    type Output = Self;

    fn add(mut self, other: Self) -> Self {
        for (cause, count) in other.causes {
            *self.causes.entry(cause).or_default() += count;
        }
        Self {
            causes: self.causes,
            elsewhere: self.elsewhere + other.elsewhere,
            here: self.here + other.here,
            again: self.again + other.again,
            differed: self.differed + other.differed,
            wrong: &self.wrong | &other.wrong,
        }
    }
}

impl fmt::Display for Jobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { elsewhere, here, again, differed, causes, .. } = self;
        write!(f, "{elsewhere} jobs by workers, {here} by the database")?;
        let causes = causes.iter().filter(|(_, count)| **count > 0);
        let causes: Vec<String> = causes.map(|(cause, count)| format!("{count} {cause}")).collect();
        write!(f, " (instead of workers: {}), {again} jobs done twice, ", causes.join(", "))?;
        match differed {
            0 => f.write_str("none differed"),
            _ => write!(f, "{differed} differed"),
        }
    }
}

/// What control planes have told of attempts that came to nothing.
#[derive(Clone, Debug, Default)]
pub(super) struct Attempts {
    /// Leases of workers that were silent for too long.
    pub(super) expired: u64,
    /// Attempts that workers have given up, by why.
    failed: BTreeMap<String, u64>,
}

impl Attempts {
    /// Adds what a control plane has counted since its start, which is told once.
    pub(super) fn add(&mut self, samples: &Samples) {
        self.expired += sum(samples, "firn_control_plane_expired_leases_total", &["silent"]) as u64;
        for why in WRONG.into_iter().chain(["storage", "unavailable", "cancelled", "rejected"]) {
            let label = format!("why=\"{why}\"");
            let found = sum(samples, "firn_control_plane_failed_attempts_total", &[&label]);
            *self.failed.entry(why.to_owned()).or_default() += found as u64;
        }
    }

    /// Attempts that met a mistake.
    pub(super) fn wrong(&self) -> u64 {
        WRONG.iter().filter_map(|why| self.failed.get(*why)).sum()
    }
}

impl fmt::Display for Attempts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} leases ended by silence", self.expired)?;
        let mut failed = self.failed.iter().filter(|(_, count)| **count > 0);
        failed.try_for_each(|(why, count)| write!(f, ", {count} attempts failed ({why})"))
    }
}
