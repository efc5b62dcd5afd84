//! Compactions of all tables there are: `compact/run.rs`, `compact/blobs.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::commit::{Edit, Going};
use super::database::{Database, Mistake, Record, Table, under};
use super::homes::{FileName, Home, Name, Records, Sealed, lock};
use super::write::{NewlySealed, references_of};
use crate::model::sync::{locked, step};

/// What a compaction does with the values of records that stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policy {
    /// Nothing: it does not read them.
    Keep,
    /// Values come into the tree.
    Inside,
    /// Values in the tree leave it.
    Beside,
}

/// `ValueSource`: where the values of a segment are, by the file and by the relocation there.
struct Source {
    file: FileName,
    relocation: Option<Arc<BTreeMap<usize, usize>>>,
}

#[derive(Default)]
struct HeldPolicy {
    sources: BTreeMap<u32, Source>,
    obsolete: Going,
    held: Vec<Arc<Sealed>>,
}

impl Database {
    /// A compaction that lets values be where they are.
    pub(crate) fn compact(&self) {
        self.compact_to(Policy::Keep);
    }

    /// `Busy::claim`, and what is let go at the end.
    pub(crate) fn compact_to(&self, policy: Policy) {
        if std::mem::replace(&mut lock(&self.busy).is_compacting, true) {
            return;
        }
        let stem = self.output_names.draw();
        self.rewrite(policy, stem);
        self.output_names.let_go(stem);
        lock(&self.busy).is_compacting = false;
    }

    /// `Compacting::begin_rewrite`, the job, and `Compacting::end_rewrite`.
    fn rewrite(&self, policy: Policy, stem: u32) {
        let version = self.version.load();
        let removed = version.tables.clone();
        if removed.is_empty() {
            return;
        }
        // `references_of`, which reads.
        let going: Going = removed.iter().flat_map(|table| references_of(table)).collect();
        let Some(HeldPolicy { sources, obsolete, held }) = self.blob_policy(&going) else { return };
        let old_map = self.is_wrong(Mistake::TranslateByAnOldMap).then(|| Arc::clone(&version.map));
        drop(version);
        let tables = removed.iter().map(|table| (**table).clone());
        let mut added = tables.reduce(under).unwrap_or_default();
        // `Compaction::is_obsolete`.
        added.retain(|_, record| record.name.is_none_or(|name| !obsolete.contains(&name)));
        let left = match policy {
            Policy::Keep => None,
            Policy::Inside => {
                self.bring(&mut added, &sources);
                None
            }
            Policy::Beside => self.put_beside(&mut added, stem),
        };
        let (newly_obsolete, flushed) = (Going::new(), Vec::new());
        self.commit(Edit { removed, added, going, newly_obsolete, left, flushed, old_map });
        drop(held);
    }

    /// `blob_policy`: under the manifest's lock, so that the map says what the manifest
    /// does. `None` if the keyspace is gone.
    fn blob_policy(&self, going: &Going) -> Option<HeldPolicy> {
        if going.is_empty() {
            return Some(HeldPolicy::default());
        }
        let (mut sources, mut held) = (BTreeMap::new(), Vec::new());
        let manifest = locked(&self.manifest);
        if self.version.load().is_dropped && !self.is_wrong(Mistake::CompactTheDropped) {
            return None;
        }
        let map = self.map();
        let is_followed =
            |name: &&Name| !manifest.obsolete.contains(name) || self.is_wrong(Mistake::FollowTheObsolete);
        for (born, _) in going.iter().filter(is_followed) {
            let (sealed, relocation) = match map.homes.get(born) {
                Some(Home::Sealed(sealed)) => (sealed, None),
                Some(Home::Moved(relocation, sealed)) => (sealed, Some(Arc::clone(relocation))),
                _ => panic!("tables refer to segment {born}, which is not sealed"),
            };
            if sources.insert(*born, Source { file: sealed.file, relocation }).is_none() {
                held.push(Arc::clone(sealed));
            }
        }
        let obsolete = manifest.obsolete.intersection(going).copied().collect();
        drop(manifest);
        held.retain(|_| !self.is_wrong(Mistake::HoldNothing));
        Some(HeldPolicy { sources, obsolete, held })
    }

    /// Values that are read come into the tree.
    fn bring(&self, table: &mut Table, sources: &BTreeMap<u32, Source>) {
        for record in table.values_mut() {
            let Some(name @ (born, ordinal)) = record.name.take() else { continue };
            // Each value is a step of its own.
            step();
            let Source { file, relocation } = &sources[&born];
            let records = self.files.assert_has(*file, "a job reads it");
            let ordinal = relocation.as_ref().map_or(ordinal, |relocation| relocation[&ordinal]);
            assert_eq!(Self::value_of(&records, ordinal, name), record.value, "another value is brought");
        }
    }

    /// Values in the tree leave it, for a segment that the job writes.
    fn put_beside(&self, table: &mut Table, stem: u32) -> Option<NewlySealed> {
        // `begin_jobs`: whether it turns out to be used or not.
        let number = self.next_number();
        let inside = table.values_mut().filter(|record| record.name.is_none());
        let leave = |(ordinal, record): (usize, &mut Record)| {
            let name: Name = (number, ordinal);
            record.name = Some(name);
            (name, record.value)
        };
        let records: Records = Arc::new(inside.enumerate().map(leave).collect());
        if records.is_empty() {
            return None;
        }
        let (file, count) = (FileName::Output { stem, attempt: 0 }, records.len());
        step();
        assert!(self.files.create(file, records), "{file:?} is made twice");
        Some(NewlySealed { number, file, count, dead: BTreeSet::new() })
    }
}
