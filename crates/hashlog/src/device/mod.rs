//! The part of the log that lies on a device: segments, as long as they are needed.
//!
//! ```text
//!   log, below safe read-only ─► flush: image of whole records ─► the segment's file, appended to
//!   address below head ─► read: the record's bytes ─► checked ─► a record of one's own
//! ```
//! A segment holds the words whose addresses have the same upper bits; its file is named by the
//! first of them.

mod contents;
mod flush;
mod read;
mod scan;

pub(crate) use contents::Contents;
pub(crate) use read::{DeviceRecord, Reading};
pub(crate) use scan::Part;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use firn_engine::{Error, Location, Result};
use firn_format::hybrid::{SEGMENT_HEADER_BYTES, SegmentHeader};
use firn_storage::backend::FileToRead;
use firn_storage::{ReadFile, Storage, WriteFile};

use crate::anew::create_anew;
use crate::error::{from_storage, unsynced};
use crate::needless::remove_needless;

/// Segments of one log, by the address of their first word.
#[derive(Debug)]
pub(crate) struct Device {
    storage: Arc<dyn Storage>,
    database: u128,
    generation: u64,
    /// The name of the segment with this first address.
    name: fn(u64) -> String,
    /// Words of a segment, as a power of two.
    segment_bits: u32,
    segments: RwLock<BTreeMap<u64, SegmentFile>>,
    counted: Mutex<Counted>,
}

/// Where a segment lies.
#[derive(Clone, Debug)]
enum SegmentFile {
    /// On this machine.
    Here(Arc<dyn WriteFile>),
    /// Where other machines reach it, and nowhere else: it is sealed.
    There(Arc<dyn ReadFile>),
}

impl SegmentFile {
    fn read_at(&self, offset: u64, out: &mut [u8]) -> firn_storage::Result<()> {
        match self {
            Self::Here(file) => file.read_at(offset, out),
            Self::There(file) => file.read_at(offset, out),
        }
    }

    fn to_read(&self) -> FileToRead {
        match self {
            Self::Here(file) => FileToRead::Growing(Arc::clone(file)),
            Self::There(file) => FileToRead::Finished(Arc::clone(file)),
        }
    }

    /// Has what is soon read once be loaded; does not wait.
    fn will_look_up(&self, offset: u64, bytes: u64) {
        match self {
            Self::Here(file) => file.will_need(offset, bytes),
            Self::There(file) => file.will_look_up(offset, bytes),
        }
    }

    /// As above, for a scan, where reading would have to wait for another machine.
    fn will_scan(&self, offset: u64, bytes: u64) {
        if let Self::There(file) = self {
            file.will_need(offset, bytes);
        }
    }
}

/// What the segments have.
#[derive(Debug, Default)]
struct Counted {
    /// Each, by its first address.
    segments: BTreeMap<u64, Contents>,
    /// All together.
    sum: Contents,
}

impl Device {
    /// A log whose segments have `1 << segment_bits` words, and names by their first address;
    /// `bases` are those that are there.
    pub(crate) fn open(
        storage: &Arc<dyn Storage>,
        (database, generation): (u128, u64),
        segment_bits: u32,
        (name, bases): (fn(u64) -> String, Vec<u64>),
    ) -> Result<Self> {
        let mut segments = BTreeMap::new();
        for base in bases {
            let file = storage.open_write(&name(base)).map_err(from_storage)?;
            segments.insert(base, SegmentFile::Here(file));
        }
        let segments = RwLock::new(segments);
        let counted = Mutex::default();
        let storage = Arc::clone(storage);
        Ok(Self { storage, database, generation, name, segment_bits, segments, counted })
    }

    /// Where the word of `address` lies, for people.
    pub(crate) fn location(&self, address: u64) -> Location {
        let file = (self.name)(self.base_of(address));
        Location { file, offset: Some(self.offset_of(address)) }
    }

    /// Words of a segment, as a power of two.
    pub(crate) fn segment_bits(&self) -> u32 {
        self.segment_bits
    }

    /// The first address of the segment with `address`.
    pub(crate) fn base_of(&self, address: u64) -> u64 {
        address >> self.segment_bits << self.segment_bits
    }

    /// The first address behind the segment with `address`.
    pub(crate) fn end_of(&self, address: u64) -> u64 {
        self.base_of(address) + (1 << self.segment_bits)
    }

    /// Where in its file the word of `address` lies.
    pub(crate) fn offset_of(&self, address: u64) -> u64 {
        SEGMENT_HEADER_BYTES as u64 + 8 * (address - self.base_of(address))
    }

    /// The file of the segment with `address`, if it was not removed.
    fn segment(&self, address: u64) -> Option<SegmentFile> {
        let segments = self.segments.read().unwrap_or_else(PoisonError::into_inner);
        segments.get(&self.base_of(address)).cloned()
    }

    /// The file of the segment with `address`, made if it is not there.
    fn segment_to_write(&self, address: u64) -> Result<Arc<dyn WriteFile>> {
        match self.segment(address) {
            Some(SegmentFile::Here(file)) => return Ok(file),
            Some(SegmentFile::There(_)) => return Err(Error::bug("a write to a sealed segment")),
            None => {}
        }
        let base = self.base_of(address);
        let header = SegmentHeader {
            database: self.database,
            base,
            words: 1 << self.segment_bits,
            generation: self.generation,
        };
        let name = (self.name)(base);
        let file = create_anew(&*self.storage, &name)?;
        file.write_at(0, &header.encode()).map_err(from_storage)?;
        let mut segments = self.segments.write().unwrap_or_else(PoisonError::into_inner);
        segments.insert(base, SegmentFile::Here(Arc::clone(&file)));
        Ok(file)
    }

