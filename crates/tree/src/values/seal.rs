//! Segments that take no more values become sealed ones.
//!
//! ```text
//!   full, or a drain's tables will refer to it ─► every place settled ─► heads walked ─► ordinal table, footer, sync ─► an edit
//! ```
//! No table refers to a segment that is not sealed: after a crash the values of those that are not are told by log records
//! alone, which say where they are.

use std::collections::BTreeSet;
use std::sync::{Arc, MutexGuard, PoisonError, Weak};

use firn_engine::{Error, Result};
use firn_format::manifest::ValueSegmentMeta;
use firn_format::value::record::{HEAD_BYTES_MIN, ValueRecord};
use firn_format::value::segment::VALUE_HEADER_BYTES;
use firn_format::value::{Ordinals, SegmentNumber, ValueHead};
use firn_storage::file::value::{End, OpenValues, ValueSegment};

use super::active::{Active, Settled};
use super::deaths::ValueEdit;
use super::{Home, Values};
use crate::database::Database;
use crate::error::{from_format, from_storage};
use crate::version::Version;
use crate::version::manifest::Manifest;

/// A segment that was sealed, and is not yet in the manifest.
#[derive(Debug)]
pub(crate) struct NewlySealed {
    pub(crate) meta: ValueSegmentMeta,
    /// Places that were given up.
    pub(crate) dead: Ordinals,
    /// Who it was as long as it took values; a reader of an older version may have it still.
    pub(crate) active: Weak<Active>,
}

/// Bytes of a segment that are read at once while its heads are walked.
const WINDOW_BYTES: usize = 1 << 20;
/// Bytes that a head and its key have at most, of a value with few chunks.
const FRONT_BYTES: usize = 128 << 10;

impl Values {
    /// Seals all segments of `wanted`, waiting for writers who still copy values to them. Blocks for syncs.
    ///
    /// # Errors
    /// `Retry` when the disk is full: those that were not sealed are sealed by a later call.
    pub(crate) fn seal(
        &self,
        wanted: &BTreeSet<SegmentNumber>,
        version: &Version,
    ) -> Result<Vec<NewlySealed>> {
        let open = self.unsynced();
        let wanted = open.into_iter().filter(|active| wanted.contains(&active.number()));
        wanted
            .map(|active| {
                active.seal();
                let settled = loop {
                    match active.settled() {
                        Some(settled) => break settled,
                        // A writer with a place needs nothing from whoever waits here.
                        None => std::thread::yield_now(),
                    }
                };
                let (meta, dead) = seal_one(&active, &settled, version)?;
                Ok(NewlySealed { meta, dead, active: Arc::downgrade(&active) })
            })
            .collect()
    }

    /// Segments that no edit names.
    pub(crate) fn open_numbers(&self) -> BTreeSet<SegmentNumber> {
        self.unsynced().iter().map(|active| active.number()).collect()
    }

    /// Segments that take no more values, and whose places are all settled.
    pub(crate) fn to_be_sealed(&self) -> BTreeSet<SegmentNumber> {
        let open = self.unsynced();
        open.iter().filter(|active| active.settled().is_some()).map(|active| active.number()).collect()
    }

    /// Nobody else seals segments until the answer is dropped.
    pub(crate) fn lock_sealing(&self) -> MutexGuard<'_, ()> {
        self.sealing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was sealed, for readers.
    ///
    /// # Errors
    /// It cannot be opened.
    pub(super) fn open_sealed(&self, sealed: &[NewlySealed]) -> Result<Vec<(SegmentNumber, Home)>> {
        let open = |new: &NewlySealed| {
            let segment = ValueSegment::open(&*self.storage, &new.meta, true).map_err(from_storage)?;
            // What was given up is counted with what else died.
            let (meta, none) = (new.meta.clone(), Ordinals::new());
            let sealed = self.sealed((segment, new.active.clone()), meta, &none);
            Ok((new.meta.number, Home::Sealed(sealed)))
        };
        sealed.iter().map(open).collect()
    }
}

impl Database {
    /// Seals what takes no more values and is settled, and says so in an edit of its own. Blocks for syncs.
    ///
    /// # Errors
    /// `Retry` when the disk is full: nothing changed that readers see.
    pub(crate) fn seal_values(&self) -> Result<()> {
        // Nobody drops a keyspace either until this is over; see `plan_dropped_values`.
        let sealing = self.values.lock_sealing();
        // Before the manifest is locked, so that other edits need not wait for the device.
        let sealed = self.values.seal(&self.values.to_be_sealed(), &self.version.load())?;
        let mut manifest = self.manifest.lock().unwrap_or_else(PoisonError::into_inner);
        self.commit_seals(&mut manifest, sealing, sealed)
    }

