//! Point reads.

use std::ops::Range;

use firn_format::Sequence;
use firn_format::key::{Kind, Trailer};
use firn_format::table::data::{DataBlock, Find};

use super::reader::{BlockRef, TableReader};
use crate::Result;
use crate::file::cache::{CachedBlock, CachedRecord};

/// Whether a read may wait for the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadMode {
    /// It may.
    Blocking,
    /// It answers [`Lookup::Miss`] instead.
    ResidentOnly,
}

/// The answer to a point read.
#[derive(Debug)]
pub enum Lookup<'t> {
    /// This table has no such version.
    Absent,
    /// The newest version below the sequence asked for.
    Found(Hit<'t>),
    /// Not known without waiting for the device. Only in [`ReadMode::ResidentOnly`].
    Miss,
}

/// A version found; its value is read where it lies, and copied by a caller that wants it.
#[derive(Debug)]
pub struct Hit<'t> {
    trailer: Trailer,
    kind: Kind,
    expires_at_ms: u64,
    value: HitValue<'t>,
}

#[derive(Debug)]
enum HitValue<'t> {
    Mapped(&'t [u8]),
    Loaded(CachedBlock, Range<usize>),
    Kept(CachedRecord),
}

/// What one block says; see [`Find`].
enum Step<'t> {
    Found { trailer: Trailer, expires_at_ms: u64, value: HitValue<'t> },
    Absent,
    Beyond,
}

impl Hit<'_> {
    /// Its sequence.
    #[inline]
    pub fn sequence(&self) -> Sequence {
        self.trailer.sequence()
    }

    /// Put, delete or merge.
    #[inline]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Milliseconds since the Unix epoch from which it counts as deleted; 0 = never.
    #[inline]
    pub fn expires_at_ms(&self) -> u64 {
        self.expires_at_ms
    }

    /// Its value or operand.
    #[inline]
    pub fn value(&self) -> &[u8] {
        match &self.value {
            HitValue::Mapped(value) => value,
            HitValue::Loaded(block, value) => block.payload.get(value.clone()).unwrap_or_default(),
            HitValue::Kept(record) => record.value(),
        }
    }
}