    /// Whether there is a segment at `base`.
    pub(crate) fn has(&self, base: u64) -> bool {
        self.segments.read().unwrap_or_else(PoisonError::into_inner).contains_key(&base)
    }

    /// Whether the segment at `base` lies on this machine.
    pub(crate) fn is_here(&self, base: u64) -> bool {
        matches!(self.segment(base), Some(SegmentFile::Here(_)))
    }

    /// Name of the local file of the segment with this first address.
    pub(crate) fn name_of(&self, base: u64) -> String {
        (self.name)(base)
    }

    /// Has the sealed segment at `base` be read from `file`.
    pub(crate) fn read_there(&self, base: u64, file: Arc<dyn ReadFile>) {
        let mut segments = self.segments.write().unwrap_or_else(PoisonError::into_inner);
        segments.insert(base, SegmentFile::There(file));
    }

    /// Has the sealed segment at `base` be read from what `open` opens, and removes its local file.
    /// Does nothing where it has gone. Reads under way go on.
    ///
    /// # Errors
    /// Those of `open`: nothing has changed then. Those of removing the file.
    pub(crate) fn move_away(
        &self,
        base: u64,
        open: impl FnOnce() -> Result<Arc<dyn ReadFile>>,
    ) -> Result<()> {
        let file = open()?;
        {
            let mut segments = self.segments.write().unwrap_or_else(PoisonError::into_inner);
            match segments.get_mut(&base) {
                Some(segment) => *segment = SegmentFile::There(file),
                None => return Ok(()),
            }
        }
        remove_needless(&*self.storage, std::iter::once((self.name)(base)))
    }

    /// Writes `bytes` from `address` on; both ends lie in one segment, between records. Does not
    /// sync.
    pub(crate) fn write(&self, address: u64, bytes: &[u8]) -> Result<()> {
        let file = self.segment_to_write(address)?;
        file.write_at(self.offset_of(address), bytes).map_err(from_storage)
    }

    /// Counts records of the segment with `address`.
    pub(crate) fn count(&self, address: u64, contents: &Contents) {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        counted.segments.entry(self.base_of(address)).or_default().add(contents);
        counted.sum.add(contents);
    }

    /// How many segments after the one with `from` that with `address` is.
    #[inline]
    pub(crate) fn segments_between(&self, from: u64, address: u64) -> usize {
        ((address >> self.segment_bits) - (from >> self.segment_bits)) as usize
    }

    /// Words that live, where so many records of each segment from `begin` on are the newest of
    /// their chains. What is not on the device yet is taken to be like what is.
    pub(crate) fn live_words(
        &self,
        begin: u64,
        tops: &[u64],
        now_ms: u64,
        is_there: impl Fn(u32) -> bool,
    ) -> f64 {
        let counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        let bases = (self.base_of(begin)..).step_by(1 << self.segment_bits);
        let live = |(base, tops): (u64, &u64)| {
            let contents = counted.segments.get(&base).unwrap_or(&counted.sum);
            contents.live_words(*tops, now_ms, &is_there)
        };
        bases.zip(tops).map(live).sum()
    }

    /// Removes the segments that end at `address` or before. Reads under way go on.
    ///
    /// # Errors
    /// Those of the storage; an opening removes what is left.
    pub(crate) fn remove_before(&self, address: u64) -> Result<()> {
        let removed = {
            let mut segments = self.segments.write().unwrap_or_else(PoisonError::into_inner);
            let kept = segments.split_off(&self.base_of(address));
            std::mem::replace(&mut *segments, kept)
        };
        {
            let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
            let kept = counted.segments.split_off(&self.base_of(address));
            let gone = std::mem::replace(&mut counted.segments, kept);
            gone.values().for_each(|contents| counted.sum.subtract(contents));
        }
        remove_needless(&*self.storage, removed.into_keys().map(self.name))
    }

    /// Makes everything that was flushed of `from..to` survive loss of power.
    pub(crate) fn sync(&self, from: u64, to: u64) -> Result<()> {
        let files: Vec<_> = {
            let segments = self.segments.read().unwrap_or_else(PoisonError::into_inner);
            let here = |(_, file): (&u64, &SegmentFile)| match file {
                SegmentFile::Here(file) => Some(Arc::clone(file)),
                SegmentFile::There(_) => None,
            };
            segments.range(self.base_of(from)..to).filter_map(here).collect()
        };
        files.iter().try_for_each(|file| file.sync()).map_err(unsynced)?;
        self.storage.sync_dir().map_err(unsynced)
    }

    /// The first addresses of all segments, and how many words each holds.
    pub(crate) fn bases(&self) -> (Vec<u64>, u64) {
        let segments = self.segments.read().unwrap_or_else(PoisonError::into_inner);
        (segments.keys().copied().collect(), 1 << self.segment_bits)
    }

    /// Fills `out` from byte `offset` of the file of the segment with `address`.
    pub(crate) fn read_file(&self, address: u64, offset: u64, out: &mut [u8]) -> Result<()> {
        match self.segment(address) {
            Some(file) => file.read_at(offset, out).map_err(from_storage),
            None => Err(Error::bug("a segment that is there")),
        }
    }
}
