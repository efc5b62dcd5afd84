//! Which jobs there is room for.
//!
//! A tenant that hands in more than is done would soon have all room, and later tenants would be
//! refused because of it. So each may have only as much as is left after it: a single tenant half,
//! two that want all a third each. A new tenant finds room, and none has to know of the others (a
//! dynamic threshold, as switches divide their buffers).

use super::job::Order;
use super::jobs::Share;
use super::member::Profile;
use super::{Limits, Pool};
use crate::bounds::{self, Bound};
use crate::control::view::TenantId;

/// What can be done where there is no room.
const ADVICE: &str = "give it more workers, or some of its databases another control plane";

impl Pool {
    /// Why there is no room for the worker that says `profile`, if there is none. A known worker
    /// takes its own place again.
    pub fn no_room_for_worker(&self, profile: &Profile) -> Option<String> {
        let known = self.member_ids.get(&profile.id).and_then(|id| self.members.get(id));
        let (others, own) = (self.members.len() as u64, u64::from(known.is_some()));
        let slots = self.members.values().map(|member| u64::from(member.profile.slots)).sum::<u64>();
        let own_slots = known.map_or(0, |member| u64::from(member.profile.slots));
        beyond(&bounds::WORKERS, others - own + 1)
            .or_else(|| beyond(&bounds::SLOTS_ALL, slots - own_slots + u64::from(profile.slots)))
    }

    /// Why there is no room for the database `client`, if there is none.
    pub fn no_room_for_client(&self, client: u128) -> Option<String> {
        let is_known = self.clients.contains_key(&client);
        (!is_known).then(|| beyond(&bounds::CLIENTS, self.clients.len() as u64 + 1)).flatten()
    }

    /// Whether a job that only its worker reports can be remembered.
    pub(super) fn has_room_for_reported(&self, client: u128) -> bool {
        self.jobs.share().jobs < self.limits.jobs_max && self.no_room_for_client(client).is_none()
    }

    /// Why there is no room for one more job, if there is none.
    pub(super) fn too_much(&self, order: &Order) -> Option<String> {
        let Limits { jobs_max, held_bytes_max, .. } = self.limits;
        let (all, spec_bytes) = (self.jobs.share(), order.spec.len() as u64);
        if all.jobs >= jobs_max {
            return Some(format!("{jobs_max} jobs are here already, which is the limit: {ADVICE}"));
        }
        if all.held_bytes + spec_bytes > held_bytes_max {
            return Some(format!(
                "a spec of {spec_bytes} bytes beside {} of other jobs is more than {held_bytes_max}, which is the limit: {ADVICE}",
                all.held_bytes
            ));
        }
        let tenant = &order.tenant;
        let mine = self.tenants.get(tenant).map(|number| self.jobs.share_of(TenantId(number)))?;
        let (jobs_free, bytes_free) = (jobs_max - all.jobs, held_bytes_max - all.held_bytes);
        let Share { jobs, held_bytes } = mine;
        if jobs >= jobs_free {
            return Some(format!(
                "{jobs} jobs of tenant {tenant} are here already, and there is room for {jobs_free} more, which is kept for others: {ADVICE}"
            ));
        }
        (held_bytes > 0 && held_bytes + spec_bytes > bytes_free).then(|| {
            format!(
                "a spec of {spec_bytes} bytes beside {held_bytes} of other jobs of tenant {tenant} is more than {bytes_free}, the rest of which is kept for others: {ADVICE}"
            )
        })
    }
}

/// What to say where `count` is more than `bound`.
fn beyond(bound: &Bound, count: u64) -> Option<String> {
    let Bound { field, max, unit, .. } = bound;
    (count > *max)
        .then(|| format!("there is room for {max} {unit} ({field}), this would make {count}: {ADVICE}"))
}
