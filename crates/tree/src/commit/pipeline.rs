//! The path of a write, from operations to an acknowledgement.
//!
//! # What it does
//! A write becomes one frame of the log. The frame's bytes are the records: nothing copies them
//! again until a flush. So a write has three steps. Its bytes are copied to a place in the log's
//! arena. Its keys are indexed in memtables, which point there. The watermark passes the frame:
//! readers see it.
//!
//! # Why that is not simple
//! Many threads write at once, and none of them holds a lock while it copies or indexes. Frames
//! are reserved in order, but copied and published in any order. Then:
//!
//! - A reader must not see a frame before all frames that were reserved earlier: a replay of the
//!   log could end between them. So readers do not go by frames but by the *watermark*, and that
//!   passes published frames only, in order.
//! - An update must know that nothing came between its read and its frame. Its frame has its place
//!   first; then it waits until all below is published, and looks at the key again.
//! - A segment may fill, the buffer and the disk too. The writer whose frame does not fit begins
//!   the next segment for all.
//!
//! # Invariants
//! 1. *A frame is whole or absent.* Its first word is written last ([`Reservation::publish`]).
//! 2. *What readers see is indexed.* A frame is published after its records are in memtables.
//! 3. *Log order is the order of writes.* The sequence of a record is its position / 8, and the
//!    watermark passes frames in the order of their positions.
//! 4. *A reserved place is published*, as a frame or void; else the watermark would stay below it
//!    for ever. A writer that dies in between poisons the log.
//! 5. *Blobs come before references.* Their bytes survive the process before the frame that refers
//!    to them is published, and the device before that frame is durable.
//! 6. *Nothing is acknowledged that could be lost* by what its durability names.
//!
//! # The path
//! ```text
//!   commit(ops)
//!     validate        limits, keyspaces, operators: refused before anything is written
//!     admit           the pace of this moment: sleep                       (firn_engine::pace)
//!     separate        large values go to a blob segment; references stand for them
//!     append          until there is room:
//!       reserve         a range of the arena, by one atomic addition
//!                       no room: begin_next segment, or wait_to_retry      (commit/next_segment.rs)
//!       fill            copy the records, outside of any lock
//!                       an update: is the key unchanged? a transaction: is
//!                       what it read unwritten? else the frame is void
//!       publish         index the records, first word, watermark
//!     make_durable    the kernel, the device or shared storage has it; one write or sync serves
//!                     all threads that wait
//! ```
//! A session that must not block calls the steps one by one: it does not sleep or wait, but answers
//! later (`session/line.rs`).
//!
//! # What was tried
//! One write to the file for each frame took two thirds of the time of writers at 1 KiB. Frames
//! wait in the storage's write combiner now, which survives the process (decision 0003).

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use firn_arena::Reservation;
use firn_engine::pace::{Pace, StallForecast};
use firn_engine::queue::Admission;
use firn_engine::{
    Durability, Error, ErrorKind, LockTable, OrderedOp, OrderedOpKind, OrderedReadSet, Result,
    check_value_bytes, conflict,
};
use firn_format::key::{Trailer, key_hash};
use firn_format::log::{FrameKind, FrameWriter, Record, frame_bytes, record_bytes};
use firn_format::{Kind, Position};
use firn_maintenance::Wake;
use firn_storage::Clock;

use super::env::CommitEnv;
use super::frame::{Blobs, Condition, Frame, Item, removes};
use super::next_segment::LargeSegment;
use super::roll::Rolled;
use super::room::Room;
use crate::blobs::{BlobStore, Places, WholeBlob};
use crate::error::from_storage;
use crate::files::Files;
use crate::log::{Log, Segment};
use crate::reads::Reads;
use crate::settings::Settings;
use crate::version::catalog::Catalog;

