//! One log segment: an arena in memory and a file with the same bytes.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use firn_format::Position;
use firn_format::log::{SEGMENT_HEADER_BYTES, SegmentHeader};
use firn_pmem::Region;
use firn_storage::WriteFile;
use firn_storage::file::table::TableReader;
use firn_storage::file::value::ValueSegment;
use firn_storage::place::PAGE_BYTES;

use super::MemtableSet;
use crate::version::shared_files::SharedFiles;

/// A segment of the log. Shared by the log, by versions, and by whatever reads records in it.
///
/// 1. The file's bytes are the header, then the arena's published bytes, then zeros to the end of a
///    page; nothing else is ever written to it. Once all of them are written, room that was set
///    aside behind them is [given back](Self::cut).
/// 2. Its positions are `base + file offset`; no other segment of the database ever has them.
/// 3. Once [`retire`](Self::retire)d, the file is removed, or given to a new segment, after the
///    last holder lets go.
/// 4. Only a file that this process made, that no checkpoint links and that was not cut is given to
///    a new segment.
#[derive(Debug)]
pub(crate) struct Segment {
    header: SegmentHeader,
    name: String,
    region: Region,
    file: Option<Arc<dyn WriteFile>>,
    memtables: MemtableSet,
    retired: AtomicBool,
    leaves_file: AtomicBool,
    /// Bytes that the file takes on disk, room set aside included.
    file_bytes: AtomicU64,
    /// What the graveyard counts for the arena.
    counted_bytes: AtomicU64,
    graveyard: Arc<Graveyard>,
}

impl Segment {
    pub(crate) fn new(
        header: SegmentHeader,
        region: Region,
        file: Option<Arc<dyn WriteFile>>,
        memtables: MemtableSet,
        graveyard: Arc<Graveyard>,
    ) -> Self {
        let name = firn_format::file_name::log_segment(header.base);
        let (retired, leaves_file) = (AtomicBool::new(false), AtomicBool::new(false));
        let file_bytes = match &file {
            Some(_) => header.capacity,
            None => (SEGMENT_HEADER_BYTES + region.published()) as u64,
        };
        let file_bytes = AtomicU64::new(file_bytes);
        let counted_bytes = AtomicU64::new(region.capacity() as u64);
        graveyard.count(region.capacity() as u64);
        let segment = Self {
            header,
            name,
            region,
            file,
            memtables,
            retired,
            leaves_file,
            file_bytes,
            counted_bytes,
            graveyard,
        };
        segment.count_again();
        segment
    }

    /// Which database and generation it is of, and where it lies.
    pub(crate) fn header(&self) -> &SegmentHeader {
        &self.header
    }

    /// First position of the segment's span (its header's).
    pub(crate) fn base(&self) -> Position {
        self.header.base
    }

    /// First position after the segment's span; the next segment's base is not smaller.
    pub(crate) fn span_end(&self) -> Position {
        Position(self.header.base.0 + self.header.capacity)
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn region(&self) -> &Region {
        &self.region
    }

    pub(crate) fn file(&self) -> Option<&Arc<dyn WriteFile>> {
        self.file.as_ref()
    }

    /// Memtables that records reserved in this segment are indexed in.
    pub(crate) fn memtables(&self) -> &MemtableSet {
        &self.memtables
    }

    /// Position of an arena offset.
    pub(crate) fn position(&self, region_offset: usize) -> Position {
        Position(self.header.base.0 + (SEGMENT_HEADER_BYTES + region_offset) as u64)
    }

    /// Arena offset of a position; `None` if it lies before the first frame.
    pub(crate) fn region_offset(&self, position: Position) -> Option<usize> {
        let offset = position.0.checked_sub(self.header.base.0 + SEGMENT_HEADER_BYTES as u64)?;
        usize::try_from(offset).ok()
    }

    /// Memory the arena takes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.region.sealed_end().unwrap_or(self.region.capacity()) as u64
    }

