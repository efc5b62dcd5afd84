//! What a session's calls come to: operations that are tried within an epoch, and what is waited
//! for between two tries.
//!
//! A caller that may not wait answers `None` where it would have to, and has changed nothing then.
//! Its session has another one, which may, do the call on a thread of the pool.

mod batch;
mod change;
mod many;
mod read;
mod scan;

pub(crate) use read::Looked;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use firn_engine::{
    Durability, Error, ErrorKind, KeyspaceId, Op, OpKind, Position, ReadAt, Result, check_value_bytes,
};

use crate::compact::Compaction;
use crate::database::Database;
use crate::epoch::Inside;
use crate::ops::{Access, Attempt, Key, Store, not_surviving, operand_of, parts_of, reference_of};
use crate::sync::Patience;

/// One session's way into the database.
#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) database: Arc<Database>,
    access: Access,
    pub(crate) may_wait: bool,
    /// Reused by calls that read a value to change it.
    scratch: Vec<u8>,
    uncounted_bytes: u64,
}

/// What a call came to that was tried as often as needed.
enum Tried<T> {
    Done(T),
    /// What is wanted lies on the device.
    OnDevice,
    /// It would have to be waited for.
    MustWait,
}

impl Caller {
    /// # Errors
    /// `Retry` if there are too many sessions.
    pub(crate) fn new(database: &Arc<Database>) -> Result<Self> {
        let access = Access::for_session(&database.store).ok_or_else(|| {
            Error::new(ErrorKind::Retry, "too many sessions are open: close some, or share them")
        })?;
        Ok(Self {
            database: Arc::clone(database),
            access,
            may_wait: true,
            scratch: Vec::new(),
            uncounted_bytes: 0,
        })
    }