/// What every write passes through. Shared by all threads; nothing here is locked while a frame is
/// copied or indexed.
#[derive(Debug)]
pub(crate) struct CommitPipeline {
    pub(crate) log: Log,
    pub(crate) admission: Admission,
    /// How fast writers may go.
    pub(crate) pace: Arc<Pace>,
    /// What writers want of the disk, and what they were refused.
    pub(crate) room: Room,
    /// When writers will stop.
    pub(crate) forecast: StallForecast,
    /// Locks that updates of one key take in turn. Not those of sessions: a session may update what
    /// it has locked.
    pub(crate) update_locks: Arc<LockTable>,
    pub(super) settings: Arc<Settings>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) files: Arc<Files>,
    pub(super) catalog: Arc<Catalog>,
    pub(super) blobs: Arc<BlobStore>,
    pub(super) reads: Arc<Reads>,
    /// Wakes background work.
    pub(super) wake: Wake,
    /// Bytes of keys and values. Sessions add theirs now and then.
    pub(crate) user_write_bytes: AtomicU64,
}

/// What a pipeline shares with the database around it.
pub(crate) struct Shares {
    pub(crate) settings: Arc<Settings>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) files: Arc<Files>,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) blobs: Arc<BlobStore>,
    pub(crate) reads: Arc<Reads>,
    pub(crate) wake: Wake,
}

/// What [`CommitPipeline::append`] came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Appended {
    /// The frame is published; its end is the position to acknowledge.
    At(Position),
    /// The buffer is full: wait for a flush and try again. Nothing was written.
    Stopped,
    /// The key that the frame depends on has changed since; the frame is void.
    Raced,
}

impl CommitPipeline {
    /// A pipeline into `log`.
    pub(crate) fn new(log: Log, shares: Shares) -> Self {
        let Shares { settings, clock, files, catalog, blobs, reads, wake } = shares;
        Self {
            log,
            admission: Admission::default(),
            pace: Arc::clone(&blobs.pace),
            room: Room::default(),
            forecast: StallForecast::default(),
            update_locks: LockTable::new(),
            settings,
            clock,
            files,
            catalog,
            blobs,
            reads,
            wake,
            user_write_bytes: AtomicU64::new(0),
        }
    }

