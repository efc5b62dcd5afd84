//! The next segment. Freezing decides about indexes; no record moves.

use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, PoisonError};

use firn_engine::{ErrorKind, Result};
use firn_format::Position;
use firn_storage::file::log::{NextSegment, capacity_for};

use super::CommitPipeline;
use crate::error::from_storage;
use crate::log::{MemtableSet, Segment, SegmentMap};
use crate::version::{Frozen, Keyspace};

/// What [`CommitPipeline::roll`] came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rolled {
    /// Another segment is active now.
    Next,
    /// The buffer is full; the active segment stays as it is.
    Stopped,
}

/// Which memtables a roll freezes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Freeze {
    /// Memtables that reached `memtable_bytes`, and the oldest where the log is long.
    Full,
    /// All memtables that hold records.
    All,
    /// As `Full`, and the memtable of this keyspace; the roll happens however full the buffer is.
    Keyspace(u32),
    /// As `All`, and the next segment is as small as can be: no write is expected soon.
    AtRest,
    /// As `Full`; the roll happens however full the disk is, to a segment that takes a removal's
    /// frame of so many bytes.
    Removal(usize),
}

impl CommitPipeline {
    /// Replaces the active segment, which begins at `base`, by the next one.
    ///
    /// Returns at once with `Next` if another thread did. Creates a file; the first writer to
    /// overflow a segment does it for all.
    pub(crate) fn roll(&self, base: Position, freeze: Freeze) -> Result<Rolled> {
        let Some(mut next) = self.log.lock_roll(base).map_err(from_storage)? else { return Ok(Rolled::Next) };
        let is_for_writes = freeze == Freeze::Full;
        let least = self.log.first_capacity();
        let capacity = match freeze {
            Freeze::AtRest => least,
            Freeze::Removal(bytes) => least.max(capacity_for(bytes)),
            _ => self.log.next_capacity(is_for_writes),
        };
        let (capacity, has_disk) = match self.has_disk_or_recycled_for(capacity) {
            true => (capacity, true),
            false => (capacity.min(least), capacity > least && self.has_disk_for(least)),
        };
        let Some(freeze) =
            self.may_begin(self.settings.engine.log_segment_bytes, (capacity, has_disk), freeze)
        else {
            return Ok(Rolled::Stopped);
        };
        if is_for_writes {
            self.leave_room(capacity).inspect_err(|_| self.room.note_refused(capacity))?;
            self.room.note_refused(0);
        }
        // Where the disk is short, what makes room has to do with what is left.
        let reserved = if has_disk { capacity } else { 0 };
        let segment = self.begin_segment(&mut next, (capacity, reserved), freeze)?;
        self.log.activate(&mut next, &segment, !has_disk);
        drop(next);
        self.after_roll();
        Ok(Rolled::Next)
    }

    /// What a roll freezes whose segment takes `bytes` of memory, and `capacity` bytes of the disk
    /// if that has room; `None` if it must wait for a flush.
    ///
    /// Where the buffer is full of memtables alone, waiting would be for ever: a flush takes only
    /// what is frozen. So the roll happens then, one segment over the limit, and freezes all of
    /// them. Where many small memtables fill `buffer_bytes`, all are frozen before that: flushes
    /// and writers then work at the same time.
    pub(crate) fn may_begin(
        &self,
        bytes: u64,
        (capacity, has_disk): (u64, bool),
        freeze: Freeze,
    ) -> Option<Freeze> {
        if freeze != Freeze::Full || has_disk && self.has_memory_for(bytes) {
            self.admission.want(0);
            self.room.want(0);
            let is_over =
                freeze == Freeze::Full && self.buffer_bytes() + bytes > self.settings.engine.buffer_bytes;
            return Some(if is_over && !self.is_anything_to_flush() { Freeze::All } else { freeze });
        }
        let flushes = self.is_anything_to_flush();
        self.admission.want(if flushes { bytes } else { 0 });
        self.room.want(if flushes { capacity } else { 0 });
        if flushes { None } else { Some(Freeze::All) }
    }

    /// Whether flushes can make room.
    pub(crate) fn is_anything_to_flush(&self) -> bool {
        let version = self.catalog.version.load();
        version.live().any(|keyspace| !keyspace.frozen.is_empty() || !keyspace.runs.is_empty())
    }

    /// Ends the active segment and freezes every memtable that holds records, if there are any.
    pub(crate) fn freeze_all(&self) -> Result<()> {
        if self.catalog.version.load().live().all(|keyspace| keyspace.memtable.is_empty()) {
            return Ok(());
        }
        let base = self.log.active().base();
        self.roll(base, Freeze::All).map(|_| ())
    }