    /// Bytes that its file takes on disk, room set aside for frames included.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.file_bytes.load(Ordering::Relaxed)
    }

    /// Gives the room back that was set aside behind the sealed end, where that is worth a call.
    /// All of the arena must be written. Such a file is no other segment's: it would have to be
    /// given the room again.
    ///
    /// A file that cannot be cut keeps its room, is counted as before, and goes with its segment.
    pub(crate) fn cut(&self) {
        let (Some(end), Some(file)) = (self.region.sealed_end(), &self.file) else { return };
        let used = (SEGMENT_HEADER_BYTES + end) as u64;
        let takes = used.next_multiple_of(PAGE_BYTES);
        if takes + self.header.capacity / CUT_SHARE > self.file_bytes() {
            return;
        }
        if file.set_len(used).is_ok() {
            self.keep_file();
            self.file_bytes.store(takes, Ordering::Relaxed);
        }
    }

    /// Gives the pages behind a sealed end back to the system.
    pub(crate) fn trim(&self) {
        self.region.trim();
        self.count_again();
    }

    /// Counts the arena as what it takes now; that only shrinks.
    fn count_again(&self) {
        let bytes = self.memory_bytes();
        let before = self.counted_bytes.fetch_min(bytes, Ordering::Relaxed);
        self.graveyard.discount(before.saturating_sub(bytes));
    }

    /// Its file may become another segment's: it is of the usual capacity, and has no other name.
    pub(crate) fn may_leave_file(&self) {
        self.leaves_file.store(true, Ordering::Release);
    }

    /// Its file is about to get a second name, so its bytes must stay.
    pub(crate) fn keep_file(&self) {
        self.leaves_file.store(false, Ordering::Release);
    }

    /// Nothing refers to the segment any more: its file goes when the last holder does.
    pub(crate) fn retire(&self) {
        self.retired.store(true, Ordering::Release);
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        self.graveyard.discount(self.counted_bytes.load(Ordering::Relaxed));
        if self.retired.load(Ordering::Acquire) {
            let name = std::mem::take(&mut self.name);
            match self.leaves_file.load(Ordering::Acquire) {
                true => self.graveyard.offer(name),
                false => self.graveyard.bury(name),
            }
        }
    }
}

/// Less than a capacity divided by this is not worth giving back: a file that is whole is of more
/// use to the next segment.
const CUT_SHARE: u64 = 16;

/// Names of files whose last holder is gone: background work is to remove them or to use them
/// again. The memory of what has holders still, in versions or not. Value segments that are gone
/// except for holders.
#[derive(Debug, Default)]
pub(crate) struct Graveyard {
    names: Mutex<Dead>,
    /// Names of tables and sealed value segments that have holders; `None` where orphan GC does not
    /// ask for them.
    held: Option<Mutex<BTreeSet<String>>>,
    /// Files that several tables share.
    pub(crate) shared: SharedFiles,
    live_bytes: AtomicU64,
    retired_values: Retired,
}

/// Files that no version from now on knows, and that have holders.
#[derive(Debug, Default)]
struct Retired {
    count: AtomicU64,
    bytes: AtomicU64,
}

/// What a [`Graveyard`] holds.
#[derive(Debug, Default)]
pub(crate) struct Dead {
    /// To be removed.
    pub(crate) buried: Vec<String>,
    /// Log segments whose files new segments may have.
    pub(crate) offered: Vec<String>,
    /// Tables and value segments whose files new ones may have once no reader has them.
    pub(crate) offered_files: Vec<DeadFile>,
    /// To be removed, and they could not be: they come along with what is buried next.
    put_off: Vec<String>,
}

/// A table or a value segment whose file a new one of its kind may have.
#[derive(Debug)]
pub(crate) struct DeadFile {
    pub(crate) name: String,
    pub(crate) bytes: u64,
    pub(crate) reader: DeadReader,
}

/// The file is mapped as long as this has a holder.
#[derive(Debug)]
pub(crate) enum DeadReader {
    Table(Arc<TableReader>),
    Values(Arc<ValueSegment>),
}