    /// Writes `ops`, of `bytes` bytes, as one frame. Returns its end once that has `durability`.
    ///
    /// Blocks for its pace, for room, and for durability.
    ///
    /// # Errors
    /// `Invalid` for what can never be written; `Retry` where no room can be made, and nothing was
    /// written; `NotDurable` where it was written and may be durable later; `Closed`.
    pub(crate) fn commit<'o>(
        &self,
        env: &impl CommitEnv,
        ops: impl Iterator<Item = OrderedOp<'o>> + Clone,
        bytes: usize,
        durability: Durability,
    ) -> Result<Position> {
        self.validate(ops.clone())?;
        self.keep_pace(env, bytes);
        let end = loop {
            let appended = match self.blobs.are_wanted() {
                false => self.append(env, Frame::of(ops.clone().map(Item::from)))?,
                true => self.append_ops(env, ops.clone(), None)?,
            };
            match appended {
                Appended::At(end) => break end,
                Appended::Stopped | Appended::Raced => env.wait_to_retry()?,
            }
        };
        self.make_durable(env, end, durability)?;
        Ok(end)
    }

    /// Writes `ops`, of `bytes` bytes, as one frame if nothing of `reads` was written since they
    /// were read. Returns its end, which has no durability yet.
    ///
    /// Blocks for its pace and for room, and reads what may have been written meanwhile.
    ///
    /// # Errors
    /// `Conflict` if something was written, and nothing of `ops` is then; else as
    /// [`commit`](Self::commit).
    pub(crate) fn write_if<'o>(
        &self,
        env: &impl CommitEnv,
        ops: impl Iterator<Item = OrderedOp<'o>> + Clone,
        bytes: usize,
        reads: &OrderedReadSet,
    ) -> Result<Position> {
        self.validate(ops.clone())?;
        self.keep_pace(env, bytes);
        let mut since = reads.keys().position();
        loop {
            // What was written until now is looked at while no other write waits for this one.
            let now = self.read_position(&self.catalog.version.load());
            if !env.holds(&Condition::Unwritten { reads, since }, now)? {
                return Err(conflict());
            }
            since = since.max(now);
            match self.append_ops(env, ops.clone(), Some(Condition::Unwritten { reads, since }))? {
                Appended::At(end) => return Ok(end),
                Appended::Raced => return Err(conflict()),
                Appended::Stopped => env.wait_to_retry()?,
            }
        }
    }

    /// Waits until a write of `bytes` is due.
    #[inline]
    fn keep_pace(&self, env: &impl CommitEnv, bytes: usize) {
        if self.is_paced() {
            let delay = self.admit(env, bytes as u64);
            if !delay.is_zero() {
                self.clock.sleep(delay);
            }
        }
    }

    /// Refuses what can never be written: limits, unknown keyspaces, merges without an operator.
    pub(crate) fn validate<'o>(&self, ops: impl Iterator<Item = OrderedOp<'o>>) -> Result<()> {
        let version = self.catalog.version.load();
        let mut bytes = 0_u64;
        for op in ops {
            let keyspace = version.keyspace(op.keyspace.0)?;
            let long =
                op.key.len().max(if op.kind == OrderedOpKind::DeleteRange { op.value.len() } else { 0 });
            if long > self.settings.key_bytes_max {
                let max = self.settings.key_bytes_max;
                return Err(Error::invalid(format!(
                    "a key of {long} bytes is longer than key_bytes_max = {max}"
                )));
            }
            if op.kind != OrderedOpKind::DeleteRange {
                self.check_value_bytes(op.value.len() as u64)?;
            }
            if op.kind == OrderedOpKind::Merge && keyspace.definition.merge_operator.is_none() {
                let name = &keyspace.definition.name;
                return Err(Error::invalid(format!(
                    "keyspace {name:?} has no merge operator: create it with one"
                )));
            }
            if op.kind == OrderedOpKind::DeleteRange && op.key >= op.value {
                return Err(Error::invalid("a range to delete must end after it starts"));
            }
            bytes += record_bytes(op.key.len(), op.value.len(), op.expires_at_ms != 0) as u64;
        }
        match bytes {
            0 => Err(Error::invalid("the batch is empty")),
            1..=BATCH_BYTES_MAX => Ok(()),
            _ => Err(Error::invalid(format!(
                "a batch of {bytes} bytes is longer than 4 GiB less one log frame"
            ))),
        }
    }

    /// Refuses a value that is too long.
    pub(crate) fn check_value_bytes(&self, bytes: u64) -> Result<()> {
        check_value_bytes(bytes, self.value_bytes_max())
    }

    /// How long a value may be.
    pub(crate) fn value_bytes_max(&self) -> u64 {
        self.settings.value_bytes_max
    }

    /// When a write of `bytes` is due: the delay its acknowledgement must wait, zero when writers
    /// are not slowed.
    #[inline]
    pub(crate) fn admit(&self, env: &impl CommitEnv, bytes: u64) -> Duration {
        if self.is_paced() { self.admit_paced(env, bytes) } else { Duration::ZERO }
    }

    /// Whether writers have a pace.
    #[inline]
    fn is_paced(&self) -> bool {
        self.pace.is_on()
    }

    #[cold]
    fn admit_paced(&self, env: &impl CommitEnv, bytes: u64) -> Duration {
        let now = self.clock.now();
        if self.pace.room.is_to_look(now) {
            self.pace_by_debt();
        }
        if self.pace.space.is_to_look(now) {
            env.renew_space_pace();
        }
        self.pace.delay(bytes, now)
    }

    /// Appends `ops` as one frame, after their large values; `Raced` if the condition does not
    /// hold.
    pub(crate) fn append_ops<'o>(
        &self,
        env: &impl CommitEnv,
        ops: impl Iterator<Item = OrderedOp<'o>> + Clone,
        condition: Option<Condition<'_>>,
    ) -> Result<Appended> {
        if !self.blobs.are_wanted() {
            return self.append(env, Frame { condition, ..Frame::of(ops.map(Item::from)) });
        }
        // Each try would write the values again, and those of the try before would be dead.
        if self.is_stopped() {
            return Ok(Appended::Stopped);
        }
        let Some(separated) = self.blobs.separate(&self.catalog, &self.settings, ops.clone())? else {
            return self.append(env, Frame { condition, ..Frame::of(ops.map(Item::from)) });
        };
        let items: Vec<Item<'_>> =
            ops.enumerate().map(|(index, op)| separated.references.item(index, op)).collect();
        let blobs = Blobs::Written(separated.places);
        self.append(env, Frame { blobs, condition, ..Frame::of(items.iter().copied()) })
    }

    /// Writes one frame, visible to readers once the watermark has passed it.
    ///
    /// Copies every byte once, into the arena; holds no lock across the copy. May create a
    /// segment's file. A frame beyond a quarter of a segment gets a segment of its own.
    pub(crate) fn append<'o>(
        &self,
        env: &impl CommitEnv,
        frame: Frame<'_, '_, impl Iterator<Item = Item<'o>> + Clone>,
    ) -> Result<Appended> {
        let bytes = frame_bytes(frame.items.clone().map(|item| item.bytes()).sum());
        if bytes > self.settings.engine.frame_bytes_max() {
            return self.append_large(env, bytes, frame);
        }
        loop {
            self.log.check().map_err(from_storage)?;
            let active = self.log.active();
            // Where the disk is full, only frames that remove more than they bring are written.
            let may_fit = match self.log.is_for_removals() {
                false => true,
                true if !removes(frame.items.clone()) => false,
                true if self.may_remove(env, active.base(), bytes)? => true,
                true => return Ok(Appended::Stopped),
            };
            if may_fit && let Ok(reservation) = active.region().reserve(bytes) {
                return self.fill(env, &active, reservation, frame);
            }
            let base = active.base();
            drop(active);
            let removes = || removes(frame.items.clone());
            if self.begin_next(base, bytes, removes)? == Rolled::Stopped {
                return Ok(Appended::Stopped);
            }
        }
    }

    /// As [`append`](Self::append), to a segment that has this frame alone. The buffer is within
    /// its limit before it comes, so that such frames take memory one at a time.
    fn append_large<'o>(
        &self,
        env: &impl CommitEnv,
        bytes: usize,
        frame: Frame<'_, '_, impl Iterator<Item = Item<'o>> + Clone>,
    ) -> Result<Appended> {
        let removes = removes(frame.items.clone());
        let Some(LargeSegment { segment, mut roll }) = self.begin_large(env, bytes, removes)? else {
            return Ok(Appended::Stopped);
        };
        // Reserved before any other thread can see the segment, and sealed so that none adds to it.
        let reservation = segment
            .region()
            .reserve(bytes)
            .map_err(|_| Error::bug("a segment made for one frame cannot hold it"))?;
        segment.region().seal();
        self.log.activate(&mut roll, &segment, removes);
        drop(roll);
        self.after_roll();
        self.fill(env, &segment, reservation, frame)
    }

    /// Copies the records of `frame` into its reserved place, and publishes it.
    fn fill<'o>(
        &self,
        env: &impl CommitEnv,
        segment: &Segment,
        mut reservation: Reservation<'_>,
        frame: Frame<'_, '_, impl Iterator<Item = Item<'o>> + Clone>,
    ) -> Result<Appended> {
        let Frame { items, blobs, condition } = frame;
        if let Some(item) = items.clone().find(|item| segment.carried().get(item.keyspace.0).is_none()) {
            // The keyspace was dropped (or is being created) since the batch was checked.
            self.publish_void(segment, reservation)?;
            return Err(Error::invalid(format!("there is no {}", item.keyspace)));
        }
        let places = match blobs {
            Blobs::Written(places) => places,
            Blobs::Whole(whole) => match whole.take().ok_or_else(taken).and_then(WholeBlob::join) {
                Ok(places) => places,
                Err(error) => {
                    self.publish_void(segment, reservation)?;
                    return Err(error);
                }
            },
        };
        let start = segment.position(reservation.offset());
        let mut writer = FrameWriter::new(reservation.bytes_mut());
        let (mut first, mut crosses) = (None, false);
        for Item { keyspace, kind, key, value, expires_at_ms } in items.clone() {
            crosses |= *first.get_or_insert(keyspace) != keyspace;
            writer.put(&Record { keyspace: keyspace.0, kind, expires_at_ms, key, value });
        }
        if crosses {
            env.crosses(start);
        }
        let first_word =
            writer.finish(self.log.durable_through(), FrameKind::Batch, start, self.log.generation());
        if let Some(condition) = condition {
            // With more writers than processors the writer that all others wait for must get its
            // turn: the wait yields.
            let published = self.log.wait_published(start).map_err(from_storage);
            let holds = published.and_then(|()| env.holds(&condition, start));
            if !matches!(holds, Ok(true)) {
                self.publish_void(segment, reservation)?;
                return holds.map(|_| Appended::Raced);
            }
        }
        self.publish(segment, reservation, first_word, places, items)
    }

    /// Indexes the records of a copied frame and publishes it; its end is the position to
    /// acknowledge.
    fn publish<'o>(
        &self,
        segment: &Segment,
        mut reservation: Reservation<'_>,
        first_word: u64,
        places: Places,
        items: impl Iterator<Item = Item<'o>>,
    ) -> Result<Appended> {
        let start = segment.position(reservation.offset());
        let end = Position(start.0 + reservation.bytes_mut().len() as u64 + 8);
        let mut position = Position(start.0 + firn_format::log::FRAME_HEADER_BYTES as u64);
        for item in items {
            let memtable = segment
                .carried()
                .get(item.keyspace.0)
                .ok_or_else(|| Error::bug("a record without a memtable"))?;
            let sequence = position.sequence();
            let bytes = item.bytes();
            memtable.charge(bytes);
            match item.kind {
                Kind::DeleteRange => memtable.insert_range_delete(item.key, item.value, sequence),
                kind => {
                    let hash = (key_hash(item.key) >> 32) as u32;
                    memtable.insert(hash, item.key, Trailer::new(sequence, kind));
                }
            }
            position = Position(position.0 + bytes as u64);
        }
        reservation.publish(first_word);
        places.published(end);
        self.log.advance().map_err(from_storage)?;
        Ok(Appended::At(end))
    }

    /// Publishes a frame without records in a reserved place.
    pub(crate) fn publish_void(&self, segment: &Segment, mut reservation: Reservation<'_>) -> Result<()> {
        let start = segment.position(reservation.offset());
        let writer = FrameWriter::new(reservation.bytes_mut());
        let first_word =
            writer.finish(self.log.durable_through(), FrameKind::Void, start, self.log.generation());
        reservation.publish(first_word);
        self.log.advance().map(|_| ()).map_err(from_storage)
    }

    /// Blocks until everything below `end`, which is published, has `durability`.
    ///
    /// # Errors
    /// `NotDurable` where it may have it later; what the log's failure says.
    pub(crate) fn make_durable(
        &self,
        env: &impl CommitEnv,
        end: Position,
        durability: Durability,
    ) -> Result<()> {
        let made = match durability {
            Durability::Disk => self.log.sync_through(end).map_err(from_storage),
            Durability::Shared => env.put_on_shared_storage(end),
            _ => self.log.write_through(end).map_err(from_storage),
        };
        made.map_err(|error| match error.kind() {
            ErrorKind::Retry => {
                let message = format!(
                    "the write is done, but it is not `{}` yet, as it will be once a later write with that durability succeeds; do not repeat it",
                    durability.name()
                );
                Error::new(ErrorKind::NotDurable, message).because(error)
            }
            _ => error,
        })
    }
}

/// A whole value was joined by an earlier frame.
fn taken() -> Error {
    Error::bug("a streamed value is written twice")
}

/// Bytes of records one frame can hold.
const BATCH_BYTES_MAX: u64 = u32::MAX as u64 - (1 << 20);

#[cfg(test)]
mod tests;
