//! One frame: reserve, copy, index, publish.

use std::ops::Range;

use firn_engine::{Error, ErrorKind, KeyspaceId, OrderedOp, OrderedOpKind, Result};
use firn_format::key::{Trailer, key_hash};
use firn_format::log::{FrameKind, FrameWriter, Record, frame_bytes, record_bytes};
use firn_format::{Kind, Position};
use firn_pmem::Reservation;

use crate::database::Database;
use crate::log::{Segment, capacity_for};
use crate::values::Places;
use crate::write::roll::{Freeze, Rolled};

/// A record to be: an operation, its value perhaps replaced by a reference to where the value lies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item<'o> {
    pub(crate) keyspace: KeyspaceId,
    pub(crate) kind: Kind,
    pub(crate) key: &'o [u8],
    pub(crate) value: &'o [u8],
    pub(crate) expires_at_ms: u64,
}

impl<'o> From<OrderedOp<'o>> for Item<'o> {
    fn from(op: OrderedOp<'o>) -> Self {
        let OrderedOp { keyspace, kind, key, value, expires_at_ms } = op;
        Self { keyspace, kind: kind_of(kind), key, value, expires_at_ms }
    }
}

impl Item<'_> {
    /// Bytes of its record.
    pub(crate) fn bytes(&self) -> usize {
        record_bytes(self.key.len(), self.value.len(), self.expires_at_ms != 0)
    }
}

/// A frame that is copied into the log but not yet indexed or published.
pub(crate) struct Unpublished<'s> {
    segment: &'s Segment,
    reservation: Reservation<'s>,
    first_word: u64,
    /// From the frame's first byte to the byte after it.
    pub(crate) span: Range<Position>,
    /// Of the values that it refers to.
    places: Places,
}

/// What [`Database::try_append`] came to.
pub(crate) enum Appended {
    /// The frame is published; its end is the position to acknowledge.
    At(Position),
    /// The buffer is full: wait for a drain and try again. Nothing was written.
    Stopped,
}

pub(crate) fn kind_of(kind: OrderedOpKind) -> Kind {
    match kind {
        OrderedOpKind::Put => Kind::Put,
        OrderedOpKind::Delete => Kind::Delete,
        OrderedOpKind::Merge => Kind::Merge,
        OrderedOpKind::DeleteRange => Kind::DeleteRange,
    }
}

fn op_bytes(op: &OrderedOp<'_>) -> usize {
    record_bytes(op.key.len(), op.value.len(), op.expires_at_ms != 0)
}

