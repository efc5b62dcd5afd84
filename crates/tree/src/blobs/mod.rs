//! Separated values.
//!
//! ```text
//!   put of a large value ─► write: a place in the active segment, one write ─► a reference goes
//!                             │                                                 into the frame
//!                             │ full: seal (`blob_gc/`) ─► ordinal table, footer, sync, an edit
//!   put of a value that a source brings ─► streamed: a segment of its own, written as it comes
//!                             └─► a reference goes into the frame
//!   get ─► a reference ─► map: where its segment's values are now ─► the value
//! ```
//! A value is named by the segment it was first written to and its ordinal there, for ever;
//! [`map`](BlobMap) says where that is now.

pub(crate) mod active;
pub(crate) mod map;
pub(crate) mod write;
mod streamed;
mod read;
mod gather;
pub(crate) mod pick;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use arc_swap::ArcSwapOption;
use firn_engine::Result;
use firn_engine::pace::{Brought, Pace};
use firn_format::blob::segment::Origin;
use firn_format::blob::{BlobSegmentHeader, Ordinals, SegmentNumber};
use firn_format::compression::Compressor;
use firn_format::file_name;
use firn_format::manifest::BlobSegmentMeta;
use firn_storage::Clock;
use firn_storage::file::blob::{BlobSegment, OpenBlobs};
use firn_storage::file::log::room::check_room;

use crate::counters::{BlobCounters, count};
use crate::error::from_storage;
use crate::files::Files;
use crate::settings::Settings;
use streamed::Unfinished;

pub(crate) use active::{Active, Places};
pub(crate) use gather::ValueCollector;
pub(crate) use map::{Birth, BlobMap, Home, Sealed};
pub(crate) use streamed::{Streamed, WholeBlob};

/// The blob segments of one open database.
///
/// Lock order: `sealing`, then the manifest, then `rolling` or `unfinished`, then the storage's own
/// locks.
#[derive(Debug)]
pub(crate) struct BlobStore {
    pub(crate) files: Arc<Files>,
    pub(crate) settings: Arc<Settings>,
    pub(crate) clock: Arc<dyn Clock>,
    database: u128,
    pub(crate) generation: u64,
    active: ArcSwapOption<Active>,
    /// Whether any keyspace separates values.
    are_wanted: AtomicBool,
    pub(crate) rolling: Mutex<Rolling>,
    /// Held while a file is created or removed.
    unfinished: Mutex<Unfinished>,
    pub(crate) counters: BlobCounters,
    /// What writers bring for what is written of it.
    pub(crate) brought: Brought,
    /// For writers, each of which takes one out.
    compressors: Mutex<Vec<Compressor>>,
    /// How fast writers may go, here by the space that values take.
    pub(crate) pace: Arc<Pace>,
    /// See [`refused_bytes`](Self::refused_bytes).
    refused_bytes: AtomicU64,
    /// Held while segments are sealed, until an edit says so.
    pub(crate) sealing: Mutex<()>,
}

#[derive(Debug)]
pub(crate) struct Rolling {
    /// The number of the next segment.
    pub(crate) next: SegmentNumber,
    /// Segments that no edit names, oldest first: the active one, and those before it that are not
    /// sealed.
    pub(crate) open: Vec<Arc<Active>>,
    /// What the newest version has, or more.
    pub(crate) map: Arc<BlobMap>,
    /// The newest segment begun.
    pub(crate) newest: Arc<Birth>,
}

/// As many segments there are at least before any is larger than [`SEGMENT_BYTES_MIN`].
const SEGMENTS_MIN: u64 = 128;

/// Smaller segments are only made where that is asked for: each costs a sync and an edit.
const SEGMENT_BYTES_MIN: u64 = 8 << 20;

/// Segments that are gone and kept for new ones: they take room that dead values could have.
const RECYCLED_MAX: u64 = 2;

/// How values begin their life in this process.
pub(crate) struct BlobStoreStart {
    pub(crate) files: Arc<Files>,
    pub(crate) settings: Arc<Settings>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) database: u128,
    pub(crate) generation: u64,
    /// What was found at opening.
    pub(crate) map: Arc<BlobMap>,
    /// Numbers from here on are new.
    pub(crate) next: SegmentNumber,
}

