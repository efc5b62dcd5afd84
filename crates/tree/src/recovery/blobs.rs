//! Blob segments as a process left them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use firn_engine::{Error, Location, Result};
use firn_format::Position;
use firn_format::blob::segment::BLOB_OFFSET_END;
use firn_format::blob::{Ordinals, Reference, Relocation, SegmentNumber};
use firn_format::file_name::{self, FileName};
use firn_format::manifest::{BlobSegmentMeta, Change};
use firn_storage::Storage;
use firn_storage::file::blob::{BlobSegment, End, UnsealedBlobs};
use firn_storage::file::obsolete::ObsoleteFiles;

use crate::blob_gc::share_sealed;
use crate::blobs::map::{BlobMap, Home, Sealed};
use crate::error::from_storage;
use crate::version::Table;
use crate::version::state::State;

/// What was found from blobs.
#[derive(Debug, Default)]
pub(crate) struct FoundBlobs {
    /// Segments that no edit names, and no footer ends.
    unsealed: BTreeMap<SegmentNumber, Arc<UnsealedBlobs>>,
    /// Files that hold nothing any more.
    pub(crate) stale: Vec<String>,
    next: SegmentNumber,
}

/// References that log records hold to segments that are not sealed, by segment and ordinal.
#[derive(Debug, Default)]
pub(crate) struct LoggedReferences {
    by_segment: BTreeMap<SegmentNumber, BTreeMap<u32, Reference>>,
}

impl LoggedReferences {
    pub(crate) fn add(&mut self, reference: Reference) {
        self.by_segment.entry(reference.segment).or_default().insert(reference.ordinal, reference);
    }
}

impl FoundBlobs {
    /// Looks which files are there.
    ///
    /// # Errors
    /// `Corrupt` if a segment that an edit names is missing; what reading says.
    pub(crate) fn survey(storage: &dyn Storage, state: &State) -> Result<Self> {
        let mut found = Self { next: state.blobs.next, ..Self::default() };
        let known: BTreeMap<&str, ()> =
            state.blobs.segments.values().map(|segment| (segment.meta.file.as_str(), ())).collect();
        for (name, _) in storage.list().map_err(from_storage)? {
            let number = match file_name::parse(&name) {
                _ if known.contains_key(name.as_str()) => continue,
                Some(FileName::BlobSegment(number)) => number,
                Some(FileName::CollectedBlobs { .. }) => {
                    found.stale.push(name);
                    continue;
                }
                _ => continue,
            };
            found.next = found.next.max(SegmentNumber(number.0.saturating_add(1)));
            if state.blobs.segments.contains_key(&number) {
                // It was sealed, and lies where all machines reach it.
                found.stale.push(name);
                continue;
            }
            if state.blobs.relocations.contains_key(&number) {
                // It was collected, and a crash came before its file went: records of the log that
                // name it are led on.
                found.stale.push(name);
                continue;
            }
            match UnsealedBlobs::open(storage, &name) {
                Ok(unsealed) if unsealed.header().database == state.database => {
                    // A file that was about to become another segment holds nothing of this one's
                    // any more.
                    match unsealed.number() == number {
                        true => drop(found.unsealed.insert(number, Arc::new(unsealed))),
                        false => found.stale.push(name),
                    }
                }
                Ok(_) => {
                    let location = Location { file: name, offset: Some(16) };
                    return Err(Error::corrupt(location, "the blob segment belongs to another database"));
                }
                // Born in the moment of the crash: nothing refers to it.
                Err(error) if error.kind == firn_storage::ErrorKind::Corrupt => found.stale.push(name),
                // A worker that the process before asked has written over it: it was a recycled
                // file.
                Err(error) if error.kind == firn_storage::ErrorKind::NotFound => {}
                Err(error) => return Err(from_storage(error)),
            }
        }
        Ok(found)
    }

