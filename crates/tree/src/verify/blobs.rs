//! Separated values: each is whole, and something refers to it once, or it is dead.
//!
//! ```text
//!   references of tables, of log records ─► relocations ─► (segment, ordinal) ─┐
//!            │ but obsolete ones         all ordinals of each segment, once ◄─────┴── dead maps
//!            └─► their values are dead; no key's newest version is one (`places.rs`)
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use firn_format::blob::{BlobRecord, Ordinals, Relocation, SegmentNumber};
use firn_format::file_name::FileName;
use firn_format::table::ReferenceSet;
use firn_storage::file::blob::{BlobSegment, RecordReader, UnsealedBlobs};
use firn_storage::file::cache::BlockCache;
use firn_storage::file::table::{ReaderOptions, TableReader};

use super::Verifier;
use super::log::{Logged, LoggedReference};
use super::tables::CACHE_BYTES;
use crate::version::blobs_state::SegmentState;
use crate::version::state::State;

/// What is known while values are checked.
#[derive(Default)]
struct Values {
    /// Of collected segments.
    relocations: BTreeMap<SegmentNumber, Relocation>,
    /// What is referred to, by where it is.
    live: BTreeMap<SegmentNumber, Ordinals>,
}

impl Values {
    /// Where the value that was born as `ordinal` of `segment` is.
    fn place(&self, segment: SegmentNumber, ordinal: u32) -> Option<(SegmentNumber, u32)> {
        match self.relocations.get(&segment) {
            Some(relocation) => Some((relocation.segment, relocation.translate(ordinal)?)),
            None => Some((segment, ordinal)),
        }
    }
}

