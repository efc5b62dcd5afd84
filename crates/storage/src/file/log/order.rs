//! The order of writes: reservation, roll to the next segment, published watermark.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use arc_swap::{ArcSwap, Guard};
use firn_format::Position;
use firn_format::key::GRANULE_BYTES;
use firn_format::log::SEGMENT_HEADER_BYTES;

use super::factory::SegmentFactory;
use super::group_commit::{GroupCommit, SPINS_MAX};
use super::recycled::RecycledSegments;
use super::room::check_room;
use super::segment::Segment;
use super::synced::Synced;
use crate::file::obsolete::ObsoleteFiles;
use crate::{Cause, Error, ErrorKind, Result, Storage, TakenOver};

/// The log of one open database.
///
/// Lock order: `roll` before `open` before `group`; none is held while a frame is copied.
#[derive(Debug)]
pub struct Log<C, R> {
    /// What its segments are made by.
    pub(super) factory: SegmentFactory,
    /// The segment that reservations are made in.
    active: ArcSwap<Segment<C>>,
    /// The oldest segment with unpublished frames.
    publishing: ArcSwap<Segment<C>>,
    /// Everything below is copied and indexed.
    pub(super) watermark: AtomicU64,
    /// Segments from the oldest that is not wholly written to the active one.
    open: Mutex<VecDeque<Arc<Segment<C>>>>,
    roll: Mutex<NextSegment>,
    pub(super) group: Mutex<GroupCommit<C>>,
    /// Everything below survives the process.
    pub(super) written: AtomicU64,
    /// What the device has.
    pub(super) synced: Synced<C>,
    poison: OnceLock<Cause>,
    /// The disk is nearly full: what is left is for removals, and for what makes room.
    is_for_removals: AtomicBool,
    /// What its records refer to.
    pub(super) referred: OnceLock<Arc<R>>,
    /// Bytes that were written to files of segments.
    pub written_bytes: AtomicU64,
}

/// What records of a log refer to, in files of its own. It is made durable before the records.
pub trait Referred {
    /// Hands to its files what waits in memory for more.
    ///
    /// # Errors
    /// `Full` where that may pass; after any other failure nothing is written any more.
    fn hand_over(&self) -> Result<()>;

    /// Makes all of it survive loss of power. Blocks for the device.
    ///
    /// # Errors
    /// A failed sync, after which nothing is written any more.
    fn sync(&self) -> Result<()>;
}

/// What the next roll needs; held by the thread that rolls.
#[derive(Debug)]
pub struct NextSegment {
    base: Position,
    /// Nothing is rolled any more.
    ended: bool,
}

impl NextSegment {
    /// Base of the segment the next roll makes.
    pub fn base(&self) -> Position {
        self.base
    }
}

/// How a log begins its life in this process.
pub struct LogStart<C> {
    /// Where its files lie.
    pub storage: Arc<dyn Storage>,
    /// Identity of the database.
    pub database: u128,
    /// Generation that its frames carry.
    pub generation: u64,
    /// Bytes of an ordinary segment.
    pub segment_bytes: u64,
    /// Arenas and files of dead segments to keep for new ones.
    pub recycled_max: usize,
    /// To which files go that nothing refers to.
    pub obsolete: Arc<ObsoleteFiles>,
    /// Base of the first segment: after every span the database ever used.
    pub base: Position,
    /// Where the recovered log ends.
    pub recovered_end: Position,
    /// Everything below is known to be on the device.
    pub durable_through: Position,
    /// Recovered segments, oldest first; perhaps not on the device yet.
    pub recovered: Vec<Arc<Segment<C>>>,
    /// Whether the first segment gets a file; nothing can be written without.
    pub writable: bool,
}

impl<C, R: Referred> Log<C, R> {
    /// A log whose first segment has `carried`; creates that segment's file.
    pub fn start(start: LogStart<C>, carried: C) -> Result<Self> {
        let factory = SegmentFactory {
            storage: start.storage,
            database: start.database,
            generation: start.generation,
            segment_bytes: start.segment_bytes,
            recycled: RecycledSegments::new(start.segment_bytes, start.recycled_max)?,
            obsolete: start.obsolete,
        };
        let capacity = factory.first_capacity();
        let is_for_removals = start.writable && check_room(&*factory.storage, capacity).is_err();
        // A full disk is opened too, so that something can be removed from it.
        let reserved = if is_for_removals { 0 } else { capacity };
        let blank = factory.blank(start.base, capacity, start.writable.then_some(reserved))?;
        let first = Arc::new(factory.begin(blank, start.recovered_end, carried)?);
        let position = first.position(0).0;
        Ok(Self {
            factory,
            active: ArcSwap::new(Arc::clone(&first)),
            publishing: ArcSwap::new(Arc::clone(&first)),
            watermark: AtomicU64::new(position),
            open: Mutex::new(VecDeque::from([Arc::clone(&first)])),
            roll: Mutex::new(NextSegment { base: first.span_end(), ended: false }),
            group: Mutex::new(GroupCommit::new(Arc::clone(&first))),
            written: AtomicU64::new(position),
            synced: Synced::new(start.durable_through, start.recovered, first),
            poison: OnceLock::new(),
            is_for_removals: AtomicBool::new(is_for_removals),
            referred: OnceLock::new(),
            written_bytes: AtomicU64::new(SEGMENT_HEADER_BYTES as u64),
        })
    }

