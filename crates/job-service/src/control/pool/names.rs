//! Tenants, zones and kinds of jobs, each by a number for as long as a job or a worker has it.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::Pool;
use super::job::{Kind, KindId, Order};
use crate::control::view::{TenantId, Zone};

/// Numbers above 0 of what has a name. No two have the same at a time.
#[derive(Debug)]
pub(super) struct Names<N> {
    numbers: BTreeMap<N, u32>,
    given: BTreeSet<u32>,
    last: u32,
}

impl<N> Default for Names<N> {
    fn default() -> Self {
        Self { numbers: BTreeMap::new(), given: BTreeSet::new(), last: 0 }
    }
}

impl<N: Ord> Names<N> {
    /// The number of `name`, from now on.
    fn number(&mut self, name: N) -> u32 {
        if let Some(number) = self.numbers.get(&name) {
            return *number;
        }
        loop {
            self.last = self.last.wrapping_add(1);
            if self.last != 0 && self.given.insert(self.last) {
                self.numbers.insert(name, self.last);
                return self.last;
            }
        }
    }

    /// That of `name`, if it has one.
    pub(super) fn get<Q: Ord + ?Sized>(&self, name: &Q) -> Option<u32>
    where
        N: Borrow<Q>,
    {
        self.numbers.get(name).copied()
    }

    /// Forgets all names whose numbers are not in `used`.
    fn retain(&mut self, used: &BTreeSet<u32>) {
        self.numbers.retain(|_, number| used.contains(number));
        self.given.retain(|number| used.contains(number));
    }

    /// Each with its number.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&N, u32)> {
        self.numbers.iter().map(|(name, number)| (name, *number))
    }
}

/// How often unused names are forgotten.
const SWEEP: Duration = Duration::from_secs(10);

impl Pool {
    /// The zone called `name`; without a name it is everywhere.
    pub(super) fn zone(&mut self, name: &str) -> Zone {
        match name {
            "" => Zone::EVERYWHERE,
            name => Zone(self.zones.number(name.to_owned())),
        }
    }

    pub(super) fn tenant(&mut self, name: &str) -> TenantId {
        TenantId(self.tenants.number(name.to_owned()))
    }

    pub(super) fn kind(&mut self, order: &Order) -> KindId {
        let Order { location, needs, spec_version, .. } = order;
        let kind = Kind { location: location.clone(), needs: needs.clone(), spec_version: *spec_version };
        KindId(self.kinds.number(kind))
    }

    /// Forgets names that no job and no worker has, every [`SWEEP`]. Nothing is lost with them: a
    /// tenant without a job is owed nothing.
    pub(super) fn forget_names(&mut self, now: Duration) {
        if now.saturating_sub(self.swept) < SWEEP {
            return;
        }
        self.swept = now;
        let (mut tenants, mut kinds) = (BTreeSet::new(), BTreeSet::new());
        let mut zones: BTreeSet<u32> = self.members.values().map(|member| member.zone.0).collect();
        for wanted in self.jobs.all().filter_map(|job| job.wanted.as_ref()) {
            tenants.insert(wanted.tenant.0);
            zones.insert(wanted.zone.0);
            kinds.insert(wanted.kind.0);
        }
        self.tenants.retain(&tenants);
        self.zones.retain(&zones);
        self.kinds.retain(&kinds);
        self.ledger.retain(|tenant| tenants.contains(&tenant.0));
    }
}