impl TableReader {
    /// The newest version of `key` with a sequence below `before`, whatever its kind. Range
    /// tombstones are not looked at ([`tombstones`](TableReader::tombstones)), expiry neither.
    ///
    /// `key_hash` is [`firn_format::filter::filter_hash`] of `key`. No lock, no allocation, no
    /// system call for mapped blocks that were read before.
    ///
    /// # Errors
    /// `Corrupt` with file and offset; what reading says.
    #[inline]
    pub fn newest(&self, key: &[u8], key_hash: u32, before: Sequence, mode: ReadMode) -> Result<Lookup<'_>> {
        match self.given {
            None => self.newest_stored(key, key_hash, before, mode),
            Some(sequence) => {
                given(sequence, before, |before| self.newest_stored(key, key_hash, before, mode))
            }
        }
    }

    /// [`newest`](Self::newest), by the sequences that the file has.
    #[inline]
    fn newest_stored(
        &self,
        key: &[u8],
        key_hash: u32,
        before: Sequence,
        mode: ReadMode,
    ) -> Result<Lookup<'_>> {
        if !self.may_contain(key_hash) {
            return Ok(Lookup::Absent);
        }
        // No ordering: a hint that decides only how a read is done.
        if self.may_be_evicted() {
            return self.newest_beyond_memory(key, key_hash, before, mode, true);
        }
        let mut block = self.index.find(key);
        loop {
            if mode == ReadMode::ResidentOnly && self.would_wait(block) {
                return Ok(Lookup::Miss);
            }
            match self.look_into(block, key, before)? {
                Step::Found { trailer, expires_at_ms, value } => {
                    let Some(kind) = trailer.kind() else { return Err(self.unknown_kind(block, trailer)) };
                    return Ok(Lookup::Found(Hit { trailer, kind, expires_at_ms, value }));
                }
                // Only a key that is the separator can have versions in the next block.
                Step::Beyond if self.index.is_separator(block, key) => block += 1,
                Step::Absent | Step::Beyond => return Ok(Lookup::Absent),
            }
        }
    }

    /// As [`newest`](Self::newest) in [`ReadMode::ResidentOnly`], for a caller that asks once:
    /// nothing is kept in the cache for the next one.
    ///
    /// # Errors
    /// As for [`newest`](Self::newest).
    pub fn peek(&self, key: &[u8], key_hash: u32, before: Sequence) -> Result<Lookup<'_>> {
        let mode = ReadMode::ResidentOnly;
        let peek = |before| match self.may_be_evicted() && self.may_contain(key_hash) {
            true => self.newest_beyond_memory(key, key_hash, before, mode, false),
            false => self.newest_stored(key, key_hash, before, mode),
        };
        match self.given {
            None => peek(before),
            Some(sequence) => given(sequence, before, peek),
        }
    }

    /// Searches one block: where it lies, in the cache, or from the file.
    #[inline]
    fn look_into(&self, block: usize, key: &[u8], before: Sequence) -> Result<Step<'_>> {
        // A block that was read where it lies is no longer looked for in the cache.
        if !self.is_verified(block)
            && let Some((offset, _)) = self.index.block(block)
            && let Some(step) =
                self.cache.look(self.number, offset, |payload| step_kept(payload, key, before))
        {
            return step.map_err(|error| self.corrupt_block(block, &error));
        }
        let Some(found) = self.block(block)? else { return Ok(Step::Absent) };
        let find = match &found {
            BlockRef::Mapped(payload) => DataBlock::new(payload).and_then(|data| data.find(key, before)),
            BlockRef::Loaded(loaded) => {
                DataBlock::with_shape(&loaded.payload, loaded.shape).find(key, before)
            }
        };
        Ok(match find.map_err(|error| self.corrupt_block(block, &error))? {
            Find::Found { trailer, expires_at_ms, value } => {
                let value = match found {
                    BlockRef::Mapped(payload) => HitValue::Mapped(payload.get(value).unwrap_or_default()),
                    BlockRef::Loaded(loaded) => HitValue::Loaded(loaded, value),
                };
                Step::Found { trailer, expires_at_ms, value }
            }
            Find::Absent => Step::Absent,
            Find::Beyond => Step::Beyond,
        })
    }

    /// As [`newest`](Self::newest) where mapped pages must be expected to have left memory. What
    /// the table said for the key before is in the cache, or one read of the file brings the block.
    /// A mapped block would cost a fault for each of its pages; a cache of blocks would keep the
    /// cold records around each hot one.
    #[inline(never)]
    fn newest_beyond_memory(
        &self,
        key: &[u8],
        key_hash: u32,
        before: Sequence,
        mode: ReadMode,
        is_kept: bool,
    ) -> Result<Lookup<'_>> {
        if let Some(record) = self.cache.record(self.number, key_hash, key, before) {
            return self.answer(record);
        }
        let mut block = self.index.find(key);
        let record = loop {
            if mode == ReadMode::ResidentOnly && self.would_wait(block) {
                return Ok(Lookup::Miss);
            }
            let Some(loaded) = self.read_block(block)? else { break CachedRecord::absent() };
            let find = DataBlock::with_shape(&loaded.payload, loaded.shape).find(key, before);
            match find.map_err(|error| self.corrupt_block(block, &error))? {
                Find::Found { trailer, expires_at_ms, value } => {
                    let value = loaded.payload.get(value).unwrap_or_default();
                    break CachedRecord::found(trailer, expires_at_ms, value);
                }
                Find::Beyond if self.index.is_separator(block, key) => block += 1,
                Find::Absent | Find::Beyond => break CachedRecord::absent(),
            }
        };
        // A reader that sees less than the whole table may find a version that is not its newest.
        if is_kept && before > self.properties().sequence_max {
            self.cache.insert_record(self.number, key_hash, key, &record);
        }
        self.answer(record)
    }

    fn answer(&self, record: CachedRecord) -> Result<Lookup<'_>> {
        let Some((trailer, expires_at_ms)) = record.version() else { return Ok(Lookup::Absent) };
        let Some(kind) = trailer.kind() else { return Err(self.unknown_kind(0, trailer)) };
        Ok(Lookup::Found(Hit { trailer, kind, expires_at_ms, value: HitValue::Kept(record) }))
    }

    /// Whether reading entries around `key`, and in the `blocks` blocks from there on, may wait for
    /// the device. A hint for scans: at most one system call a block.
    pub fn would_block(&self, key: &[u8], blocks: usize) -> bool {
        let first = self.index.find(key);
        (first..first.saturating_add(blocks))
            .take_while(|block| *block < self.index.block_count())
            .any(|block| self.would_wait(block))
    }

    /// Whether touching block `block` may wait for the device.
    #[inline]
    fn would_wait(&self, block: usize) -> bool {
        // No ordering: a hint.
        if self.is_verified(block) && !self.may_be_evicted() {
            return false;
        }
        self.asks_whether_resident(block)
    }

    #[inline(never)]
    fn asks_whether_resident(&self, block: usize) -> bool {
        let Some((offset, bytes)) = self.index.block(block) else { return false };
        if self.cache.contains(self.number, offset) {
            return false;
        }
        match &self.bytes {
            Some(mapped) => !mapped.is_resident(offset as usize..(offset + bytes) as usize),
            None => true,
        }
    }

    #[cold]
    pub(super) fn corrupt_block(&self, block: usize, error: &firn_format::Error) -> crate::Error {
        self.corrupt(self.index.block(block).map_or(0, |(offset, _)| offset), error)
    }

    #[cold]
    fn unknown_kind(&self, block: usize, trailer: Trailer) -> crate::Error {
        let error = firn_format::Error::new(0, "kind put, delete or merge", format!("{}", trailer.0 & 0xff));
        self.corrupt_block(block, &error)
    }
}

/// What `look` finds in a table all of whose entries have `sequence`, for a reader of what lies
/// below `before`.
fn given<'t>(
    sequence: Sequence,
    before: Sequence,
    look: impl FnOnce(Sequence) -> Result<Lookup<'t>>,
) -> Result<Lookup<'t>> {
    if before <= sequence {
        return Ok(Lookup::Absent);
    }
    Ok(match look(Sequence::MAX)? {
        Lookup::Found(hit) => Lookup::Found(Hit { trailer: Trailer::new(sequence, hit.kind), ..hit }),
        other => other,
    })
}

/// Searches a block that only lies there for the moment: what is found is copied.
#[inline(never)]
fn step_kept<'t>(payload: &[u8], key: &[u8], before: Sequence) -> firn_format::Result<Step<'t>> {
    Ok(match DataBlock::new(payload)?.find(key, before)? {
        Find::Found { trailer, expires_at_ms, value } => {
            let record = CachedRecord::found(trailer, expires_at_ms, payload.get(value).unwrap_or_default());
            Step::Found { trailer, expires_at_ms, value: HitValue::Kept(record) }
        }
        Find::Absent => Step::Absent,
        Find::Beyond => Step::Beyond,
    })
}