    /// As [`freeze_all`](Self::freeze_all), and answers a position below which no memtable holds a
    /// record or ever will.
    ///
    /// Waits for writers that still copy into segments below it.
    pub(crate) fn freeze_through(&self) -> Result<Position> {
        self.freeze_all()?;
        let through = self.log.settled_base();
        self.log.wait_published(through).map_err(from_storage)?;
        loop {
            let is_late = self.catalog.change_version(|version| {
                for slot in version.keyspaces.iter_mut().flatten() {
                    if slot.memtable.is_empty() && slot.memtable_start < through {
                        Arc::make_mut(slot).memtable_start = through;
                    }
                }
                version.live().any(|keyspace| keyspace.memtable_start < through)
            });
            if !is_late {
                return Ok(through);
            }
            // A memtable was written to after it was found empty, by a writer that still copied
            // then or that began since. Or another thread rolled first, and froze less.
            let base = self.log.active().base();
            self.roll(base, Freeze::All)?;
        }
    }

    /// Makes the next segment, of `capacity` bytes of which `reserved` are set aside on the disk,
    /// and the version that knows it. Decides which memtables are frozen.
    pub(crate) fn begin_segment(
        &self,
        next: &mut NextSegment,
        (capacity, reserved): (u64, u64),
        freeze: Freeze,
    ) -> Result<Arc<Segment>> {
        self.give_way(capacity);
        let mut segment = self.install_segment(next, (capacity, reserved), freeze);
        if segment.as_ref().is_err_and(|error| error.kind() == ErrorKind::Retry)
            && self.files.remove_recycled_tables()
        {
            // Their blocks may be what was wanted.
            segment = self.install_segment(next, (capacity, reserved), freeze);
        }
        self.arena_is_there();
        segment
    }

    fn install_segment(
        &self,
        next: &mut NextSegment,
        (capacity, reserved): (u64, u64),
        freeze: Freeze,
    ) -> Result<Arc<Segment>> {
        let _changing = self.catalog.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut version = (**self.catalog.version.load()).clone();
        // Read before any memtable is found empty: what lies below is indexed by then.
        let unpublished_from = self.log.unpublished_from();
        // What begins below holds more of the log than it may.
        let held_from = self.log_may_be_held_from(&version, capacity);
        let mut memtables = MemtableSet::default();
        for slot in version.keyspaces.iter_mut().flatten() {
            if slot.memtable.is_empty() {
                // Only writers still copying into segments from here on can yet add to it.
                let start = slot.memtable_start.max(unpublished_from);
                Arc::make_mut(slot).memtable_start = start;
            } else {
                let old = slot.memtable_start < held_from;
                let full = slot.memtable.record_bytes() as u64 >= self.settings.engine.memtable_bytes / 2;
                let asked =
                    matches!(freeze, Freeze::All | Freeze::AtRest) || freeze == Freeze::Keyspace(slot.id());
                if asked || old || full {
                    *slot = Arc::new(frozen(slot, next.base()));
                }
            }
            memtables.insert(slot.id(), Arc::clone(&slot.memtable));
        }
        let segment = self.log.prepare_next(next, (capacity, reserved), memtables).map_err(from_storage)?;
        let mut segments = version.segments.segments().to_vec();
        segments.push(Arc::clone(&segment));
        version.segments = Arc::new(SegmentMap::new(segments));
        self.catalog.version.store(Arc::new(version));
        // A scan that learns a gap finds the new memtables, or their writers find the gap (see
        // `memtable/gaps.rs`).
        fence(Ordering::SeqCst);
        // What the buffer grows by from here on is taken from recycled arenas: both stay within its
        // bound together.
        self.log
            .recycled()
            .trim_arenas(self.settings.engine.buffer_bytes_max.saturating_sub(self.buffer_bytes()));
        Ok(segment)
    }

    pub(crate) fn after_roll(&self) {
        self.log.leave_written();
        self.pace_by_debt();
        self.keep_room();
        self.wake.wake();
    }
}

/// The keyspace with a new memtable, the old one frozen at `end`.
fn frozen(keyspace: &Keyspace, end: Position) -> Keyspace {
    let mut next = keyspace.clone();
    next.memtable = Arc::new(keyspace.memtable.successor());
    next.frozen
        .insert(0, Frozen { memtable: Arc::clone(&keyspace.memtable), span: keyspace.memtable_start..end });
    next.memtable_start = end;
    next
}