    /// Says that segments are sealed in an edit, with `sealing` as it was locked before they were. Blocks for the syncs of a
    /// publication.
    ///
    /// # Errors
    /// As [`seal_values`](Self::seal_values).
    pub(crate) fn commit_seals(
        &self,
        manifest: &mut Manifest,
        sealing: MutexGuard<'_, ()>,
        sealed: Vec<NewlySealed>,
    ) -> Result<()> {
        let edit = ValueEdit::of_seals(sealed, sealing);
        let mut changes = Vec::new();
        let deaths = edit.changes(&manifest.state().values, &self.values.map(), &mut changes)?;
        if changes.is_empty() {
            return Ok(());
        }
        self.storage.sync_dir().map_err(from_storage)?;
        manifest.commit(&changes)?;
        if let Some(map) = self.values.install(&edit, &deaths)? {
            self.change_version(|version| version.values = map);
            self.balance_memory();
        }
        Ok(())
    }
}

/// What the manifest is to know of a segment, and the places that were given up.
fn seal_one(active: &Active, settled: &Settled, version: &Version) -> Result<(ValueSegmentMeta, Ordinals)> {
    let mut walk = Walk { open: &active.open, window: Vec::new(), start: 0, end: settled.end };
    let mut offsets = Vec::with_capacity(settled.ordinals as usize);
    let mut dead = Ordinals::new();
    let mut value_bytes = 0;
    let mut given_up = settled.given_up.iter().peekable();
    let mut offset = VALUE_HEADER_BYTES as u64;
    while (offsets.len() as u32) < settled.ordinals {
        let ordinal = offsets.len() as u32;
        if let Some(given) = given_up.next_if(|given| given.ordinal == ordinal) {
            (ordinal..ordinal + given.count).for_each(|ordinal| {
                dead.insert(ordinal);
                offsets.push(None);
            });
            offset += given.bytes;
            continue;
        }
        let (head, record_bytes) = walk.record(offset, active.number(), ordinal)?;
        if version.keyspace(head.keyspace).is_err() {
            // Its keyspace was dropped before a drain could tell that it died.
            dead.insert(ordinal);
        }
        offsets.push(Some(offset));
        value_bytes += u64::from(head.value_bytes);
        offset += record_bytes;
    }
    if offset != settled.end {
        return Err(Error::bug(format!(
            "values end at {offset}, but places were given up to {}",
            settled.end
        )));
    }
    let end = End { number: active.number(), offsets, records_end: settled.end, value_bytes };
    let meta = active.open.seal(&end).map_err(from_storage)?;
    Ok((ValueSegmentMeta { sealed_at: settled.frames_end, ..meta }, dead))
}

/// Reads the heads of a segment from front to back.
struct Walk<'a> {
    open: &'a OpenValues,
    window: Vec<u8>,
    /// Where the window begins.
    start: u64,
    /// Where the records end.
    end: u64,
}

impl Walk<'_> {
    /// The head of the record at `offset`, which must be that of `ordinal` of `segment`, and the record's bytes.
    fn record(&mut self, offset: u64, segment: SegmentNumber, ordinal: u32) -> Result<(ValueHead, u64)> {
        let mut front = FRONT_BYTES;
        loop {
            let bytes = self.at(offset, front)?;
            match ValueRecord::decode(bytes) {
                Ok(record) if (record.head.segment, record.head.ordinal) == (segment, ordinal) => {
                    return Ok((record.head, record.bytes() as u64));
                }
                Ok(record) => {
                    let (found, of) = (record.head.ordinal, record.head.segment);
                    let expected = format!("value {ordinal} of segment {segment}");
                    let error = firn_format::Error::new(4, expected, format!("value {found} of {of}"));
                    return Err(from_format(self.open.name(), offset, &error));
                }
                // The head of a very long value is longer than was read.
                Err(_) if front < HEAD_MAX => front = HEAD_MAX,
                Err(error) => return Err(from_format(self.open.name(), offset, &error)),
            }
        }
    }

    /// Up to `bytes` bytes from `offset` on.
    fn at(&mut self, offset: u64, bytes: usize) -> Result<&[u8]> {
        let wanted_end = (offset + bytes as u64).min(self.end);
        if offset < self.start || wanted_end > self.start + self.window.len() as u64 {
            let window_end = (offset + WINDOW_BYTES.max(bytes) as u64).min(self.end);
            self.window.resize(window_end.saturating_sub(offset) as usize, 0);
            self.start = offset;
            self.open.read_bytes(offset, &mut self.window).map_err(from_storage)?;
        }
        let from = (offset - self.start) as usize;
        Ok(self.window.get(from..).unwrap_or_default())
    }
}

/// The longest head with the longest key.
const HEAD_MAX: usize = HEAD_BYTES_MIN + 8 * (4 << 10) + (64 << 10) + WINDOW_BYTES;