    /// Whether the value that a record of the log refers to is whole. Sealed ones were synced, and
    /// are.
    ///
    /// # Errors
    /// What reading says.
    pub(crate) fn holds(&self, state: &State, reference: &Reference, key_bytes: usize) -> Result<bool> {
        let is_sealed = state.blobs.segments.contains_key(&reference.segment)
            || state.blobs.relocations.contains_key(&reference.segment);
        match self.unsealed.get(&reference.segment) {
            Some(unsealed) => unsealed.holds(reference, key_bytes).map_err(from_storage),
            None => Ok(is_sealed),
        }
    }

    /// Where everything is, for a database that is only read.
    pub(crate) fn map(
        &self,
        storage: &dyn Storage,
        state: &State,
        obsolete: &Arc<ObsoleteFiles>,
    ) -> Result<BlobMap> {
        let mut map = sealed_map(storage, state, obsolete)?;
        for (number, unsealed) in &self.unsealed {
            map.insert(*number, Home::Unsealed(Arc::clone(unsealed)));
        }
        Ok(map)
    }

    /// Seals what log records refer to, up to `end`; what nothing refers to is stale. The changes
    /// that make it so, for the generation of the log that begins now.
    ///
    /// # Errors
    /// What writing says.
    pub(crate) fn seal(
        &mut self,
        storage: &dyn Storage,
        logged: &LoggedReferences,
        (end, generation): (Position, u64),
    ) -> Result<Vec<Change>> {
        let mut changes = Vec::new();
        for (number, unsealed) in std::mem::take(&mut self.unsealed) {
            let Some(references) = logged.by_segment.get(&number) else {
                self.stale.push(unsealed.name().to_owned());
                continue;
            };
            let (ending, dead) = ending(number, &unsealed, references);
            let file = storage.open_write(unsealed.name()).map_err(from_storage)?;
            let mut meta = ending.write(unsealed.name(), &*file).map_err(from_storage)?;
            share_sealed(storage, generation, &mut meta)?;
            if meta.file != unsealed.name() {
                self.stale.push(unsealed.name().to_owned());
            }
            let segment = BlobSegmentMeta { sealed_at: end, ..meta };
            changes.push(Change::AddBlobSegment { segment });
            if !dead.is_empty() {
                changes.push(Change::DeadMap { number, dead });
            }
        }
        Ok(changes)
    }

    /// What was lost with the log's tail: values of sealed segments whose records lay at or beyond
    /// `end`. Neither the rest of the log nor one of `tables` refers to them. The changes that say
    /// that they are dead.
    ///
    /// # Errors
    /// What reading tables says.
    pub(crate) fn lost<'t>(
        &mut self,
        (storage, state): (&dyn Storage, &State),
        logged: &LoggedReferences,
        tables: impl Iterator<Item = &'t Arc<Table>>,
        end: Position,
    ) -> Result<Vec<Change>> {
        let segments = state.blobs.segments.iter();
        let mut doubtful: BTreeMap<SegmentNumber, Ordinals> = segments
            .filter(|(_, segment)| segment.meta.sealed_at > end)
            .map(|(number, segment)| {
                let all = (0..segment.meta.ordinals).filter(|ordinal| !segment.dead.contains(*ordinal));
                (*number, all.collect())
            })
            .collect();
        if doubtful.is_empty() {
            return Ok(Vec::new());
        }
        let relocations = relocations_to(storage, state, |holder| doubtful.contains_key(&holder))?;
        let mut clear = |number: SegmentNumber, ordinals: &Ordinals| {
            let (holder, ordinals) = match relocations.get(&number) {
                Some(relocation) => {
                    let now = ordinals.iter().filter_map(|ordinal| relocation.translate(ordinal)).collect();
                    (relocation.segment, Cow::Owned(now))
                }
                None => (number, Cow::Borrowed(ordinals)),
            };
            if let Some(doubtful) = doubtful.get_mut(&holder) {
                doubtful.remove_all(&ordinals);
            }
        };
        for (number, references) in &logged.by_segment {
            clear(*number, &references.keys().copied().collect());
        }
        for table in tables {
            let references = table.reader().references().map_err(from_storage)?;
            references.segments().for_each(|(number, ordinals)| clear(number, ordinals));
        }
        let mut changes = Vec::new();
        for (number, dead) in doubtful.into_iter().filter(|(_, dead)| !dead.is_empty()) {
            let Some(segment) = state.blobs.segments.get(&number) else { continue };
            if dead.len() + segment.dead.len() == u64::from(segment.meta.ordinals) {
                let led = state.blobs.relocations.iter().filter(|(_, place)| place.holder == number);
                changes.extend(led.map(|(victim, _)| Change::DropRelocation { victim: *victim }));
                changes.push(Change::RemoveBlobSegment { number });
                self.stale.push(segment.meta.file.clone());
            } else {
                changes.push(Change::DeadMap { number, dead });
            }
        }
        Ok(changes)
    }

    /// The first number that was never given to a segment.
    pub(crate) fn next(&self) -> SegmentNumber {
        self.next
    }
}

