//! The keyspace goes with all that refers to values: `Engine::drop_keyspace`, `values/deaths.rs`.

use std::sync::Arc;

use super::commit::{Going, ValueEdit};
use super::database::{Database, Version};
use super::homes::{Name, lock};
use super::write::references_of;
use crate::model::sync::locked;

impl Database {
    /// `Tree::drop_keyspace`.
    pub(crate) fn drop_keyspace(&self) {
        // `plan_dropped_values`. What is in segments that are not sealed is found dead when they are.
        let sealing = locked(&self.sealing);
        let version = self.version.load();
        let is_sealed = |name: &Name| version.map.place(*name).is_some();
        let dead: Going = all_references(&version).into_iter().filter(is_sealed).collect();
        let mut manifest = locked(&self.manifest);
        let edit = ValueEdit { sealed: Vec::new(), dead };
        let deaths = self.changes(&mut manifest, &edit, &self.map());
        let map = self.install(edit, deaths);
        self.change_version(|version| *version = Version { is_dropped: true, map, ..Version::default() });
        drop((manifest, sealing));
    }
}

/// What any record refers to, that which newer ones hide included.
fn all_references(version: &Version) -> Vec<Name> {
    let tables = version.tables.iter().flat_map(|table| references_of(table));
    // What the heads of segments tell that the buffer may refer to.
    let buffered = version.runs.iter().chain([&version.memtable]).map(Arc::clone).flat_map(|memtable| {
        let records = lock(&memtable.0).records.clone();
        records.into_iter().filter_map(|(_, record)| record.name)
    });
    tables.chain(buffered).collect()
}