impl Database {
    /// Refuses what can never be written: limits, unknown keyspaces, merges without an operator.
    pub(crate) fn validate<'o>(&self, ops: impl Iterator<Item = OrderedOp<'o>>) -> Result<()> {
        let settings = &self.settings;
        let version = self.catalog.version.load();
        let mut bytes = 0_u64;
        for op in ops {
            let keyspace = version.keyspace(op.keyspace.0)?;
            let long =
                op.key.len().max(if op.kind == OrderedOpKind::DeleteRange { op.value.len() } else { 0 });
            if long > settings.key_bytes_max {
                let max = settings.key_bytes_max;
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
            bytes += op_bytes(&op) as u64;
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
        let max = self.settings.value_bytes_max;
        if bytes <= max {
            return Ok(());
        }
        Err(Error::invalid(format!("a value of {bytes} bytes is longer than value_bytes_max = {max}")))
    }

    /// Writes `ops` as one frame, visible to readers once the watermark has passed it.
    ///
    /// Copies every byte once, into the arena; holds no lock across the copy. May create a
    /// segment's file.
    pub(crate) fn try_append<'o>(
        &self,
        ops: impl Iterator<Item = OrderedOp<'o>> + Clone,
    ) -> Result<Appended> {
        // Each try would write the values again, and those of the try before would be dead.
        if self.values.are_wanted() && self.is_stopped() {
            return Ok(Appended::Stopped);
        }
        let Some(separated) = self.separate(ops.clone())? else {
            return self.try_append_items(ops.map(Item::from), Places::default());
        };
        let items: Vec<Item<'_>> =
            ops.enumerate().map(|(index, op)| separated.references.item(index, op)).collect();
        self.try_append_items(items.iter().copied(), separated.places)
    }

    fn try_append_items<'o>(
        &self,
        items: impl Iterator<Item = Item<'o>> + Clone,
        places: Places,
    ) -> Result<Appended> {
        let frame = frame_bytes(items.clone().map(|item| item.bytes()).sum());
        let removes = || removes(items.clone());
        let filled = self.with_reservation_for(removes, frame, |segment, reservation| {
            self.fill(segment, reservation, items.clone(), places)
        })?;
        filled.map_or(Ok(Appended::Stopped), |end| end.map(Appended::At))
    }

    /// Reserves a place for a frame of `bytes` and lets `write` fill and publish it; `None` if the
    /// buffer is full.
    ///
    /// A frame beyond a quarter of a segment gets a segment of its own. The buffer is within its
    /// limit before it comes, so that such frames take memory one at a time.
    pub(crate) fn with_reservation<T>(
        &self,
        bytes: usize,
        write: impl FnOnce(&Segment, Reservation<'_>) -> T,
    ) -> Result<Option<T>> {
        self.with_reservation_for(|| false, bytes, write)
    }

    /// As [`with_reservation`](Self::with_reservation), for a frame that `removes` more than it
    /// brings, or not: where the disk is full only frames that do are written.
    fn with_reservation_for<T>(
        &self,
        removes: impl Fn() -> bool,
        bytes: usize,
        write: impl FnOnce(&Segment, Reservation<'_>) -> T,
    ) -> Result<Option<T>> {
        if bytes > self.settings.frame_bytes_max() {
            return self.with_large_reservation(removes(), bytes, write);
        }
        loop {
            self.commit.log.check()?;
            let active = self.commit.log.active();
            let is_for_removals = self.commit.log.is_for_removals();
            let is_for_it = !is_for_removals || removes();
            if is_for_removals && is_for_it && !self.may_remove(active.base(), bytes as u64)? {
                return Ok(None);
            }
            if is_for_it && let Ok(reservation) = active.region().reserve(bytes) {
                return Ok(Some(write(&active, reservation)));
            }
            let base = active.base();
            drop(active);
            let rolled = match self.roll(base, Freeze::Full) {
                Err(error) if error.kind() == ErrorKind::Retry && removes() => {
                    self.roll(base, Freeze::Removal(bytes))?
                }
                // Frames that remove nothing wait until the buffer is written out, and leave the
                // room for that.
                Ok(Rolled::Stopped) if self.has_memory_for(self.settings.segment_bytes) && removes() => {
                    self.roll(base, Freeze::Removal(bytes))?
                }
                rolled => rolled?,
            };
            if rolled == Rolled::Stopped {
                return Ok(None);
            }
        }
    }

    fn with_large_reservation<T>(
        &self,
        removes: bool,
        bytes: usize,
        write: impl FnOnce(&Segment, Reservation<'_>) -> T,
    ) -> Result<Option<T>> {
        let (segment, mut next) = loop {
            self.commit.log.check()?;
            let base = self.commit.log.active().base();
            if self.must_write_out(base)? || removes && !self.may_remove(base, bytes as u64)? {
                return Ok(None);
            }
            let Some(mut next) = self.commit.log.lock_roll(base)? else { continue };
            let capacity = capacity_for(bytes);
            let wanted = if removes { 0 } else { capacity };
            let has_disk = self.has_disk_or_spares_for(wanted);
            let may_begin = self.may_begin(bytes as u64, (wanted, has_disk), Freeze::Full);
            let Some(freeze) = may_begin else { return Ok(None) };
            if !removes {
                self.leave_room(capacity).inspect_err(|_| self.note_refused(capacity))?;
                self.note_refused(0);
            }
            let reserved = if has_disk { capacity } else { 0 };
            break (self.begin_segment(&mut next, (capacity, reserved), freeze)?, next);
        };
        // Reserved before any other thread can see the segment, and sealed so that none adds to it.
        let reservation = segment
            .region()
            .reserve(bytes)
            .map_err(|_| Error::bug("a segment made for one frame cannot hold it"))?;
        segment.region().seal();
        self.commit.log.activate(&mut next, &segment, removes);
        drop(next);
        self.after_roll();
        Ok(Some(write(&segment, reservation)))
    }

    /// Whether a frame that gets a segment of its own waits until the buffer has been written out;
    /// what it holds is frozen then.
    ///
    /// Such a frame may be longer than the buffer's limit. Two of them at once would exceed it
    /// twice, and so on.
    fn must_write_out(&self, base: Position) -> Result<bool> {
        if self.buffer_bytes() <= self.settings.buffer_bytes_max {
            return Ok(false);
        }
        if self.is_anything_to_drain() {
            return Ok(true);
        }
        let is_empty = self.catalog.version.load().live().all(|keyspace| keyspace.memtable.is_empty());
        if !is_empty {
            self.roll(base, Freeze::All)?;
        }
        Ok(!is_empty)
    }

    pub(crate) fn fill<'o>(
        &self,
        segment: &Segment,
        reservation: Reservation<'_>,
        items: impl Iterator<Item = Item<'o>> + Clone,
        places: Places,
    ) -> Result<Position> {
        if let Some(item) = items.clone().find(|item| segment.memtables().get(item.keyspace.0).is_none()) {
            // The keyspace was dropped (or is being created) since the batch was checked.
            self.publish_void(segment, reservation)?;
            return Err(Error::invalid(format!("there is no {}", item.keyspace)));
        }
        let unpublished = self.copy(segment, reservation, items.clone(), places);
        self.publish(unpublished, items)
    }

    /// Copies `items`, which refer to the values at `places`, into the reserved place.
    pub(crate) fn copy<'s, 'o>(
        &self,
        segment: &'s Segment,
        mut reservation: Reservation<'s>,
        items: impl Iterator<Item = Item<'o>>,
        places: Places,
    ) -> Unpublished<'s> {
        let start = segment.position(reservation.offset());
        let bytes = reservation.bytes_mut();
        let end = Position(start.0 + bytes.len() as u64 + 8);
        let mut writer = FrameWriter::new(bytes);
        let (mut first, mut crosses) = (None, false);
        for Item { keyspace, kind, key, value, expires_at_ms } in items {
            crosses |= *first.get_or_insert(keyspace) != keyspace;
            writer.put(&Record { keyspace: keyspace.0, kind, expires_at_ms, key, value });
        }
        if crosses {
            self.groups.crosses(start);
        }
        let first_word = writer.finish(
            self.commit.log.durable_through(),
            FrameKind::Batch,
            start,
            self.commit.log.generation(),
        );
        Unpublished { segment, reservation, first_word, span: start..end, places }
    }

    /// Indexes the records of a copied frame and publishes it; its end is the position to
    /// acknowledge.
    pub(crate) fn publish<'o>(
        &self,
        unpublished: Unpublished<'_>,
        items: impl Iterator<Item = Item<'o>>,
    ) -> Result<Position> {
        let Unpublished { segment, reservation, first_word, span, places } = unpublished;
        let mut position = Position(span.start.0 + firn_format::log::FRAME_HEADER_BYTES as u64);
        for item in items {
            let memtable = segment
                .memtables()
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
        places.published(span.end);
        self.commit.log.advance()?;
        Ok(span.end)
    }

    /// Publishes a frame without records in a reserved place.
    pub(crate) fn publish_void(&self, segment: &Segment, mut reservation: Reservation<'_>) -> Result<()> {
        let start = segment.position(reservation.offset());
        let writer = FrameWriter::new(reservation.bytes_mut());
        let first_word = writer.finish(
            self.commit.log.durable_through(),
            FrameKind::Void,
            start,
            self.commit.log.generation(),
        );
        reservation.publish(first_word);
        self.commit.log.advance().map(|_| ())
    }

    /// Turns a copied frame into one without records and publishes that.
    pub(crate) fn void(&self, unpublished: Unpublished<'_>) -> Result<()> {
        let Unpublished { segment, reservation, .. } = unpublished;
        self.publish_void(segment, reservation)
    }
}

/// Whether a frame of `items` removes more than it brings: it has removals, and little beside them.
/// Such is the head record of a collection that lost an element.
fn removes<'o>(items: impl Iterator<Item = Item<'o>>) -> bool {
    let (mut removals, mut brought) = (0, 0);
    for item in items {
        match item.kind {
            Kind::Delete | Kind::DeleteRange => removals += 1,
            _ => brought += item.bytes(),
        }
    }
    removals > 0 && brought <= BROUGHT_BYTES_MAX
}

/// See [`removes`].
const BROUGHT_BYTES_MAX: usize = 4 << 10;

/// Bytes of records one frame can hold.
const BATCH_BYTES_MAX: u64 = u32::MAX as u64 - (1 << 20);

#[cfg(test)]
mod tests;
