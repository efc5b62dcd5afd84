//! What the manifest of a tree carries: [`State`], and the edits of `firn_format::manifest`.

use firn_format::manifest::{Change, EditEncoder, ManifestEdit};
use firn_storage::file::manifest::{self, Content, Edit};

use super::before::Before;
use super::state::State;

/// The manifest of a tree.
pub(crate) type Manifest = manifest::Manifest<State>;

/// Each opening for writing has a generation of its own, which is in every edit.
impl Content for State {
    type Change = Change;
    type Before = Before;

    fn apply(&mut self, change: &Change) -> Result<(), String> {
        self.apply(change)
    }

    fn before(&self, changes: &[Change]) -> Before {
        Before::of(self, changes)
    }

    fn restore(&mut self, before: Before) {
        before.restore(self);
    }

    fn encode(&self, number: u64, changes: &[Change]) -> Vec<u8> {
        let mut encoder = EditEncoder::default();
        changes.iter().for_each(|change| encoder.push(change));
        encoder.finish(number, false, self.generation)
    }

    fn encode_base(&self, number: u64) -> Vec<u8> {
        let mut encoder = EditEncoder::default();
        self.restate(&mut |change| encoder.push(&change));
        encoder.finish(number, true, self.generation)
    }

    fn decode(bytes: &[u8]) -> Result<Edit<Change>, firn_format::Error> {
        let ManifestEdit { number, base, changes, .. } = ManifestEdit::decode(bytes)?;
        Ok(Edit { number, is_base: base, changes })
    }

    fn take_over(home: u128) -> Change {
        Change::TakeOver { id: home }
    }

    fn is_take_over(change: &Change) -> bool {
        matches!(change, Change::TakeOver { .. })
    }

    fn identity(&self) -> Change {
        Change::Database { id: self.database }
    }
}
