//! One worker.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::time::Duration;

use super::connections::Connections;
use super::doubts::Doubts;
use super::job::{Job, Timings, Token};
use crate::control::view::{Elsewhere, Speed, WorkerId, Zone};

/// What a worker says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Drawn whenever a worker is started.
    pub id: u128,
    /// For people.
    pub name: String,
    /// Where it is; empty = everywhere.
    pub zone: String,
    /// Jobs at a time.
    pub slots: u32,
    /// Operators, filters and extractors, as orders need them: those with other parameters are
    /// others.
    pub has: BTreeSet<String>,
    /// The versions of specs that it reads.
    pub spec_versions: RangeInclusive<u32>,
    /// Its program, for people.
    pub build: String,
    /// It takes no work any more.
    pub is_draining: bool,
    /// What it does for others.
    pub elsewhere: Elsewhere,
}

#[derive(Debug)]
pub(super) struct Member {
    pub(super) profile: Profile,
    pub(super) zone: Zone,
    pub(super) heard: Duration,
    /// Its newest question for work.
    pub(super) question: u64,
    /// What it is to be told to stop.
    pub(super) stop: BTreeSet<Token>,
    /// Attempts that it was or is to be told to stop, or that it said have failed, and since when.
    /// What it says of them meanwhile may be older than that.
    pub(super) stopped: BTreeMap<Token, Duration>,
    /// With files that are near to it.
    pub(super) near: Believed,
    /// With others.
    pub(super) far: Believed,
    pub(super) jobs_done: u64,
    pub(super) doubts: Doubts,
    pub(super) connections: Connections,
}

/// How fast a worker is believed to be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Believed {
    pub(super) speed: Speed,
    /// A job has told something about its bytes a second.
    is_measured: bool,
}

/// What a worker is believed to do before anything is measured: more than any does, so that each is
/// tried.
const SPEED_AT_FIRST: Speed = Speed { bytes_per_second: (1_u64 << 30) as f64, open: Duration::ZERO };

/// What the latest job counts for in a measured speed.
const NEW_SHARE: f64 = 0.3;

/// Jobs of fewer bytes tell nothing about bytes a second.
const MEASURED_BYTES_MIN: u64 = 1 << 20;

impl Member {
    pub(super) fn new(profile: Profile, zone: Zone, now: Duration) -> Self {
        Self {
            profile,
            zone,
            heard: now,
            question: 0,
            stop: BTreeSet::new(),
            stopped: BTreeMap::new(),
            near: Believed::AT_FIRST,
            far: Believed::AT_FIRST,
            jobs_done: 0,
            doubts: Doubts::default(),
            connections: Connections::default(),
        }
    }

    /// It gets another job beside `running`: where it has no slot left it stops for that what it
    /// does for others, which it says soon.
    pub(super) fn take_place(&mut self, running: usize) {
        let Profile { slots, elsewhere, .. } = &mut self.profile;
        let is_full = running + elsewhere.slots as usize >= *slots as usize;
        let least = elsewhere.gives_way.iter().enumerate().min_by_key(|(_, ran)| **ran);
        if let Some((at, _)) = least.filter(|_| is_full) {
            elsewhere.gives_way.remove(at);
        }
    }

    /// Whether it has what a job needs, and reads its spec.
    pub(super) fn can(&self, needs: &BTreeSet<String>, spec_version: u32) -> bool {
        self.profile.spec_versions.contains(&spec_version) && needs.is_subset(&self.profile.has)
    }

    /// Learns from a job of `bytes` in `zone` that is done.
    pub(super) fn learn(&mut self, zone: Zone, bytes: u64, timings: &Timings) {
        self.jobs_done += 1;
        let is_near = self.zone.is_near(zone);
        if is_near { &mut self.near } else { &mut self.far }.learn(bytes, timings);
    }
}

impl Believed {
    const AT_FIRST: Self = Self { speed: SPEED_AT_FIRST, is_measured: false };

    /// Bytes a second, as far as jobs have told.
    pub(super) fn measured(&self) -> Option<f64> {
        self.is_measured.then_some(self.speed.bytes_per_second)
    }

    fn learn(&mut self, bytes: u64, timings: &Timings) {
        let Self { speed, is_measured } = self;
        let mixed = |old: f64, new: f64| old + NEW_SHARE * (new - old);
        let open = mixed(speed.open.as_secs_f64(), timings.opened.as_secs_f64());
        speed.open = Duration::from_secs_f64(open);
        let worked = timings.ran.saturating_sub(timings.opened).as_secs_f64();
        if bytes >= MEASURED_BYTES_MIN && worked > 0.0 {
            speed.bytes_per_second = mixed(speed.bytes_per_second, bytes as f64 / worked);
            *is_measured = true;
        }
    }
}

/// Whether `member` may have `job` at all, if perhaps later.
pub(super) fn may_have(id: WorkerId, member: &Member, job: &Job) -> bool {
    let order = job.wanted.as_ref().map(|wanted| &wanted.order);
    let can = order.is_some_and(|order| member.can(&order.needs, order.spec_version));
    can && !job.refused_by.contains(&id)
}
