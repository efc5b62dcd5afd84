//! Value segments as the manifest's edits add up to them.

use std::collections::BTreeMap;
use std::sync::Arc;

use firn_format::manifest::{Change, RedirectPlace, ValueSegmentMeta};
use firn_format::table::ReferenceSet;
use firn_format::value::{Ordinals, SegmentNumber};

/// What the manifest says of values beside the tree.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ValuesState {
    /// Sealed segments.
    pub(crate) segments: BTreeMap<SegmentNumber, SegmentState>,
    /// Of collected segments, by their numbers.
    pub(crate) redirects: BTreeMap<SegmentNumber, RedirectPlace>,
    /// References of tables that no reader follows any more, by keyspace; none of the sets is
    /// empty. Their values are dead.
    pub(crate) stale: BTreeMap<u32, Arc<ReferenceSet>>,
    /// Numbers below were given away.
    pub(crate) next: SegmentNumber,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SegmentState {
    pub(crate) meta: Arc<ValueSegmentMeta>,
    /// Values that nothing live refers to.
    pub(crate) dead: Arc<Ordinals>,
}

impl ValuesState {
    /// Whether an edit says where the values of `number` are.
    pub(crate) fn knows(&self, number: SegmentNumber) -> bool {
        self.segments.contains_key(&number) || self.redirects.contains_key(&number)
    }

    /// How many references of tables of `keyspace` are stale.
    pub(crate) fn stale_count(&self, keyspace: u32) -> u64 {
        self.stale.get(&keyspace).map_or(0, |stale| stale.len())
    }

    /// Adds one change that is about values; others do nothing.
    ///
    /// # Errors
    /// Says what does not fit what went before.
    pub(super) fn apply(&mut self, change: &Change) -> Result<(), String> {
        match change {
            Change::AddValueSegment { segment } => {
                let number = segment.number;
                if self.segments.contains_key(&number) {
                    return Err(format!("value segment {number} is added twice"));
                }
                let state = SegmentState { meta: Arc::new(segment.clone()), dead: Arc::default() };
                self.segments.insert(number, state);
                self.next = self.next.max(SegmentNumber(number.0.saturating_add(1)));
            }
            Change::NextValueSegment(number) => self.next = self.next.max(*number),
            Change::RemoveValueSegment { number } => {
                if let Some((victim, _)) = self.redirects.iter().find(|(_, place)| place.holder == *number) {
                    return Err(format!(
                        "segment {number} is removed, but a redirect of {victim} leads there"
                    ));
                }
                if self.segments.remove(number).is_none() {
                    return Err(format!("unknown value segment {number} is removed"));
                }
            }
            Change::DeadMap { number, dead } => {
                let Some(segment) = self.segments.get_mut(number) else {
                    return Err(format!("values of unknown segment {number} die"));
                };
                if segment.dead.common_count(dead) > 0 {
                    return Err(format!("values of segment {number} die twice"));
                }
                if dead.last().is_some_and(|last| last >= segment.meta.ordinals) {
                    return Err(format!("values die that segment {number} does not have"));
                }
                Arc::make_mut(&mut segment.dead).add_all(dead);
            }
            Change::Redirect { victim, place } => {
                if !self.segments.contains_key(&place.holder) {
                    let holder = place.holder;
                    return Err(format!("the redirect of {victim} is in unknown segment {holder}"));
                }
                self.redirects.insert(*victim, *place);
            }
            Change::DropRedirect { victim } => match self.redirects.remove(victim) {
                Some(_) => {}
                None => return Err(format!("an unknown redirect of segment {victim} is dropped")),
            },
            Change::Stale { keyspace, references } => {
                let stale = Arc::make_mut(self.stale.entry(*keyspace).or_default());
                if stale.add_all(references) > 0 {
                    return Err(format!("references of keyspace {keyspace} become stale twice"));
                }
            }
            Change::NotStale { keyspace, references } => {
                let stale = Arc::make_mut(self.stale.entry(*keyspace).or_default());
                if stale.remove_all(references) > 0 {
                    return Err(format!(
                        "references of keyspace {keyspace} are stale no more that never were"
                    ));
                }
                if stale.is_empty() {
                    self.stale.remove(keyspace);
                }
            }
            Change::DropKeyspace { id } => drop(self.stale.remove(id)),
            _ => {}
        }
        Ok(())
    }

    /// Puts changes that add up to this from nothing.
    pub(super) fn restate(&self, put: &mut dyn FnMut(Change)) {
        if self.next > SegmentNumber(0) {
            put(Change::NextValueSegment(self.next));
        }
        for (number, segment) in &self.segments {
            put(Change::AddValueSegment { segment: (*segment.meta).clone() });
            if !segment.dead.is_empty() {
                put(Change::DeadMap { number: *number, dead: (*segment.dead).clone() });
            }
        }
        for (victim, place) in &self.redirects {
            put(Change::Redirect { victim: *victim, place: *place });
        }
        for (keyspace, references) in &self.stale {
            put(Change::Stale { keyspace: *keyspace, references: (**references).clone() });
        }
    }
}

#[cfg(test)]
mod tests;