    /// Records may refer to what is in `referred`, which is made durable with them.
    pub fn set_referred(&self, referred: &Arc<R>) {
        self.referred.get_or_init(|| Arc::clone(referred));
    }

    /// The segment that reservations are made in.
    pub fn active(&self) -> Guard<Arc<Segment<C>>> {
        self.active.load()
    }

    /// Base of the active segment, once no roll is under way.
    ///
    /// A roll stores its version before its segment is active. In between, that version may have a
    /// memtable empty or frozen whose records lie in the segment that is still active. This base
    /// is above them, for it waits until the roll is over. So no lock that comes after `roll` may
    /// be held.
    pub fn settled_base(&self) -> Position {
        let _no_roll = self.roll.lock().unwrap_or_else(PoisonError::into_inner);
        self.active.load().base()
    }

    /// The active segment, and no other becomes it as long as the guard lives. Waits for a roll in
    /// progress; see [`settled_base`](Self::settled_base).
    pub fn hold_active(&self) -> (MutexGuard<'_, NextSegment>, Arc<Segment<C>>) {
        let next = self.roll.lock().unwrap_or_else(PoisonError::into_inner);
        let active = self.active.load_full();
        (next, active)
    }

    /// Generation that its frames carry.
    pub fn generation(&self) -> u64 {
        self.factory.generation
    }

    /// What obsolete segments left.
    pub fn recycled(&self) -> &RecycledSegments {
        &self.factory.recycled
    }

    /// Everything below is copied and indexed: what readers see.
    #[inline]
    pub fn watermark(&self) -> Position {
        Position(self.watermark.load(Ordering::Acquire))
    }

    /// Base of the oldest segment that may hold frames still being copied or indexed.
    pub fn unpublished_from(&self) -> Position {
        self.publishing.load().base()
    }

    /// Moves the watermark over every frame that is published and returns it.
    ///
    /// A writer calls this after it has published its frame. Writers may publish out of order: the
    /// watermark stops before the first frame that is not published. The writer of that frame then
    /// moves it over all of them (see `firn_arena::Region::advance`).
    pub fn advance(&self) -> Result<Position> {
        loop {
            let segment = self.publishing.load();
            let end = segment.region().advance();
            let position = segment.position(end).0;
            let seen = self.watermark.fetch_max(position, Ordering::AcqRel).max(position);
            if segment.region().is_abandoned() {
                self.fail(&Error::bug("a writer died while its frame was being copied"));
                return Err(self.poisoned());
            }
            if segment.region().sealed_end() != Some(end) {
                return Ok(Position(seen));
            }
            let Some(next) = self.successor(segment.base()) else { return Ok(Position(seen)) };
            self.watermark.fetch_max(next.position(0).0, Ordering::AcqRel);
            self.publishing.compare_and_swap(&segment, next);
        }
    }

    /// The segment activated after the one at `base`, while the log still has it open.
    pub(super) fn successor(&self, base: Position) -> Option<Arc<Segment<C>>> {
        self.lock_open().iter().find(|segment| segment.base() > base).cloned()
    }

