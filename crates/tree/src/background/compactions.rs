//! Which compaction is due.

use super::choose::Choosing;
use crate::blob_gc::unreclaimed::level0_share_max;
use crate::compact::expired::pick_expired;
use crate::compact::hiding::pick_hiding;
use crate::compact::kept::pick_kept;
use crate::compact::pick::{FAR_BEHIND, PickRules, first_with_room, pick, pick_for_deletes};
use crate::compact::pick_rules;
use crate::compact::seeks::pick_for_reads;
use crate::compact::small::together;
use crate::maintenance::{Choice, OfKeyspace, Task, TaskKind};

impl Choosing<'_> {
    /// A compaction that is due where tables refer to values, before another GC.
    /// GCs always find something to do while values are overwritten. They choose better
    /// among more that is known to be dead, with more room beside fewer tables.
    pub(super) fn choose_compaction_of_references(&self) -> Option<Task> {
        if self.busy.claims.tables.compacting > 0
            || !self.version.live().any(|keyspace| keyspace.levels.has_references())
        {
            return None;
        }
        // A thread that is alone would else compact for ever where much lies in the tree.
        if self.database.settings.background_threads == 1 && self.busy.claims.blobs.is_blob_gc_next {
            return None;
        }
        let (keyspace, choice) = self.choose_compaction()?;
        let is_due = choice.score >= 1.0 && self.version.keyspace(keyspace).ok()?.levels.has_references();
        is_due.then_some(Task::Compact { keyspace, choice })
    }

    /// A compaction that flushes have to wait for.
    pub(super) fn choose_far_behind(&self) -> Option<Task> {
        let choices = self.due_compactions();
        let is_far = |(_, choice): &OfKeyspace| choice.score >= FAR_BEHIND;
        choices.iter().any(is_far).then(|| self.with_others(choices)).flatten()
    }

    /// A compaction, unless the threads are wanted for something else.
    pub(super) fn choose_compaction_beside(&self) -> Option<Task> {
        let choices = self.due_compactions();
        let score = choices.iter().map(|(_, choice)| choice.score).max_by(f64::total_cmp)?;
        // While the buffer fills, a thread is left to the flush that will be due, unless compaction
        // is far behind.
        let is_filling = self.database.commit.buffer_bytes() > self.database.settings.engine.buffer_bytes / 2;
        let has_thread =
            self.busy.claims.tables.compacting + 1 < self.database.settings.background_threads.max(2);
        let has_thread = has_thread || self.is_worker_free();
        let may_begin = has_thread || !is_filling || score >= FAR_BEHIND;
        may_begin.then(|| self.with_others(choices)).flatten()
    }

    /// The most urgent of `choices`; with other small ones where it is small.
    fn with_others(&self, choices: Vec<OfKeyspace>) -> Option<Task> {
        let most = choices.iter().map(|(_, choice)| choice.score).max_by(f64::total_cmp)?;
        let is_small = |(id, choice): &OfKeyspace| {
            self.version
                .keyspace(*id)
                .is_ok_and(|keyspace| self.database.compacting().is_small(keyspace, choice))
                && !self.busy.backoff.has_failed((TaskKind::Compact, *id))
        };
        let may_try = self.busy.backoff.may_try((TaskKind::CompactSmall, 0), self.now);
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
    pub(super) fn choose_compaction(&self) -> Option<OfKeyspace> {
        most_urgent(self.due_compactions())
    }

    /// The most urgent compaction of each keyspace that may begin now.
    fn due_compactions(&self) -> Vec<OfKeyspace> {
        let may_begin = |is_l0| self.is_thread_left(is_l0) && self.is_begun_soon(is_l0);
        if !self.busy.backoff.may_write(self.now) || self.busy.is_held() || !may_begin(true) {
            return Vec::new();
        }
        let rules = PickRules {
            l0_only: !may_begin(false),
            room_bytes: self.database.commit.job_room(),
            ..pick_rules(&self.database.settings, &self.database.catalog)
        };
        let part = match (self.database.commit.is_short_of_disk(), self.database.is_at_rest()) {
            // Writers wait for what is had so.
            (true, _) => 0.1,
            // Processors and devices idle then.
            (false, true) => 0.5,
            (false, false) => 1.0,
        };
        // What a look is about to find need not be rewritten.
        let taken = self.busy.claims.tables.not_to_choose();
        let may = |id| {
            !self.busy.claims.tables.reclaiming.contains(&id)
                && self.busy.backoff.may_try((TaskKind::Compact, id), self.now)
        };
        let map = self.database.blobs.map();
        let known = self.version.live().filter(|keyspace| may(keyspace.id()));
        let choices = known.filter_map(|keyspace| {
            let levels = &keyspace.levels;
            let share_max = level0_share_max(keyspace, &map, &self.database.settings) * part;
            let rules = PickRules { share_max, ..rules };
            let checks = &keyspace.observed.reclaim_checks;
            let pickers: [&dyn Fn() -> Option<Choice>; 6] = [
                &|| pick(levels, &rules, &taken),
                &|| pick_hiding(levels, &rules, &taken),
                &|| pick_expired(levels, &rules, &taken),
                &|| pick_kept(levels, &rules, &taken),
                &|| pick_for_deletes(levels, &rules, &taken, &checks.partly()),
                &|| pick_for_reads(levels, &rules, &taken, &keyspace.observed.seeks),
            ];
            let choice = first_with_room(pickers.iter().filter_map(|pick| pick()), &rules)?;
            (!rules.l0_only || choice.is_l0()).then_some((keyspace.id(), choice))
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