impl Verifier<'_> {
    /// Checks every blob segment and that its values are referred to or dead. With
    /// `are_tables_damaged` what tables refer to is not known. `manifest` is the name of its last
    /// edit.
    pub(super) fn check_values(
        &mut self,
        (state, manifest): (&State, &str),
        logged: &Logged,
        are_tables_damaged: bool,
    ) {
        let mut values = Values { relocations: self.check_relocations(state), live: BTreeMap::new() };
        let mut obsolete = state.blobs.obsolete.clone();
        for table in state.tables.values() {
            let obsolete = Arc::make_mut(obsolete.entry(table.keyspace).or_default());
            self.add_table(&table.meta, state, (&mut values, obsolete));
        }
        for (keyspace, references) in obsolete.iter().filter(|(_, references)| !references.is_empty()) {
            if !are_tables_damaged {
                let message = format!(
                    "expected obsolete references of keyspace {keyspace} in its tables, found {} in none",
                    references.len()
                );
                self.damage(manifest, None, message);
            }
        }
        for reference in &logged.references {
            self.add_logged(reference, state, &mut values);
        }
        for (number, segment) in &state.blobs.segments {
            self.report.totals.blob_segments += 1;
            if let Some(opened) = self.check_segment_file(segment) {
                self.check_records_of(&opened, segment, &values);
            }
            let live = values.live.remove(number).unwrap_or_default();
            self.report.totals.values += live.len();
            if !are_tables_damaged {
                self.check_conserved(segment, &live, logged);
            }
            self.advance(self.files.get(&segment.meta.file).copied().unwrap_or(0));
        }
        self.check_unsealed(state, logged);
    }

    fn check_relocations(&mut self, state: &State) -> BTreeMap<SegmentNumber, Relocation> {
        let mut relocations = BTreeMap::new();
        for (victim, place) in &state.blobs.relocations {
            let Some(holder) = state.blobs.segments.get(&place.holder) else { continue };
            let opened = BlobSegment::open(&*self.storage, &holder.meta, true);
            let found = opened.and_then(|holder| holder.relocation(place));
            match found {
                Ok(relocation) if relocation.victim == *victim => {
                    drop(relocations.insert(*victim, relocation))
                }
                Ok(relocation) => {
                    let message =
                        format!("expected the relocation of {victim}, found that of {}", relocation.victim);
                    self.damage(&holder.meta.file, Some(place.offset), message);
                }
                Err(error) => self.refused(&holder.meta.file, &error),
            }
            if state.blobs.segments.contains_key(victim) {
                let message = format!(
                    "expected a relocation of a collected segment, found that of {victim}, which is there"
                );
                self.damage(&holder.meta.file, Some(place.offset), message);
            }
        }
        relocations
    }

    /// Adds what a table refers to, except `obsolete` references, which it takes out of `obsolete`.
    fn add_table(
        &mut self,
        meta: &firn_format::manifest::TableMeta,
        state: &State,
        (values, obsolete): (&mut Values, &mut ReferenceSet),
    ) {
        let cache = Arc::new(BlockCache::new(CACHE_BYTES));
        let options = ReaderOptions::default();
        let read = TableReader::open(&*self.storage, meta, &cache, options).and_then(|it| it.references());
        // Why a table cannot be read was reported when it was checked.
        let Ok(mut references) = read else { return };
        let newly_obsolete = references.common(obsolete);
        obsolete.remove_all(&newly_obsolete);
        references.remove_all(&newly_obsolete);
        for (segment, ordinals) in newly_obsolete.segments() {
            let lives = |ordinal: &u32| {
                let holder = values.place(segment, *ordinal);
                let known = holder.and_then(|(holder, now)| Some((state.blobs.segments.get(&holder)?, now)));
                known.is_some_and(|(known, now)| !known.dead.contains(now))
            };
            for ordinal in ordinals.iter().filter(lives) {
                let message = format!(
                    "expected value {ordinal} of blob segment {segment} to be dead, since the reference is obsolete"
                );
                self.damage(&meta.file, None, message);
            }
        }
        for (segment, ordinals) in references.segments() {
            for ordinal in ordinals.iter() {
                self.add(&meta.file, None, (segment, ordinal), state, values);
            }
        }
    }

    fn add_logged(&mut self, logged: &LoggedReference, state: &State, values: &mut Values) {
        let LoggedReference { file, offset, reference, .. } = logged;
        let is_sealed = state.blobs.segments.contains_key(&reference.segment)
            || state.blobs.relocations.contains_key(&reference.segment);
        if is_sealed {
            self.add(file, Some(*offset), (reference.segment, reference.ordinal), state, values);
        }
    }

    fn add(
        &mut self,
        file: &str,
        offset: Option<u64>,
        (segment, ordinal): (SegmentNumber, u32),
        state: &State,
        values: &mut Values,
    ) {
        let place = values.place(segment, ordinal);
        let place = place.filter(|(holder, now)| {
            state.blobs.segments.get(holder).is_some_and(|segment| *now < segment.meta.ordinals)
        });
        let Some((holder, now)) = place else {
            let message = format!("expected value {ordinal} of blob segment {segment}, found none");
            self.damage(file, offset, message);
            return;
        };
        if !values.live.entry(holder).or_default().insert(now) {
            let message = format!(
                "expected the only reference to value {ordinal} of blob segment {segment}, found another"
            );
            self.damage(file, offset, message);
        }
    }

    /// The segment, if its file is what the manifest says it is.
    fn check_segment_file(&mut self, segment: &SegmentState) -> Option<BlobSegment> {
        let file = &segment.meta.file;
        if !self.files.contains_key(file) {
            self.damage(file, None, "expected a blob segment that the manifest names, found no such file");
            return None;
        }
        match BlobSegment::open(&*self.storage, &segment.meta, true) {
            Ok(opened) => Some(opened),
            Err(error) => {
                self.refused(file, &error);
                None
            }
        }
    }

    /// Each record that is not dead is whole, and is what references to it expect.
    fn check_records_of(&mut self, opened: &BlobSegment, segment: &SegmentState, values: &Values) {
        let number = segment.meta.number;
        let mut reader = RecordReader::new(opened);
        for ordinal in (0..segment.meta.ordinals).filter(|ordinal| !segment.dead.contains(*ordinal)) {
            let mut place = None;
            let look = |record: &BlobRecord<'_>| {
                place = Some(values.place(record.head.segment, record.head.ordinal));
                Ok(())
            };
            if let Err(error) = reader.read(ordinal, look, |_, _| Ok(())) {
                self.refused(&segment.meta.file, &error);
                continue;
            }
            if place != Some(Some((number, ordinal))) {
                let message = format!("expected value {ordinal}, found another one");
                self.damage(&segment.meta.file, opened.ordinals().offset(ordinal), message);
            }
        }
    }

    /// Live and dead values are all that there are, and no value is both.
    fn check_conserved(&mut self, segment: &SegmentState, live: &Ordinals, logged: &Logged) {
        let file = segment.meta.file.clone();
        let both = live.common_count(&segment.dead);
        if both > 0 {
            self.damage(&file, None, format!("expected no references to dead values, found {both}"));
        }
        let neither = u64::from(segment.meta.ordinals) + both - live.len() - segment.dead.len();
        if neither == 0 {
            return;
        }
        let message =
            format!("expected values that are referred to or dead, found {neither} that are neither");
        match segment.meta.sealed_at > logged.end {
            // Their records were lost with the log's tail: the next opening marks them dead.
            true => self.leftover(&file, None, message),
            false => self.damage(&file, None, message),
        }
    }

    /// Blob segment files that the manifest does not name: written to when the process ended, or
    /// left over.
    fn check_unsealed(&mut self, state: &State, logged: &Logged) {
        let known: BTreeMap<&str, ()> =
            state.blobs.segments.values().map(|segment| (segment.meta.file.as_str(), ())).collect();
        let files = self.named(|name| match name {
            FileName::BlobSegment(number) => Some(Some(number)),
            FileName::CollectedBlobs { .. } => Some(None),
            _ => None,
        });
        // What refers to values of these was checked where they are now.
        let is_elsewhere = |number: &SegmentNumber| {
            state.blobs.segments.contains_key(number) || state.blobs.relocations.contains_key(number)
        };
        for (name, number) in files.into_iter().filter(|(name, _)| !known.contains_key(name.as_str())) {
            let number = number.filter(|number| !is_elsewhere(number));
            let wanted: Vec<&LoggedReference> =
                logged.references.iter().filter(|it| Some(it.reference.segment) == number).collect();
            match wanted.is_empty() {
                true => self.leftover(&name, None, "nothing refers to its values"),
                false => self.check_wanted(&name, &wanted),
            }
            self.advance(self.files.get(&name).copied().unwrap_or(0));
        }
        let is_there = |number: SegmentNumber| {
            is_elsewhere(&number) || self.files.contains_key(&firn_format::file_name::blob_segment(number))
        };
        let missing: Vec<&LoggedReference> =
            logged.references.iter().filter(|it| !is_there(it.reference.segment)).collect();
        missing.into_iter().for_each(|it| self.note_dangling(it, "there is no such segment"));
    }

    fn check_wanted(&mut self, name: &str, wanted: &[&LoggedReference]) {
        let unsealed = match UnsealedBlobs::open(&*self.storage, name) {
            Ok(unsealed) => unsealed,
            Err(_) => {
                // Its beginning never reached the device, as its values did not.
                wanted.iter().for_each(|logged| self.note_dangling(logged, "the segment's header is none"));
                return;
            }
        };
        for logged in wanted {
            match unsealed.holds(&logged.reference, logged.key_bytes) {
                Ok(true) => {}
                Ok(false) => self.note_dangling(logged, "it is not whole"),
                Err(error) => self.refused(name, &error),
            }
        }
    }

    fn note_dangling(&mut self, logged: &LoggedReference, why: &str) {
        let message = format!("expected {}, but {why}", logged.reference);
        match logged.is_durable {
            true => self.damage(&logged.file, Some(logged.offset), message),
            // The next opening cuts the log there.
            false => self.leftover(&logged.file, Some(logged.offset), message),
        }
    }
}
