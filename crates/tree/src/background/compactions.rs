//! Which compaction is due.

use super::{InProgress, Task, TaskKind};
use crate::compact::expired::pick_expired;
use crate::compact::hiding::pick_hiding;
use crate::compact::kept::pick_kept;
use crate::compact::pick::{Choice, PickRules, first_with_room, pick, pick_for_deletes};
use crate::compact::seeks::pick_for_reads;
use crate::compact::small::{OfKeyspace, together};
use crate::database::Database;
use crate::version::Version;

impl Database {
    /// A compaction that is due where tables refer to values, before another collection.
    /// Collections always find something to do while values are overwritten. They choose better
    /// among more that is known to be dead, with more room beside fewer tables.
    pub(super) fn choose_compaction_of_references(
        &self,
        busy: &InProgress,
        version: &Version,
    ) -> Option<Task> {
        if busy.claims.compacting > 0 || !version.live().any(|keyspace| keyspace.levels.has_references()) {
            return None;
        }
        // A thread that is alone would else compact for ever where much lies in the tree.
        if self.settings.background_threads == 1 && busy.claims.is_collection_next {
            return None;
        }
        let (keyspace, choice) = self.choose_compaction(busy, version)?;
        let is_due = choice.score >= 1.0 && version.keyspace(keyspace).ok()?.levels.has_references();
        is_due.then_some(Task::Compact { keyspace, choice })
    }

    /// A compaction that drains have to wait for.
    pub(super) fn choose_far_behind(&self, busy: &InProgress, version: &Version) -> Option<Task> {
        let choices = self.due_compactions(busy, version);
        let is_far = |(_, choice): &OfKeyspace| choice.score >= FAR_BEHIND;
        choices.iter().any(is_far).then(|| self.with_others(busy, version, choices)).flatten()
    }

    /// A compaction, unless the threads are wanted for something else.
    pub(super) fn choose_spare_compaction(&self, busy: &InProgress, version: &Version) -> Option<Task> {
        let choices = self.due_compactions(busy, version);
        let score = choices.iter().map(|(_, choice)| choice.score).max_by(f64::total_cmp)?;
        // While the buffer fills, a thread is left to the drain that will be due, unless compaction
        // is far behind.
        let is_filling = self.buffer_bytes() > self.settings.buffer_bytes / 2;
        let is_spare = busy.claims.compacting + 1 < self.settings.background_threads.max(2);
        let is_spare = is_spare || self.is_somebody_free(busy);
        let may_begin = is_spare || !is_filling || score >= FAR_BEHIND;
        may_begin.then(|| self.with_others(busy, version, choices)).flatten()
    }

    /// The most urgent of `choices`; with other small ones where it is small.
    fn with_others(&self, busy: &InProgress, version: &Version, choices: Vec<OfKeyspace>) -> Option<Task> {
        let most = choices.iter().map(|(_, choice)| choice.score).max_by(f64::total_cmp)?;
        let is_small = |(id, choice): &OfKeyspace| {
            version.keyspace(*id).is_ok_and(|keyspace| self.is_small(keyspace, choice))
                && !busy.backoff.has_failed((TaskKind::Compact, *id))
        };
        let may_try = busy.backoff.may_try((TaskKind::CompactSmall, 0), self.clock.now());
        if may_try && choices.iter().any(|one| one.1.score >= most && is_small(one)) {
            let together = together(choices.iter().filter(|one| is_small(one)).cloned().collect());
            if !together.is_empty() {
                return Some(Task::CompactSmall { choices: together });
            }
        }
        let (keyspace, choice) = most_urgent(choices)?;
        Some(Task::Compact { keyspace, choice })
    }

    /// The most urgent compaction that may begin now, with its keyspace.
    pub(super) fn choose_compaction(&self, busy: &InProgress, version: &Version) -> Option<OfKeyspace> {
        most_urgent(self.due_compactions(busy, version))
    }

    /// The most urgent compaction of each keyspace that may begin now.
    fn due_compactions(&self, busy: &InProgress, version: &Version) -> Vec<OfKeyspace> {
        let may_begin =
            |is_relief| self.is_thread_left(busy, is_relief) && self.is_begun_soon(busy, is_relief);
        if !busy.backoff.may_write(self.clock.now()) || busy.is_held() || !may_begin(true) {
            return Vec::new();
        }
        let rules =
            PickRules { relief_only: !may_begin(false), room_bytes: self.job_room(), ..self.pick_rules() };
        let part = match (self.is_short_of_disk(), self.is_at_rest()) {
            // Writers wait for what is had so.
            (true, _) => 0.1,
            // Processors and devices idle then.
            (false, true) => 0.5,
            (false, false) => 1.0,
        };
        // What a look is about to find need not be rewritten.
        let now = self.clock.now();
        let taken = busy.claims.tables_not_to_choose();
        let may =
            |id| !busy.claims.reclaiming.contains(&id) && busy.backoff.may_try((TaskKind::Compact, id), now);
        let known = version.live().filter(|keyspace| may(keyspace.id()));
        let choices = known.filter_map(|keyspace| {
            let levels = &keyspace.levels;
            let share_max = self.garbage_share_max(keyspace) * part;
            let rules = PickRules { share_max, ..rules };
            let looks = &keyspace.observed.looks;
            let pickers: [&dyn Fn() -> Option<Choice>; 6] = [
                &|| pick(levels, &rules, &taken),
                &|| pick_hiding(levels, &rules, &taken),
                &|| pick_expired(levels, &rules, &taken),
                &|| pick_kept(levels, &rules, &taken),
                &|| pick_for_deletes(levels, &rules, &taken, &looks.partly()),
                &|| pick_for_reads(levels, &rules, &taken, &keyspace.observed.seeks),
            ];
            let choice = first_with_room(pickers.iter().filter_map(|pick| pick()), &rules)?;
            (!rules.relief_only || choice.is_relief()).then_some((keyspace.id(), choice))
        });
        let mut choices: Vec<OfKeyspace> = choices.collect();
        let fits = |(_, choice): &OfKeyspace| choice.fits(&rules);
        if choices.iter().any(fits) {
            choices.retain(fits);
        }
        choices
    }
}

fn most_urgent(choices: Vec<OfKeyspace>) -> Option<OfKeyspace> {
    choices.into_iter().max_by(|a, b| a.1.score.total_cmp(&b.1.score))
}

/// Score of a compaction that drains have to wait for.
pub(crate) const FAR_BEHIND: f64 = 2.0;
