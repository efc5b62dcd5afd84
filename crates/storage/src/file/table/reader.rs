//! An open table.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use firn_format::Sequence;
use firn_format::compression;
use firn_format::filter;
use firn_format::manifest::TableMeta;
use firn_format::table::block::{self, Checked};
use firn_format::table::data::Shape;
use firn_format::table::index::Index;
use firn_format::table::{Footer, Properties};
use firn_format::tombstone::FragmentList;

use super::opening::Begun;
use super::parts::{LineAligned, Parts, corrupt};
use crate::file::cache::{BlockCache, CachedBlock, FileNumber};
use crate::file::in_turn::{InTurn, Opening};
use crate::file::tail::Tail;
use crate::{Error, FileBytes, ReadFile, Result, Storage};

/// How a table is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReaderOptions {
    /// Read raw blocks where they lie if the backend gives the file as memory; else everything is
    /// loaded.
    pub map: bool,
}

impl Default for ReaderOptions {
    fn default() -> Self {
        Self { map: true }
    }
}

/// One open table. Immutable and shared between threads; reads take no lock and allocate nothing as
/// long as the blocks are mapped.
pub struct TableReader {
    name: String,
    pub(super) file: Arc<dyn ReadFile>,
    pub(super) bytes: Option<FileBytes>,
    pub(super) index: Index,
    pub(super) filter: LineAligned,
    prefixes: LineAligned,
    tombstones: FragmentList,
    footer: Footer,
    properties: Properties,
    /// The sequence of all entries, where the file has 0 for each.
    pub(super) given: Option<Sequence>,
    /// One bit a block: its checksum was compared since the table was opened, and it is stored raw.
    verified: Vec<AtomicU64>,
    pub(super) cache: Arc<BlockCache>,
    pub(super) number: FileNumber,
    pub(super) may_be_evicted: AtomicBool,
}

/// A data block ready to be read.
pub(super) enum BlockRef<'t> {
    /// Where it lies: its payload.
    Mapped(&'t [u8]),
    /// In memory of the reader's own.
    Loaded(CachedBlock),
}

impl TableReader {
    /// Opens the file `meta` names and checks that it is that file: length, counts, bounds, content
    /// hash.
    ///
    /// Reads footer, properties, index, filters and tombstones, of a file that is not mapped by one
    /// or two reads; blocks on the device.
    ///
    /// # Errors
    /// `NotFound`; `Corrupt` with file and offset; what reading says.
    pub fn open(
        storage: &dyn Storage,
        meta: &TableMeta,
        cache: &Arc<BlockCache>,
        options: ReaderOptions,
    ) -> Result<Self> {
        Begun::begin(storage, meta, cache, options)?.finish()
    }