    pub(super) fn lock_open(&self) -> MutexGuard<'_, VecDeque<Arc<Segment<C>>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The right to roll; `None` if the active segment is no longer the one at `base`.
    ///
    /// # Errors
    /// `Closed` once the log has [ended](Self::end).
    pub fn lock_roll(&self, base: Position) -> Result<Option<MutexGuard<'_, NextSegment>>> {
        let next = self.roll.lock().unwrap_or_else(PoisonError::into_inner);
        if next.ended {
            return Err(Error::new(ErrorKind::Closed, "", "the database is closed"));
        }
        Ok((self.active.load().base() == base).then_some(next))
    }

    /// Takes no more reservations, waits until every one that was made is published, and returns
    /// the log's end.
    ///
    /// A write that was answered before has its frame below the end; a later one is refused.
    pub fn end(&self) -> Result<Position> {
        let end = {
            let mut next = self.roll.lock().unwrap_or_else(PoisonError::into_inner);
            next.ended = true;
            let active = self.active.load();
            active.position(active.region().seal())
        };
        self.wait_published(end)?;
        Ok(end)
    }

    /// Cuts the active segment's file at the log's `end`: what follows is from the file's earlier
    /// life, or was set aside for frames that will not come.
    pub fn cut_file(&self, end: Position) -> Result<()> {
        let active = self.active.load();
        let Some(file) = active.file() else { return Ok(()) };
        self.write_through(end)?;
        file.set_len(end.0.saturating_sub(active.base().0))
    }

    /// Returns when everything below `end` is published. `end` must have been reserved.
    pub fn wait_published(&self, end: Position) -> Result<()> {
        let mut spins = 0;
        while self.advance()? < end {
            self.check()?;
            spins += 1;
            if spins < SPINS_MAX { std::hint::spin_loop() } else { std::thread::yield_now() }
        }
        Ok(())
    }

    /// Seals the active segment and makes its successor of `capacity` bytes, not yet active.
    /// Creates the file, with room for the first `reserved` of them.
    ///
    /// # Errors
    /// `Full` when the disk is full, `Refused` for want of memory: the next call tries again.
    /// Unless its file has room the active segment goes on.
    pub fn prepare_next(
        &self,
        next: &mut NextSegment,
        (capacity, reserved): (u64, u64),
        carried: C,
    ) -> Result<Arc<Segment<C>>> {
        let active = self.active.load();
        // Before the seal, which stops writers: where the disk is full there may be room in the
        // active segment.
        let blank = self.factory.blank(next.base, capacity, Some(reserved))?;
        let end = active.region().seal();
        let segment = self.factory.begin(blank, active.position(end), carried)?;
        self.written_bytes.fetch_add(SEGMENT_HEADER_BYTES as u64, Ordering::Relaxed);
        next.base = segment.span_end();
        Ok(Arc::new(segment))
    }

    /// Bytes of the segment after the active one. Where that `overflows` or is half full there is
    /// twice as much to come, up to an ordinary segment. Where it ends for another reason, most of
    /// a large one would be set aside for nothing.
    pub fn next_capacity(&self, overflows: bool) -> u64 {
        let active = self.active.load();
        let capacity = active.header().capacity;
        let is_half_full = active.region().published() as u64 >= capacity / 2;
        match overflows || is_half_full {
            true => (capacity * 2).min(self.factory.segment_bytes),
            false => self.first_capacity(),
        }
    }

    /// Bytes of a segment where little is known to be written.
    pub fn first_capacity(&self) -> u64 {
        self.factory.first_capacity()
    }

    /// Bytes of frames that are published and not written to their files yet.
    pub fn unwritten_bytes(&self) -> u64 {
        let written = self.written.load(Ordering::Acquire);
        let unwritten = |segment: &Arc<Segment<C>>| {
            let end = segment.position(segment.region().published()).0;
            end.saturating_sub(written.max(segment.position(0).0))
        };
        self.lock_open().iter().map(unwritten).sum()
    }

    /// Whether only removals, and what makes room, may be written to the active segment: no other
    /// room is left on the disk.
    pub fn is_for_removals(&self) -> bool {
        self.is_for_removals.load(Ordering::Relaxed)
    }

    /// Makes `segment` the one that reservations are made in, of removals alone where it
    /// `is_for_removals`; versions must know it already.
    pub fn activate(&self, _roll: &mut NextSegment, segment: &Arc<Segment<C>>, is_for_removals: bool) {
        self.synced.add(segment);
        self.lock_open().push_back(Arc::clone(segment));
        // A hint: a writer that comes before it is seen has room in the segment.
        self.is_for_removals.store(is_for_removals, Ordering::Relaxed);
        let sealed = self.active.swap(Arc::clone(segment));
        sealed.trim();
    }

    /// Refuses writes from now on, for `error`; the first cause stays.
    pub fn fail<E: std::error::Error + Clone + Send + Sync + 'static>(&self, error: &E) {
        self.poison.get_or_init(|| Arc::new(error.clone()));
    }

    /// The first cause for which writes are refused.
    pub fn poison(&self) -> Option<&Cause> {
        self.poison.get()
    }

    /// `Closed` with the first cause once the log is poisoned.
    pub fn check(&self) -> Result<()> {
        match self.poison() {
            None => Ok(()),
            Some(_) => Err(self.poisoned()),
        }
    }

    /// What writers are told after [`fail`](Self::fail). Where the cause is another machine,
    /// another opening here is no remedy.
    pub fn poisoned(&self) -> Error {
        if let Some(sign) = self.poison.get().and_then(|cause| TakenOver::find(&**cause)) {
            return Error::taken_over(sign.clone());
        }
        let message = "writes are refused since an earlier failure; reopen the database";
        Error { source: self.poison.get().cloned(), ..Error::new(ErrorKind::Closed, "", message) }
    }
}

/// Bytes of a segment for one frame of `frame_bytes` bytes.
pub fn capacity_for(frame_bytes: usize) -> u64 {
    ((frame_bytes + SEGMENT_HEADER_BYTES) as u64).next_multiple_of(GRANULE_BYTES)
}