impl BlobStore {
    pub(crate) fn start(start: BlobStoreStart) -> Self {
        Self {
            files: start.files,
            settings: start.settings,
            clock: start.clock,
            database: start.database,
            generation: start.generation,
            active: ArcSwapOption::empty(),
            are_wanted: AtomicBool::new(false),
            rolling: Mutex::new(Rolling {
                next: start.next,
                open: Vec::new(),
                newest: Arc::clone(start.map.newest()),
                map: start.map,
            }),
            unfinished: Mutex::default(),
            counters: BlobCounters::default(),
            brought: Brought::default(),
            compressors: Mutex::default(),
            pace: Arc::default(),
            refused_bytes: AtomicU64::new(0),
            sealing: Mutex::default(),
        }
    }

    /// Whether any keyspace separates values.
    #[inline]
    pub(crate) fn are_wanted(&self) -> bool {
        // A write that comes while a keyspace is being made is in no keyspace that is.
        self.are_wanted.load(Ordering::Relaxed)
    }

    /// A keyspace separates values.
    pub(crate) fn want(&self) {
        self.are_wanted.store(true, Ordering::Relaxed);
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Rolling> {
        self.rolling.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Segments whose values may not be on the device, oldest first.
    pub(crate) fn unsynced(&self) -> Vec<Arc<Active>> {
        self.lock().open.clone()
    }

    /// Whether there is much that the device was not asked to write.
    pub(crate) fn is_write_back_due(&self) -> bool {
        self.lock().open.iter().any(|active| active.open.is_write_back_due())
    }

    /// Asks the device to begin writing what has come. Waits for it only where it has more to do
    /// than it takes requests for.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn begin_write_back(&self) -> firn_storage::Result<()> {
        self.unsynced().iter().try_for_each(|active| active.open.begin_write_back())
    }

    /// Brings records that wait for others to their files.
    pub(crate) fn hand_over(&self) -> firn_storage::Result<()> {
        self.unsynced().iter().try_for_each(|active| active.open.hand_over())
    }

    /// Makes every value that was written survive power loss. Blocks for a sync of each segment
    /// that was written to.
    ///
    /// # Errors
    /// A failed sync: what was not synced before is unknown for good.
    pub(crate) fn sync(&self) -> firn_storage::Result<()> {
        self.unsynced().iter().try_for_each(|active| {
            let is_synced_now = active.open.sync()?;
            count(&self.counters.sync_count, is_synced_now.into());
            Ok(())
        })
    }

    /// The segment that takes values now; begins another one if it is `full`, or if there is none.
    fn next_active(&self, full: Option<&Arc<Active>>) -> Result<Arc<Active>> {
        let mut rolling = self.lock();
        let active = self.active.load_full();
        if let Some(active) = active.filter(|active| full.is_none_or(|full| !Arc::ptr_eq(full, active))) {
            // Another writer has begun it.
            return Ok(active);
        }
        let header = self.written_header(rolling.next);
        let name = file_name::blob_segment(header.number);
        let bytes = self.segment_bytes(rolling.map.sealed_bytes());
        let has_room = check_room(&*self.files.storage, bytes);
        self.refused_bytes.store(if has_room.is_err() { bytes } else { 0 }, Ordering::Relaxed);
        has_room.map_err(from_storage)?;
        let open =
            OpenBlobs::create(&*self.files.storage, self.files.outputs.values(), &name, &header, bytes)
                .map_err(from_storage)?;
        let next = Arc::new(Active::new(open, bytes));
        self.pace.space.doubt();
        self.brought.fade();
        rolling.next = SegmentNumber(header.number.0 + 1);
        rolling.open.push(Arc::clone(&next));
        // Known to readers before the first frame can refer to it.
        rolling.newest = rolling.newest.follow(Some(Arc::clone(&next)));
        if let Some(full) = self.active.swap(Some(Arc::clone(&next))) {
            full.seal();
        }
        Ok(next)
    }

    /// What a segment that this process writes values to begins with.
    pub(crate) fn written_header(&self, number: SegmentNumber) -> BlobSegmentHeader {
        let (database, generation) = (self.database, self.generation);
        BlobSegmentHeader { database, number, origin: Origin::Written, generation }
    }

    /// Bytes of the segment that found no room on the disk; 0 = the last one found some.
    pub(crate) fn refused_bytes(&self) -> u64 {
        self.refused_bytes.load(Ordering::Relaxed)
    }

    /// Bytes at which a segment takes no more values, where `held` bytes are in others. What is
    /// being copied is held twice, and must be little beside the rest.
    pub(crate) fn segment_bytes(&self, held: u64) -> u64 {
        (held / SEGMENTS_MIN).max(SEGMENT_BYTES_MIN).min(self.settings.engine.blob_segment_bytes)
    }

    /// Segments have no more bytes, but for a record that reaches over the end and what follows
    /// records.
    pub(crate) fn segment_bytes_max(&self) -> u64 {
        self.settings.engine.blob_segment_bytes.max(1)
    }

    /// A segment that this process has just sealed, in which `dead` is what nothing refers to;
    /// `active` is the segment as it was while it took values.
    pub(crate) fn sealed(
        &self,
        (segment, active): (BlobSegment, Weak<Active>),
        meta: BlobSegmentMeta,
        dead: &Ordinals,
    ) -> Arc<Sealed> {
        let sealed = Sealed::new(segment, meta, dead, Arc::clone(&self.files.obsolete));
        sealed.may_leave_file_of(active);
        Arc::new(sealed)
    }

    /// Bytes of segments that are gone to keep for new ones: what a GC and writers
    /// meanwhile take.
    pub(crate) fn recycled_bytes_max(&self) -> u64 {
        RECYCLED_MAX * self.segment_bytes(self.map().sealed_bytes())
    }

    /// Bytes of segments that are kept for new ones.
    pub(crate) fn recycled_bytes(&self) -> u64 {
        self.files.outputs.values().bytes()
    }

    /// Identity of the database, which is in each segment.
    pub(crate) fn database(&self) -> u128 {
        self.database
    }

    /// A number for a segment that a GC makes.
    pub(crate) fn next_number(&self) -> SegmentNumber {
        let mut rolling = self.lock();
        let number = rolling.next;
        rolling.next = SegmentNumber(number.0 + 1);
        number
    }

    /// The number that the segment to be begun next has.
    pub(crate) fn peek_number(&self) -> SegmentNumber {
        self.lock().next
    }

    /// Every segment there is, those begun since the newest version included.
    pub(crate) fn map(&self) -> Arc<BlobMap> {
        let mut rolling = self.lock();
        let is_behind = !Arc::ptr_eq(rolling.map.newest(), &rolling.newest);
        if is_behind {
            let mut map = (*rolling.map).clone();
            map.catch_up();
            rolling.map = Arc::new(map);
        }
        Arc::clone(&rolling.map)
    }

    /// Changes the map for the next version, and the list of open segments too; returns that map. A
    /// segment that is not open any more is let go, with its file. Where no other one is begun
    /// after it, nothing else would let it go.
    pub(crate) fn change_map(
        &self,
        change: impl FnOnce(&mut BlobMap, &mut Vec<Arc<Active>>),
    ) -> Arc<BlobMap> {
        let mut rolling = self.lock();
        let mut map = (*rolling.map).clone();
        map.catch_up();
        change(&mut map, &mut rolling.open);
        if let Some(newest) = rolling.newest.active()
            && !rolling.open.iter().any(|active| Arc::ptr_eq(active, newest))
        {
            if self.active.load().as_ref().is_some_and(|active| Arc::ptr_eq(active, newest)) {
                self.active.store(None);
            }
            rolling.newest = rolling.newest.follow(None);
            map.catch_up();
        }
        rolling.map = Arc::new(map);
        Arc::clone(&rolling.map)
    }
}
