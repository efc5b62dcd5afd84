//! One log segment: an arena in memory and a file with the same bytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use firn_arena::Region;
use firn_format::Position;
use firn_format::log::{SEGMENT_HEADER_BYTES, SegmentHeader};

use crate::WriteFile;
use crate::backend::PAGE_BYTES;
use crate::file::obsolete::ObsoleteFiles;

/// A segment of the log, and what it `C`arries for its engine: that in which its records are
/// indexed. Shared by the log, by versions, and by whatever reads records in it.
///
/// 1. The file's bytes are the header, then the arena's published bytes, then zeros to the end of a
///    page; nothing else is ever written to it. Once all of them are written, room that was set
///    aside behind them is [given back](Self::cut).
/// 2. Its positions are `base + file offset`; no other segment of the database ever has them.
/// 3. Once [`retire`](Self::retire)d, the file is removed, or given to a new segment, after the
///    last holder lets go.
/// 4. Only a file that this process made, that no copy links and that was not cut is given to
///    a new segment.
#[derive(Debug)]
pub struct Segment<C> {
    header: SegmentHeader,
    name: String,
    region: Region,
    file: Option<Arc<dyn WriteFile>>,
    carried: C,
    retired: AtomicBool,
    leaves_file: AtomicBool,
    /// Bytes that the file takes on disk, room set aside included.
    file_bytes: AtomicU64,
    /// What obsolete files count for the arena.
    counted_bytes: AtomicU64,
    obsolete: Arc<ObsoleteFiles>,
}

impl<C> Segment<C> {
    /// The segment that `header` describes, over `region`; without a `file` where nothing is
    /// written.
    pub fn new(
        header: SegmentHeader,
        region: Region,
        file: Option<Arc<dyn WriteFile>>,
        carried: C,
        obsolete: Arc<ObsoleteFiles>,
    ) -> Self {
        let name = firn_format::file_name::log_segment(header.base);
        let (retired, leaves_file) = (AtomicBool::new(false), AtomicBool::new(false));
        let file_bytes = match &file {
            Some(_) => header.capacity,
            None => (SEGMENT_HEADER_BYTES + region.published()) as u64,
        };
        let file_bytes = AtomicU64::new(file_bytes);
        let counted_bytes = AtomicU64::new(region.capacity() as u64);
        obsolete.count(region.capacity() as u64);
        let segment = Self {
            header,
            name,
            region,
            file,
            carried,
            retired,
            leaves_file,
            file_bytes,
            counted_bytes,
            obsolete,
        };
        segment.count_again();
        segment
    }

    /// Which database and generation it is of, and where it lies.
    pub fn header(&self) -> &SegmentHeader {
        &self.header
    }

    /// First position of the segment's span (its header's).
    pub fn base(&self) -> Position {
        self.header.base
    }

    /// First position after the segment's span; the next segment's base is not smaller.
    pub fn span_end(&self) -> Position {
        Position(self.header.base.0 + self.header.capacity)
    }

    /// The name of its file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its arena.
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// Its file, if anything is written to it.
    pub fn file(&self) -> Option<&Arc<dyn WriteFile>> {
        self.file.as_ref()
    }

    /// What it carries for its engine.
    pub fn carried(&self) -> &C {
        &self.carried
    }

    /// Position of an arena offset.
    pub fn position(&self, region_offset: usize) -> Position {
        Position(self.header.base.0 + (SEGMENT_HEADER_BYTES + region_offset) as u64)
    }

    /// Arena offset of a position; `None` if it lies before the first frame.
    pub fn region_offset(&self, position: Position) -> Option<usize> {
        let offset = position.0.checked_sub(self.header.base.0 + SEGMENT_HEADER_BYTES as u64)?;
        usize::try_from(offset).ok()
    }

    /// Memory the arena takes.
    pub fn memory_bytes(&self) -> u64 {
        self.region.sealed_end().unwrap_or(self.region.capacity()) as u64
    }

    /// Bytes that its file takes on disk, room set aside for frames included.
    pub fn file_bytes(&self) -> u64 {
        self.file_bytes.load(Ordering::Relaxed)
    }

    /// Gives the room back that was set aside behind the sealed end, where that is worth a call.
    /// All of the arena must be written. Such a file is no other segment's: it would have to be
    /// given the room again.
    ///
    /// A file that cannot be cut keeps its room, is counted as before, and goes with its segment.
    pub fn cut(&self) {
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
    pub fn trim(&self) {
        self.region.trim();
        self.count_again();
    }

    /// Counts the arena as what it takes now; that only shrinks.
    fn count_again(&self) {
        let bytes = self.memory_bytes();
        let before = self.counted_bytes.fetch_min(bytes, Ordering::Relaxed);
        self.obsolete.discount(before.saturating_sub(bytes));
    }

    /// Its file may become another segment's: it is of the usual capacity, and has no other name.
    pub fn may_leave_file(&self) {
        self.leaves_file.store(true, Ordering::Release);
    }

    /// Its file is about to get a second name, so its bytes must stay.
    pub fn keep_file(&self) {
        self.leaves_file.store(false, Ordering::Release);
    }

    /// Nothing refers to the segment any more: its file goes when the last holder does.
    pub fn retire(&self) {
        self.retired.store(true, Ordering::Release);
    }
}

impl<C> Drop for Segment<C> {
    fn drop(&mut self) {
        self.obsolete.discount(self.counted_bytes.load(Ordering::Relaxed));
        if self.retired.load(Ordering::Acquire) {
            let name = std::mem::take(&mut self.name);
            match self.leaves_file.load(Ordering::Acquire) {
                true => self.obsolete.recycle_segment(name),
                false => self.obsolete.remove_later(name),
            }
        }
    }
}

/// Less than a capacity divided by this is not worth giving back: a file that is whole is of more
/// use to the next segment.
const CUT_SHARE: u64 = 16;
