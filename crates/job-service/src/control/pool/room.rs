//! Which jobs there is room for.
//!
//! A tenant that hands in more than is done would soon have all there is, and whoever came later would be refused for its sake. So each may have only as much
//! as is left after it: one alone half, two that want all a third each. Whoever comes finds room, and nobody has to be told who else there is (a dynamic
//! threshold, as switches divide their buffers).

use super::job::Order;
use super::jobs::Share;
use super::{Limits, Pool};
use crate::control::view::TenantId;

/// What can be done where there is no room.
const ADVICE: &str = "give it more workers, or some of its databases another control plane";

impl Pool {
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
