//! The keyspace is dropped with all that refers to values: `Tree::drop_keyspace`,
//! `plan_dropped_blobs` in `blob_gc/liveness.rs`.

use std::sync::Arc;

use super::commit::{BlobEdit, Going};
use super::database::{Database, Mistake, Version};
use super::write::references_of;
use crate::model::sync::{locked, pause, step};

impl Database {
    /// `Tree::drop_keyspace`.
    pub(crate) fn drop_keyspace(&self) {
        let sealing = (!self.is_wrong(Mistake::DropUnlocked)).then(|| locked(&self.sealing));
        let dead = self.plan_dropped_blobs();
        let mut manifest = locked(&self.manifest);
        let edit = BlobEdit { sealed: Vec::new(), dead, newly_obsolete: Going::new() };
        let liveness = self.changes(&mut manifest, &edit, &self.map());
        let map = self.install(edit, liveness);
        self.change_version(|version| *version = Version { is_dropped: true, map, ..Version::default() });
        drop((manifest, sealing));
    }

    /// What refers to values; those in segments that are not sealed are found dead when they are.
    fn plan_dropped_blobs(&self) -> Going {
        let version = self.version.load();
        // Tables' references are read.
        pause();
        let mut dead: Going = version.tables.iter().flat_map(|table| references_of(table)).collect();
        let (segments, newest) = {
            let manifest = locked(&self.manifest);
            (manifest.segments.clone(), self.map())
        };
        let map = match self.is_wrong(Mistake::DropByAnOldMap) {
            true => Arc::clone(&version.map),
            false => newest,
        };
        // The heads of living values show what the buffer refers to.
        for (number, known) in segments {
            let Some(sealed) = map.sealed(number) else { continue };
            step();
            let records = self.files.assert_has(sealed.file, "its heads are read");
            let live = records.iter().enumerate().filter(|(ordinal, _)| !known.dead.contains(ordinal));
            dead.extend(live.map(|(_, (name, _))| *name));
        }
        dead
    }
}
