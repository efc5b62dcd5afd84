//! Atomic read-modify-write without locks.
//!
//! An update reads, computes, and copies its frame into the log like any write. Before it indexes the frame it
//! waits until everything below the frame is published (nobody can then add an older write), looks at the key
//! again, and compares: the same newest version means that nothing came between, and the frame is published;
//! otherwise the frame becomes void and the update starts over. Some write of the key succeeded then, so the
//! system as a whole always moves on.

use firn_engine::{Change, Error, KeyspaceId, Op, OpKind, Result, UpdateFn};
use firn_format::log::frame_bytes;
use firn_format::{Position, Sequence};

use crate::database::Database;
use crate::read::{Found, Lookup};
use crate::write::append::Appended;

impl Database {
    /// One attempt loop of an update; `Stopped` when the buffer is full.
    ///
    /// Blocks where the read misses memory.
    pub(crate) fn try_update(
        &self,
        keyspace: KeyspaceId,
        key: &[u8],
        f: &mut UpdateFn,
        expires_at_ms: u64,
    ) -> Result<Appended> {
        let mut value = Vec::new();
        loop {
            let version = self.version.load_full();
            let before = self.read_position(&version);
            let found = self.lookup(&version, &Lookup::latest(keyspace, key, before), &mut value)?;
            self.counters.count_read(found);
            let current = matches!(found, Found::Value { .. }).then_some(value.as_slice());
            let (kind, new) = match f(current) {
                Change::Keep => return Ok(Appended::At(before)),
                Change::Put(new) => (OpKind::Put, new),
                Change::Delete => (OpKind::Delete, Vec::new()),
            };
            let op = Op { keyspace, kind, key, value: &new, expires_at_ms };
            self.validate(std::iter::once(op))?;
            match self.try_append_if_unchanged(op, found.newest())? {
                Attempt::Appended(appended) => return Ok(appended),
                Attempt::Raced => {}
            }
        }
    }

    fn try_append_if_unchanged(&self, op: Op<'_>, seen: Option<Sequence>) -> Result<Attempt> {
        // A value that lies beside the tree is written again if another write comes between.
        let separated = self.separate(std::iter::once(op))?.unwrap_or_default();
        let (item, places) = (separated.references.item(0, op), separated.places);
        let attempt = self.with_reservation(frame_bytes(item.bytes()), |segment, reservation| {
            if segment.memtables().get(op.keyspace.0).is_none() {
                self.publish_void(segment, reservation)?;
                return Err(Error::invalid(format!("there is no {}", op.keyspace)));
            }
            let unpublished = self.copy(segment, reservation, std::iter::once(item), places);
            match self.newest_below(&op, unpublished.span.start) {
                Ok(newest) if newest == seen => {
                    let end = self.publish(unpublished, std::iter::once(item))?;
                    Ok(Attempt::Appended(Appended::At(end)))
                }
                Ok(_) => self.void(unpublished).map(|()| Attempt::Raced),
                Err(error) => {
                    self.void(unpublished)?;
                    Err(error)
                }
            }
        })?;
        attempt.unwrap_or(Ok(Attempt::Appended(Appended::Stopped)))
    }

    /// The newest version of the key among everything below `end`, once all of that is published.
    fn newest_below(&self, op: &Op<'_>, end: Position) -> Result<Option<Sequence>> {
        // With more writers than processors the one that all wait for must get its turn: this gives turns away.
        self.log.wait_published(end)?;
        let version = self.version.load();
        self.newest_version(&version, op.keyspace, op.key, end)
    }
}

/// What one attempt came to.
pub(crate) enum Attempt {
    /// Written, or refused for want of room.
    Appended(Appended),
    /// Another write of the key came between.
    Raced,
}