/// What leads from collected segments to holders that are `wanted`.
fn relocations_to(
    storage: &dyn Storage,
    state: &State,
    wanted: impl Fn(SegmentNumber) -> bool,
) -> Result<BTreeMap<SegmentNumber, Relocation>> {
    let mut found = BTreeMap::new();
    for (victim, place) in state.blobs.relocations.iter().filter(|(_, place)| wanted(place.holder)) {
        let Some(holder) = state.blobs.segments.get(&place.holder) else { continue };
        let holder = BlobSegment::open(storage, &holder.meta, true).map_err(from_storage)?;
        found.insert(*victim, holder.relocation(place).map_err(from_storage)?);
    }
    Ok(found)
}

/// What ends a segment whose live values are `references`, and which of its ordinals nothing refers
/// to.
fn ending(
    number: SegmentNumber,
    unsealed: &UnsealedBlobs,
    references: &BTreeMap<u32, Reference>,
) -> (End, Ordinals) {
    let mut offsets = Vec::new();
    let (mut dead, mut value_bytes) = (Ordinals::new(), 0);
    for (ordinal, reference) in references {
        while (offsets.len() as u32) < *ordinal {
            dead.insert(offsets.len() as u32);
            offsets.push(None);
        }
        offsets.push(Some(reference.offset));
        value_bytes += u64::from(reference.value_bytes);
    }
    // Behind everything that may be a value.
    let records_end = unsealed.bytes().next_multiple_of(8).min(BLOB_OFFSET_END);
    (End { number, offsets, records_end, value_bytes }, dead)
}

/// Where the values of sealed and of collected segments are.
pub(crate) fn sealed_map(
    storage: &dyn Storage,
    state: &State,
    obsolete: &Arc<ObsoleteFiles>,
) -> Result<BlobMap> {
    let mut map = BlobMap::default();
    let mut sealed: BTreeMap<SegmentNumber, Arc<Sealed>> = BTreeMap::new();
    let metas = state.blobs.segments.values().map(|known| &*known.meta);
    let opened = BlobSegment::open_all(storage, metas, true);
    for ((number, known), opened) in state.blobs.segments.iter().zip(opened) {
        let segment = match opened {
            Ok(segment) => {
                let (meta, dead) = ((*known.meta).clone(), &*known.dead);
                Arc::new(Sealed::new(segment, meta, dead, Arc::clone(obsolete)))
            }
            Err(error) if error.kind == firn_storage::ErrorKind::NotFound => {
                let location = Location { file: known.meta.file.clone(), offset: None };
                let message = "the blob segment is missing: the manifest names it, but there is no such file";
                return Err(Error::corrupt(location, message));
            }
            Err(error) => return Err(from_storage(error)),
        };
        map.insert(*number, Home::Sealed(Arc::clone(&segment)));
        sealed.insert(*number, segment);
    }
    for (victim, place) in &state.blobs.relocations {
        let Some(holder) = sealed.get(&place.holder) else { continue };
        let relocation: Relocation = holder.segment.relocation(place).map_err(from_storage)?;
        map.insert(*victim, Home::Moved(Arc::new(relocation), Arc::clone(holder)));
    }
    Ok(map)
}