    /// Tries until it is done.
    #[inline]
    fn attempt<T>(&mut self, attempt: impl FnMut(&Store, &Inside<'_>) -> Attempt<T>) -> Result<Tried<T>> {
        try_until_done(&self.database, &mut self.access, self.may_wait, attempt)
    }

    /// As [`attempt`](Self::attempt) for a write, with the position after it.
    #[inline]
    fn attempt_write<T>(
        &mut self,
        mut attempt: impl FnMut(&Store, &Inside<'_>) -> Attempt<T>,
    ) -> Result<Tried<(Position, T)>> {
        if !self.keeps_pace()? {
            return Ok(Tried::MustWait);
        }
        let snapshots = &self.database.snapshots;
        try_until_done(&self.database, &mut self.access, self.may_wait, |store, inside| {
            attempt(store, inside).map(|result| (snapshots.next(), result))
        })
    }

    /// Waits for compaction or a checkpoint, where that is behind; `false` if this caller may not.
    #[inline]
    fn keeps_pace(&self) -> Result<bool> {
        if !self.database.reclaim.is_behind.load(Ordering::Relaxed) {
            return Ok(true);
        }
        if self.may_wait {
            Compaction::of(&self.database).wait()?;
        }
        Ok(self.may_wait)
    }

    /// Waits until the index may have room for so many entries, after it had none; `false` if this
    /// caller may not.
    fn may_have_entries(&self, count: usize) -> Result<bool> {
        match self.may_wait {
            true => Compaction::of(&self.database).wait_for_entries(count as u64)?,
            false => self.database.maintenance.schedule.wake(),
        }
        Ok(self.may_wait)
    }

    /// As which this writes to the redo log.
    pub(crate) fn writer(&self) -> usize {
        self.access.writer()
    }

    /// Has the redo log take this one's changes for those of another `writer`.
    pub(crate) fn write_as(&mut self, writer: usize) {
        self.access.write_as(writer);
    }

    /// The address that records are below which a reader at `at` sees.
    pub(crate) fn end_of(&self, at: ReadAt<'_>) -> Result<u64> {
        match at {
            ReadAt::Latest => Ok(u64::MAX),
            ReadAt::Snapshot(snapshot) => self.database.snapshots.end_of(snapshot),
        }
    }

    /// Refuses what no write may be.
    pub(crate) fn check(&self, op: &Op<'_>) -> Result<()> {
        self.check_key(op.keyspace, op.key)?;
        check_value_bytes(op.value.len() as u64, self.value_bytes_max())?;
        if op.kind == OpKind::Merge && self.database.keyspaces.get(op.keyspace)?.operator.is_none() {
            return Err(Error::invalid(format!("{} has no merge operator", op.keyspace)));
        }
        Ok(())
    }

    /// Refuses keys that there cannot be.
    pub(crate) fn check_key(&self, keyspace: KeyspaceId, key: &[u8]) -> Result<()> {
        self.database.keyspaces.check(keyspace)?;
        let max = self.database.env.settings.key_bytes_max;
        if key.len() > max {
            let found = key.len();
            let message = format!("a key of {found} bytes is longer than key_bytes_max = {max}");
            return Err(Error::invalid(message));
        }
        Ok(())
    }

    /// Longest value that is written.
    pub(crate) fn value_bytes_max(&self) -> u64 {
        self.database.env.settings.value_bytes_max
    }

    /// Does one operation of a batch by itself.
    #[inline]
    pub(crate) fn write(&mut self, op: &Op<'_>) -> Result<Option<Position>> {
        self.check(op)?;
        let key = Key::new(op.keyspace.0, op.key);
        if !self.may_wait && !self.is_short(op.key, op.value.len() as u64) {
            // Its value is a file.
            return Ok(None);
        }
        let tried = match op.kind {
            OpKind::Delete => self.attempt_write(|store, inside| store.delete(inside, key))?,
            OpKind::Merge => {
                let operand = operand_of(key, op.value);
                let reference;
                let parts = if self.database.store.log.holds(&operand) {
                    operand
                } else {
                    reference = self.database.values.write(op.value)?;
                    reference_of(key, &reference, 0, true)
                };
                self.attempt_write(|store, inside| store.append(inside, key, &parts).map(|_| ()))?
            }
            OpKind::Put => {
                let parts = parts_of(key, op.value, op.expires_at_ms);
                if self.database.store.log.holds(&parts) {
                    self.attempt_write(|store, inside| store.upsert(inside, key, &parts).map(|_| ()))?
                } else {
                    let reference = self.database.values.write(op.value)?;
                    let parts = reference_of(key, &reference, op.expires_at_ms, false);
                    self.attempt_write(|store, inside| store.upsert(inside, key, &parts).map(|_| ()))?
                }
            }
        };
        match tried {
            Tried::Done((position, ())) => {
                self.count_written(op.key.len() + op.value.len());
                Ok(Some(position))
            }
            Tried::OnDevice => Err(Error::bug("a blind write does not read")),
            Tried::MustWait => Ok(None),
        }
    }

    /// Whether a value of so many bytes lies in the log.
    pub(crate) fn is_short(&self, key: &[u8], value_bytes: u64) -> bool {
        let words = (key.len() as u64).div_ceil(8) + value_bytes.div_ceil(8) + 5;
        words <= self.database.store.log.tail.page_words() / 4
    }

    /// Sets `key` to the value that lies alone where `reference` says.
    pub(crate) fn put_reference(
        &mut self,
        keyspace: KeyspaceId,
        key: &[u8],
        reference: &[u8],
        expires_at_ms: u64,
    ) -> Result<Position> {
        let key = Key::new(keyspace.0, key);
        let parts = reference_of(key, reference, expires_at_ms, false);
        match self.attempt_write(|store, inside| store.upsert(inside, key, &parts).map(|_| ()))? {
            Tried::Done((position, ())) => Ok(position),
            Tried::OnDevice | Tried::MustWait => Err(Error::bug("a blind write of a caller that may wait")),
        }
    }

    /// Has the next writes survive what `durability` says once they are done and, above `Process`,
    /// [made durable](Self::make_durable).
    #[inline]
    pub(crate) fn promise(&mut self, durability: Durability) {
        let is_logged = durability > Durability::Checkpoint;
        self.access.set_logged(is_logged);
        if !is_logged {
            self.database.note_unlogged();
        }
    }

    /// Makes what was written up to `position` survive what `durability` says. May wait for the
    /// device, or for other machines.
    pub(crate) fn make_durable(&self, durability: Durability, position: Position) -> Result<()> {
        match durability {
            Durability::Checkpoint | Durability::Process => Ok(()),
            Durability::Disk => self.database.sync().map_err(|error| not_surviving("loss of power", error)),
            Durability::Shared => {
                let shared = self.database.share_through(position);
                shared.map_err(|error| not_surviving("loss of this machine", error))
            }
        }
    }

    /// Counts bytes written, in steps that keep the shared counter off the path of each write.
    #[inline]
    pub(crate) fn count_written(&mut self, bytes: usize) {
        const STEP_BYTES: u64 = 64 << 10;
        self.uncounted_bytes += bytes as u64;
        if self.uncounted_bytes >= STEP_BYTES {
            self.flush_count();
        }
    }

    fn flush_count(&mut self) {
        let bytes = std::mem::take(&mut self.uncounted_bytes);
        self.database.counters.user_write_bytes.fetch_add(bytes, Ordering::Relaxed);
        // The threads look for work by themselves, but late.
        if self.database.wants_checkpoint() {
            self.database.maintenance.schedule.wake();
            Compaction::of(&self.database).note_pace();
        }
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.flush_count();
    }
}

/// Tries until it is done, outside the epoch between two tries.
#[inline]
fn try_until_done<T>(
    database: &Database,
    access: &mut Access,
    may_wait: bool,
    mut attempt: impl FnMut(&Store, &Inside<'_>) -> Attempt<T>,
) -> Result<Tried<T>> {
    let mut patience = Patience::default();
    loop {
        let outcome = {
            let (store, inside) = access.enter();
            attempt(store, &inside)
        };
        match outcome {
            Attempt::Done(result) => return Ok(Tried::Done(result)),
            Attempt::Again => patience.wait(),
            Attempt::OnDevice => return Ok(Tried::OnDevice),
            Attempt::NoRoom(beyond) => {
                if !may_wait {
                    database.maintenance.schedule.wake();
                    return Ok(Tried::MustWait);
                }
                if database.maintenance.schedule.is_manual() {
                    Compaction::of(database).note_pace();
                }
                database.wait_for_room(beyond)?;
            }
            Attempt::IndexFull if may_wait => Compaction::of(database).wait_for_entries(1)?,
            Attempt::IndexFull => {
                database.maintenance.schedule.wake();
                return Ok(Tried::MustWait);
            }
            Attempt::Failed(error) => {
                database.note_final(&error);
                return Err(error);
            }
        }
    }
}
