//! Blob segments as the manifest's edits add up to them.

use std::collections::BTreeMap;
use std::sync::Arc;

use firn_format::blob::{Ordinals, SegmentNumber};
use firn_format::manifest::{BlobSegmentMeta, Change, RelocationTarget};
use firn_format::table::ReferenceSet;

/// What the manifest says of separated values.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct BlobsState {
    /// Sealed segments.
    pub(crate) segments: BTreeMap<SegmentNumber, SegmentState>,
    /// Of collected segments, by their numbers.
    pub(crate) relocations: BTreeMap<SegmentNumber, RelocationTarget>,
    /// References of tables that no reader follows any more, by keyspace; none of the sets is
    /// empty. Their values are dead.
    pub(crate) obsolete: BTreeMap<u32, Arc<ReferenceSet>>,
    /// Numbers below were given away.
    pub(crate) next: SegmentNumber,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SegmentState {
    pub(crate) meta: Arc<BlobSegmentMeta>,
    /// Values that nothing live refers to.
    pub(crate) dead: Arc<Ordinals>,
}

impl BlobsState {
    /// Whether an edit says where the values of `number` are.
    pub(crate) fn knows(&self, number: SegmentNumber) -> bool {
        self.segments.contains_key(&number) || self.relocations.contains_key(&number)
    }

    /// How many references of tables of `keyspace` are obsolete.
    pub(crate) fn obsolete_count(&self, keyspace: u32) -> u64 {
        self.obsolete.get(&keyspace).map_or(0, |obsolete| obsolete.len())
    }

    /// Adds one change that is about values; others do nothing.
    ///
    /// # Errors
    /// Says what does not fit what went before.
    pub(super) fn apply(&mut self, change: &Change) -> Result<(), String> {
        match change {
            Change::AddBlobSegment { segment } => {
                let number = segment.number;
                if self.segments.contains_key(&number) {
                    return Err(format!("blob segment {number} is added twice"));
                }
                let state = SegmentState { meta: Arc::new(segment.clone()), dead: Arc::default() };
                self.segments.insert(number, state);
                self.next = self.next.max(SegmentNumber(number.0.saturating_add(1)));
            }
            Change::NextBlobSegment(number) => self.next = self.next.max(*number),
            Change::RemoveBlobSegment { number } => {
                if let Some((victim, _)) = self.relocations.iter().find(|(_, place)| place.holder == *number)
                {
                    return Err(format!(
                        "segment {number} is removed, but a relocation of {victim} leads there"
                    ));
                }
                if self.segments.remove(number).is_none() {
                    return Err(format!("unknown blob segment {number} is removed"));
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
            Change::Relocation { victim, place } => {
                if !self.segments.contains_key(&place.holder) {
                    let holder = place.holder;
                    return Err(format!("the relocation of {victim} is in unknown segment {holder}"));
                }
                self.relocations.insert(*victim, *place);
            }
            Change::DropRelocation { victim } => match self.relocations.remove(victim) {
                Some(_) => {}
                None => return Err(format!("an unknown relocation of segment {victim} is dropped")),
            },
            Change::AddObsolete { keyspace, references } => {
                let obsolete = Arc::make_mut(self.obsolete.entry(*keyspace).or_default());
                if obsolete.add_all(references) > 0 {
                    return Err(format!("references of keyspace {keyspace} become obsolete twice"));
                }
            }
            Change::RemoveObsolete { keyspace, references } => {
                let obsolete = Arc::make_mut(self.obsolete.entry(*keyspace).or_default());
                if obsolete.remove_all(references) > 0 {
                    return Err(format!(
                        "references of keyspace {keyspace} are obsolete no more that never were"
                    ));
                }
                if obsolete.is_empty() {
                    self.obsolete.remove(keyspace);
                }
            }
            Change::DropKeyspace { id } => drop(self.obsolete.remove(id)),
            _ => {}
        }
        Ok(())
    }

    /// Puts changes that add up to this from nothing.
    pub(super) fn restate(&self, put: &mut dyn FnMut(Change)) {
        if self.next > SegmentNumber(0) {
            put(Change::NextBlobSegment(self.next));
        }
        for (number, segment) in &self.segments {
            put(Change::AddBlobSegment { segment: (*segment.meta).clone() });
            if !segment.dead.is_empty() {
                put(Change::DeadMap { number: *number, dead: (*segment.dead).clone() });
            }
        }
        for (victim, place) in &self.relocations {
            put(Change::Relocation { victim: *victim, place: *place });
        }
        for (keyspace, references) in &self.obsolete {
            put(Change::AddObsolete { keyspace: *keyspace, references: (**references).clone() });
        }
    }
}

#[cfg(test)]
mod tests;