    /// Opens the files that `metas` name, as [`open`](Self::open) does and in their order, while
    /// those behind are on their way. Of a backend whose answers take time, tens are waited for
    /// together. Does nothing before it is asked for the first, which takes as long as an answer or
    /// two; blocks on the device.
    pub fn open_all<'a>(
        storage: &'a dyn Storage,
        metas: impl IntoIterator<Item = &'a TableMeta, IntoIter: 'a>,
        cache: &'a Arc<BlockCache>,
        options: ReaderOptions,
    ) -> impl Iterator<Item = Result<Self>> + 'a {
        InTurn::new(metas.into_iter().map(move |meta| Begun::begin(storage, meta, cache, options)))
    }

    /// Opens any table file, as [`open`](Self::open) but with nothing to compare it to.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub fn open_file(
        name: &str,
        file: Arc<dyn ReadFile>,
        cache: &Arc<BlockCache>,
        options: ReaderOptions,
    ) -> Result<Self> {
        let bytes = if options.map { file.bytes()? } else { None };
        Self::of(name, file, bytes, None, cache)
    }

    /// `tail` is what was read of a file that is not mapped, if anything was.
    pub(super) fn of(
        name: &str,
        file: Arc<dyn ReadFile>,
        bytes: Option<FileBytes>,
        tail: Option<Tail>,
        cache: &Arc<BlockCache>,
    ) -> Result<Self> {
        let mut parts = Parts::new(name, &*file, bytes.as_deref(), tail);
        let (footer, first) = parts.footer()?;
        parts.reach(first)?;
        let properties_at = footer.properties.offset;
        let properties = Properties::decode(&parts.payload(footer.properties)?)
            .map_err(|error| corrupt(name, properties_at, &error))?;
        let top = parts.payload(footer.top)?;
        let region = parts.fetch(footer.index)?;
        let index = Index::decode(&top, &region, footer.data_bytes)
            .map_err(|error| corrupt(name, footer.index.offset, &error))?;
        if index.block_count() as u64 != properties.block_count {
            let message =
                format!("expected {} blocks, found {}", properties.block_count, index.block_count());
            return Err(Error::corrupt(name, properties_at, message));
        }
        let tombstones = match footer.tombstones.bytes {
            0 => FragmentList::new(),
            _ => FragmentList::decode(&parts.payload(footer.tombstones)?)
                .map_err(|error| corrupt(name, footer.tombstones.offset, &error))?,
        };
        let filter = parts.filter(footer.filter)?;
        let prefixes = parts.filter(footer.prefixes)?;
        drop((top, region));
        // From here on.
        if let Some(bytes) = &bytes {
            bytes.expect_random();
        }
        Ok(Self {
            name: name.to_owned(),
            verified: (0..index.block_count().div_ceil(64)).map(|_| AtomicU64::new(0)).collect(),
            file,
            bytes,
            index,
            filter,
            prefixes,
            tombstones,
            footer,
            properties,
            given: None,
            number: cache.new_file(),
            cache: Arc::clone(cache),
            may_be_evicted: AtomicBool::new(false),
        })
    }

    /// Its range tombstones.
    pub fn tombstones(&self) -> &FragmentList {
        &self.tombstones
    }

    /// Whether raw blocks are read where they lie, without a read of the file.
    pub fn is_mapped(&self) -> bool {
        self.bytes.is_some()
    }

    /// What the file says about itself.
    pub fn properties(&self) -> &Properties {
        &self.properties
    }

    /// Whether its file has 0 for the sequence of every entry: the manifest says which one all of
    /// them have.
    fn has_no_sequences(&self) -> bool {
        self.properties.sequence_max == Sequence(0)
    }

    /// Gives all entries of a table that has no sequences `sequence`, as [`open`](Self::open) does
    /// by what the manifest says. For a table that was opened before that was known, and that no
    /// other thread reads yet.
    ///
    /// # Errors
    /// `Bug` if its entries have sequences of their own.
    pub fn give_sequence(&mut self, sequence: Sequence) -> Result<()> {
        if !self.has_no_sequences() {
            return Err(Error::bug(format!("the entries of {} have sequences", self.name)));
        }
        self.given = Some(sequence);
        Ok(())
    }

    /// The least and the greatest sequence of its entries and range tombstones.
    pub(super) fn sequences(&self) -> (Sequence, Sequence) {
        match self.given {
            Some(sequence) => (sequence, sequence),
            None => (self.properties.sequence_min, self.properties.sequence_max),
        }
    }

    /// Makes the table claim something else.
    #[cfg(test)]
    pub(super) fn properties_mut(&mut self) -> &mut Properties {
        &mut self.properties
    }

    /// The file's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where the parts of the file are.
    pub fn footer(&self) -> &Footer {
        &self.footer
    }

    /// Whether an entry's key may begin with a prefix of this hash ([`filter::filter_hash`] of the
    /// prefix); `false` is certain. Range tombstones have no say.
    ///
    /// Asked only if the extractor is the one the table was written with
    /// ([`Properties::prefix_extractor`]): otherwise the answer means nothing.
    #[inline]
    pub fn may_contain_prefix(&self, prefix_hash: u32) -> bool {
        filter::contains(self.prefixes.get(), prefix_hash)
    }

    /// Whether an entry's key may have this hash; `false` is certain.
    #[inline]
    pub fn may_contain(&self, key_hash: u32) -> bool {
        filter::contains(self.filter.get(), key_hash)
    }

    /// Tells whether pages of the mapping must be expected to leave memory (data larger than
    /// memory).
    ///
    /// Then point reads keep records in the cache and read blocks from the file, one read each, and
    /// scans read ahead from the file. [`super::ReadMode::ResidentOnly`] asks the kernel whether a
    /// block is in memory. Off at first: mapped blocks are read where they lie, and a block that
    /// was read before counts as resident.
    pub fn set_may_be_evicted(&self, may_be_evicted: bool) {
        // A hint that decides only how a read is done.
        self.may_be_evicted.store(may_be_evicted, Ordering::Relaxed);
    }

    /// Bytes of data blocks before the block that `key` is in, or would be: by the index, which is
    /// in memory.
    pub fn bytes_before(&self, key: &[u8]) -> u64 {
        self.index.block(self.index.find(key)).map_or(self.footer.data_bytes, |(offset, _)| offset)
    }

    /// Begins what a scan from `key` will wait for first, so that it waits for several tables at
    /// once. Where data is larger than memory that is the device's reading of `bytes` bytes,
    /// otherwise the loading of cache lines. Does not wait.
    pub fn ask_for(&self, key: &[u8], bytes: u32) {
        let block = self.index.find(key);
        if !self.may_be_evicted() {
            return self.begin_load(block);
        }
        if let (Some(mapped), Some((offset, block_bytes))) = (&self.bytes, self.index.block(block)) {
            let end = (offset + block_bytes.max(bytes.into())).min(self.footer.data_bytes);
            mapped.will_need(offset as usize..end as usize);
        }
    }

    /// Has the processor begin to load the lines of mapped block `block` that a walk needs first:
    /// tail, keys and the first value. Does not wait.
    #[inline]
    pub(super) fn begin_load(&self, block: usize) {
        if let Some((offset, bytes)) = self.index.block(block) {
            self.begin_load_at(offset, bytes);
        }
    }

    /// Begins to load the lines that a search needs one after the other, so that their misses
    /// overlap.
    #[inline]
    fn begin_load_at(&self, offset: u64, bytes: u64) {
        let Some(mapped) = &self.bytes else { return };
        let (start, end) = (offset as usize, (offset + bytes) as usize);
        mapped.begin_load(start);
        LINES_FROM_END.into_iter().for_each(|from_end| mapped.begin_load(end.saturating_sub(from_end)));
    }

    /// Whether reads touch no file as long as the system keeps its pages: mapped, and expected to
    /// stay in memory.
    pub fn reads_in_place(&self) -> bool {
        self.is_mapped() && !self.may_be_evicted()
    }

    /// See [`set_may_be_evicted`](Self::set_may_be_evicted).
    pub(super) fn may_be_evicted(&self) -> bool {
        self.may_be_evicted.load(Ordering::Relaxed)
    }

    /// Heap bytes held: index, filters, tombstones, bits. Not the mapping, not the cache.
    pub fn memory_bytes(&self) -> usize {
        self.index.memory_bytes()
            + self.filter.memory_bytes()
            + self.prefixes.memory_bytes()
            + self.tombstones.memory_bytes()
            + self.verified.capacity() * size_of::<AtomicU64>()
            + size_of::<Self>()
    }

    /// Bytes of `handle` in the mapping.
    #[inline]
    pub(super) fn mapped(&self, offset: u64, bytes: u64) -> Option<&[u8]> {
        let start = usize::try_from(offset).ok()?;
        self.bytes.as_deref()?.get(start..start.checked_add(usize::try_from(bytes).ok()?)?)
    }

    #[inline]
    pub(super) fn is_verified(&self, block: usize) -> bool {
        // No ordering: see the module's text.
        self.verified_word(block).is_some_and(|word| word.load(Ordering::Relaxed) >> (block % 64) & 1 == 1)
    }

    /// The word with the bit of block `block`.
    #[inline]
    pub(super) fn verified_word(&self, block: usize) -> Option<&AtomicU64> {
        self.verified.get(block / 64)
    }

    pub(super) fn set_verified(&self, block: usize) {
        if let Some(word) = self.verified.get(block / 64) {
            word.fetch_or(1 << (block % 64), Ordering::Relaxed);
        }
    }

    /// Block `block`, from wherever it is; blocks on the device if it is not in memory. `None` past
    /// the last.
    #[inline]
    pub(super) fn block(&self, block: usize) -> Result<Option<BlockRef<'_>>> {
        let Some((offset, bytes)) = self.index.block(block) else { return Ok(None) };
        if self.is_verified(block)
            && let Some(stored) = self.mapped(offset, bytes)
            && let [payload @ .., _, _, _, _, _, _, _, _, _] = stored
        {
            self.begin_load_at(offset, bytes);
            return Ok(Some(BlockRef::Mapped(payload)));
        }
        self.block_first_time(block, offset, bytes).map(Some)
    }

    #[inline(never)]
    fn block_first_time(&self, block: usize, offset: u64, bytes: u64) -> Result<BlockRef<'_>> {
        let Some(stored) = self.mapped(offset, bytes) else {
            return self.load(offset, bytes).map(BlockRef::Loaded);
        };
        if let Some(found) = self.cache.get(self.number, offset) {
            return Ok(BlockRef::Loaded(found));
        }
        self.cache.count_miss(bytes);
        match block::check(stored).map_err(|error| self.corrupt(offset, &error))? {
            Checked::Raw(payload) => {
                self.set_verified(block);
                Ok(BlockRef::Mapped(payload))
            }
            checked => {
                let loaded = self.decode(checked, offset, Vec::new())?;
                self.cache.insert(self.number, offset, &loaded);
                Ok(BlockRef::Loaded(loaded))
            }
        }
    }

    /// The block at `offset` through the cache.
    fn load(&self, offset: u64, bytes: u64) -> Result<CachedBlock> {
        if let Some(found) = self.cache.get(self.number, offset) {
            return Ok(found);
        }
        let loaded = self.read(offset, bytes)?;
        self.cache.insert(self.number, offset, &loaded);
        Ok(loaded)
    }

    /// Block `block` from the cache or by one read of the file, not kept. `None` past the last.
    pub(super) fn read_block(&self, block: usize) -> Result<Option<CachedBlock>> {
        let Some((offset, bytes)) = self.index.block(block) else { return Ok(None) };
        match self.cache.get(self.number, offset) {
            Some(found) => Ok(Some(found)),
            None => self.read(offset, bytes).map(Some),
        }
    }

    /// The block at `offset` from the file.
    fn read(&self, offset: u64, bytes: u64) -> Result<CachedBlock> {
        self.cache.count_miss(bytes);
        let mut stored = vec![0; bytes as usize];
        self.file.read_at(offset, &mut stored)?;
        match block::check(&stored).map_err(|error| self.corrupt(offset, &error))? {
            Checked::Raw(payload) => {
                let payload_bytes = payload.len();
                stored.truncate(payload_bytes);
                let shape = Shape::of(&stored).map_err(|error| self.corrupt(offset, &error))?;
                Ok(CachedBlock { payload: stored, shape })
            }
            checked => self.decode(checked, offset, Vec::new()),
        }
    }

    /// The payload of a checked block in memory of its own; `room` is reused.
    pub(super) fn decode(&self, checked: Checked<'_>, offset: u64, mut room: Vec<u8>) -> Result<CachedBlock> {
        match checked {
            Checked::Raw(payload) => {
                room.clear();
                room.extend_from_slice(payload);
            }
            Checked::Compressed { codec, stored, raw_bytes } => {
                compression::decompress(codec, stored, raw_bytes, &mut room)
                    .map_err(|error| self.corrupt(offset, &error))?;
            }
        }
        let shape = Shape::of(&room).map_err(|error| self.corrupt(offset, &error))?;
        Ok(CachedBlock { payload: room, shape })
    }

    /// `error` in the block at `offset`. Inside a compressed block the offset is the block's.
    #[cold]
    pub(super) fn corrupt(&self, offset: u64, error: &firn_format::Error) -> Error {
        corrupt(&self.name, offset, error)
    }

    /// Checks that this is the table of `meta`. One whose file has no sequences gets the one that
    /// `meta` says.
    pub(super) fn fit(&mut self, meta: &TableMeta) -> Result<()> {
        if self.has_no_sequences() && meta.sequence_min == meta.sequence_max {
            self.given = Some(meta.sequence_min);
        }
        self.check_meta(meta)
    }

    fn check_meta(&self, meta: &TableMeta) -> Result<()> {
        let p = &self.properties;
        let found = (p.entry_count, p.tombstone_count, p.range_tombstone_count, p.data_bytes, p.content_hash);
        let expected = (
            meta.entry_count,
            meta.tombstone_count,
            meta.range_tombstone_count,
            meta.data_bytes,
            meta.content_hash,
        );
        let (sequence_min, sequence_max) = self.sequences();
        let bounds = (sequence_min, sequence_max, &p.smallest, &p.largest);
        let expected_bounds = (meta.sequence_min, meta.sequence_max, &meta.smallest, &meta.largest);
        if found != expected || bounds != expected_bounds {
            let message =
                format!("expected the table {expected:?} {expected_bounds:?}, found {found:?} {bounds:?}");
            return Err(Error::corrupt(&self.name, self.footer.properties.offset, message));
        }
        Ok(())
    }
}

impl fmt::Debug for TableReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableReader").field("name", &self.name).field("properties", &self.properties).finish()
    }
}

/// Where a block's tail and keys are: bytes from its end, one in each cache line.
const LINES_FROM_END: [usize; 3] = [16, 80, 144];