impl DeadReader {
    /// Lets go of it; whether it had no other holder.
    pub(crate) fn lets_go(self) -> bool {
        match self {
            Self::Table(reader) => Arc::into_inner(reader).is_some(),
            Self::Values(segment) => Arc::into_inner(segment).is_some(),
        }
    }
}

impl Graveyard {
    /// An empty one, that is asked for the names of what has holders if `tells_held`.
    pub(crate) fn new(tells_held: bool) -> Self {
        Self { held: tells_held.then(Mutex::default), ..Self::default() }
    }

    /// The file `name` of a table or a sealed value segment has a holder from now on.
    pub(crate) fn hold(&self, name: &str) {
        if let Some(held) = &self.held {
            held.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned());
        }
    }

    /// The file `name` has no holder any more, nor will have; what waits for its removal is told
    /// before.
    pub(crate) fn let_go(&self, name: &str) {
        if let Some(held) = &self.held {
            held.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
        }
    }

    /// Files that have holders, and those that wait for their removal; `None` where that is not
    /// kept.
    pub(crate) fn held(&self) -> Option<BTreeSet<String>> {
        let mut held = self.held.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner).clone();
        held.extend(self.shared.names());
        let dead = self.lock();
        held.extend(dead.buried.iter().chain(&dead.put_off).cloned());
        held.extend(dead.offered_files.iter().map(|file| file.name.clone()));
        Some(held)
    }

    pub(crate) fn bury(&self, name: String) {
        self.lock().buried.push(name);
    }

    /// These could not be removed: they are tried again with what is buried next, or once that is
    /// [asked](Self::recall) for.
    pub(crate) fn put_off(&self, names: impl IntoIterator<Item = String>) {
        self.lock().put_off.extend(names);
    }

    /// What could not be removed is tried again now.
    pub(crate) fn recall(&self) {
        let mut dead = self.lock();
        let Dead { buried, put_off, .. } = &mut *dead;
        buried.append(put_off);
    }

    pub(crate) fn offer(&self, name: String) {
        self.lock().offered.push(name);
    }

    /// What was offered is to be removed instead.
    pub(crate) fn withdraw_offers(&self) {
        let mut dead = self.lock();
        let Dead { buried, offered, offered_files, .. } = &mut *dead;
        buried.append(offered);
        buried.extend(offered_files.drain(..).map(|file| file.name));
    }

    pub(crate) fn offer_file(&self, file: DeadFile) {
        self.lock().offered_files.push(file);
    }

    /// Memory of segments' arenas and of tables' indexes and filters, whatever holds them.
    pub(crate) fn live_bytes(&self) -> u64 {
        self.live_bytes.load(Ordering::Relaxed)
    }

    /// `bytes` more are held.
    pub(crate) fn count(&self, bytes: u64) {
        self.live_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// `bytes` that were counted are let go.
    pub(crate) fn discount(&self, bytes: u64) {
        self.live_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// A value segment of `bytes` bytes is gone, except for its holders.
    pub(crate) fn retire_values(&self, bytes: u64) {
        self.retired_values.count.fetch_add(1, Ordering::Relaxed);
        self.retired_values.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// A value segment that was gone except for its holders has none any more.
    pub(crate) fn let_values_go(&self, bytes: u64) {
        self.retired_values.count.fetch_sub(1, Ordering::Relaxed);
        self.retired_values.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// How many value segments are gone except for their holders, and their bytes.
    pub(crate) fn retired_values(&self) -> (u64, u64) {
        let Retired { count, bytes } = &self.retired_values;
        (count.load(Ordering::Relaxed), bytes.load(Ordering::Relaxed))
    }

    pub(crate) fn is_empty(&self) -> bool {
        let dead = self.lock();
        dead.buried.is_empty() && dead.offered.is_empty() && dead.offered_files.is_empty()
    }

    pub(crate) fn take(&self) -> Dead {
        let mut dead = std::mem::take(&mut *self.lock());
        dead.buried.append(&mut dead.put_off);
        dead
    }

    fn lock(&self) -> MutexGuard<'_, Dead> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
