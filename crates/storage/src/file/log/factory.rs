//! What the segments of one log are made by.

use std::sync::Arc;

use firn_arena::Region;
use firn_format::key::GRANULE_BYTES;
use firn_format::log::SegmentHeader;
use firn_format::{FormatVersion, Position};

use super::recycled::RecycledSegments;
use super::segment::Segment;
use crate::file::obsolete::ObsoleteFiles;
use crate::{Result, Storage, WriteFile};

/// What all segments of a log have in common, and what dead ones left for the next.
#[derive(Debug)]
pub(super) struct SegmentFactory {
    /// Where their files lie.
    pub(super) storage: Arc<dyn Storage>,
    pub(super) database: u128,
    /// Generation that frames carry.
    pub(super) generation: u64,
    /// Bytes of an ordinary segment.
    pub(super) segment_bytes: u64,
    /// What dead segments left.
    pub(super) recycled: RecycledSegments,
    pub(super) obsolete: Arc<ObsoleteFiles>,
}

/// The arena and the file of a segment, before its header is written.
pub(super) struct Blank {
    base: Position,
    capacity: u64,
    region: Region,
    file: Option<Arc<dyn WriteFile>>,
    /// All of its file's room is set aside.
    is_reserved: bool,
}

impl SegmentFactory {
    /// Bytes of the smallest segment there is.
    pub(super) fn first_capacity(&self) -> u64 {
        GRANULE_BYTES.min(self.segment_bytes)
    }

    /// What a segment from `base` on needs, of `capacity` bytes. Its file has room for the first
    /// `reserved` of them; there is none where that is `None`.
    ///
    /// # Errors
    /// `Full` when the disk is full, `Refused` for want of memory.
    pub(super) fn blank(&self, base: Position, capacity: u64, reserved: Option<u64>) -> Result<Blank> {
        let region = self.recycled.arena(capacity)?;
        let name = firn_format::file_name::log_segment(base);
        let file = |reserved| self.recycled.file(&*self.storage, &name, (capacity, reserved));
        let is_reserved = reserved == Some(capacity);
        Ok(Blank { base, capacity, region, file: reserved.map(file).transpose()?, is_reserved })
    }

    /// Makes `blank` the segment after the log's part that ends at `previous_end`: writes its
    /// header.
    pub(super) fn begin<C>(&self, blank: Blank, previous_end: Position, carried: C) -> Result<Segment<C>> {
        let Blank { base, capacity, region, file, is_reserved } = blank;
        let header = SegmentHeader {
            version: FormatVersion::CURRENT,
            database: self.database,
            base,
            previous_end,
            generation: self.generation,
            capacity,
        };
        if let Some(file) = &file {
            file.write_zeroing(0, &header.encode())?;
        }
        let segment = Segment::new(header, region, file, carried, Arc::clone(&self.obsolete));
        if capacity == self.segment_bytes && is_reserved {
            segment.may_leave_file();
        }
        Ok(segment)
    }
}
