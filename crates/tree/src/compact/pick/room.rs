//! What a choice needs of the disk.
//!
//! Inputs go only once the outputs are there. Where the disk is nearly full, a choice whose outputs
//! find no room fails each time it is tried. So does the next one, since the levels are the same.
//! So what makes room goes first, whatever else is more urgent.

use super::{Overlap, PickRules};
use crate::maintenance::Choice;
use crate::version::Table;

impl Choice {
    /// Bytes that its outputs have, about. What stays in level 0 is taken to keep all that has not
    /// expired at `now_ms`.
    fn output_bytes(&self, now_ms: u64) -> u64 {
        let expired = |table: &Table| (table.expired_share(now_ms) * table.meta().bytes as f64) as u64;
        let expired: u64 = self.inputs.iter().map(|(_, _, table)| expired(table)).sum();
        let living = self.input_bytes().saturating_sub(expired);
        match (self.moves, self.output_level) {
            (true, _) => 0,
            (false, 0) => living,
            (false, _) => living.saturating_sub(self.superseded_bytes()),
        }
    }

    /// Whether its outputs have room on the disk.
    pub(crate) fn fits(&self, rules: &PickRules) -> bool {
        self.output_bytes(rules.now_ms) <= rules.room_bytes
    }
}

impl Overlap {
    /// Whether all of it, rewritten into the base level, has room on the disk.
    pub(super) fn fits(&self, rules: &PickRules) -> bool {
        self.bytes().saturating_sub(self.superseded_bytes()) <= rules.room_bytes
    }
}

/// The first of `choices` that has room, or else the first one: estimates may be wrong.
pub(crate) fn first_with_room(
    choices: impl IntoIterator<Item = Choice>,
    rules: &PickRules,
) -> Option<Choice> {
    let mut first = None;
    for choice in choices {
        if choice.fits(rules) {
            return Some(choice);
        }
        first.get_or_insert(choice);
    }
    first
}
