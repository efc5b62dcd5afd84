//! One client's stream of operations.

use std::ops::Range;
use std::time::Instant;

use crate::{
    Batch, Completion, Durability, KeyLocks, KeyspaceId, Notifier, OrderedBatch, OrderedReadSet, Outcome,
    Position, ReadAt, ReadSet, Result, Rmw, RmwAnswer, Scan, ScanRange, Ticket, UpdateFn, Values,
};

/// How one write is done.
///
/// ```
/// use firn_engine::{Durability, WriteOptions};
///
/// // Acknowledged once it would survive loss of power.
/// let on_disk = WriteOptions { durability: Some(Durability::Disk), ..WriteOptions::default() };
/// assert_eq!(on_disk.expires_at_ms, 0, "never");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// What the acknowledgement promises; `None` = the database's default.
    pub durability: Option<Durability>,
    /// Milliseconds since the Unix epoch from which the record counts as deleted; 0 = never.
    ///
    /// Only values expire: it is the expiry of [`Session::put`] and of [`crate::Change::Put`].
    /// Operands, deletes and range deletes have none; each operation of a batch has its own
    /// ([`crate::Op::expires_at_ms`]).
    pub expires_at_ms: u64,
}

/// One client's ordered stream of operations on an engine.
///
/// Owned by one thread at a time. A session's writes happen in call order; its reads see its own
/// writes. Dropping a session abandons its pending tickets: writes already in the log may still
/// become durable.
///
/// Implementers MUST never block in any call but [`wait`](Self::wait), and MUST deliver exactly one
/// completion per ticket. They MUST NOT acknowledge a write before it has the durability asked for.
pub trait Session: Send {
    /// Whether `key` has a value; if so and `Done`, `out` holds it (cleared first, memory reused).
    ///
    /// Pending reads complete as [`Completion::Value`] and leave `out` empty.
    ///
    /// # Errors
    /// `Corrupt` with file and offset; `Invalid` for an unknown keyspace; `Closed` after `close`.
    fn get(
        &mut self,
        at: ReadAt<'_>,
        keyspace: KeyspaceId,
        key: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Outcome<bool>>;

    /// As [`get`](Self::get) for the bytes `range` of the value, cut to its length. An empty range
    /// asks whether there is a value, and reads no byte of one that no operand changes.
    fn get_range(
        &mut self,
        at: ReadAt<'_>,
        keyspace: KeyspaceId,
        key: &[u8],
        range: Range<usize>,
        out: &mut Vec<u8>,
    ) -> Result<Outcome<bool>>;

    /// Values of `keys` as of one point, in order; completes as [`Completion::Values`]. Stops,
    /// after one key at least, once `out` [is full](Values::is_full): its length says how many keys
    /// were read.
    ///
    /// Also says of which keys without a value an expired one is stored at that point
    /// ([`Values::is_stored`]). So a caller that deletes what is there reads once.
    fn multi_get(
        &mut self,
        at: ReadAt<'_>,
        keyspace: KeyspaceId,
        keys: &[&[u8]],
        out: &mut Values,
    ) -> Result<Outcome<()>>;

    /// Whether a value of `key` is stored, an expired one included. [`get`](Self::get) does not
    /// find that one, and would again if the clock were set back. For callers that delete only what
    /// is there.
    ///
    /// What has expired may be dropped at any moment, and is not stored from then on. Costs a
    /// lookup; reads no value. Completes as [`Completion::Value`], with an empty value if one is
    /// stored.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    fn is_stored(&mut self, keyspace: KeyspaceId, key: &[u8]) -> Result<Outcome<bool>>;

    /// Says that `keys` are about to be read or written. What that needs from memory is loaded for
    /// all of them at once, instead of for one after the other. A hint: no answer depends on it,
    /// nothing is read from a device, and it never waits.
    fn prefetch(&mut self, keyspace: KeyspaceId, keys: &[&[u8]]) {
        let _ = (keyspace, keys);
    }

    /// As [`prefetch`](Self::prefetch), and reads from the device what memory lacks, for all of
    /// `keys` together, if the engine keeps copies of what was read. A hint: no answer depends on
    /// it, and reads of `keys` may be made before it is over.
    ///
    /// Completes as [`Completion::Value`] without a value. What cannot be read is reported by the
    /// read itself.
    fn load(&mut self, keyspace: KeyspaceId, keys: &[&[u8]]) -> Outcome<()> {
        self.prefetch(keyspace, keys);
        Outcome::Done(())
    }

    /// Applies all of `batch` or none of it; acknowledged with the position after its last record.
    ///
    /// Pending for durability and for admission (slowdown in proportion to debt); completes as
    /// [`Completion::Written`].
    ///
    /// # Errors
    /// `Invalid` for an empty batch, an unknown keyspace, or a key, value or batch beyond its limit
    /// (nothing is written). `Retry` when the disk is full (nothing is written); `NotDurable` where
    /// that shows only after the write, or shared storage is away. `Closed` after `close` and after
    /// a failed sync, with the first cause.
    fn write(&mut self, batch: &Batch, options: WriteOptions) -> Result<Outcome<Position>>;

    /// Applies all of `batch` if no key of `reads` was written since they were read, atomically
    /// against every other write; otherwise nothing of it. As [`write`](Self::write) else.
    ///
    /// A key that was written counts even if it has the same value again. One that had no value,
    /// and has none again, may count or not. Nothing is locked: of two such writes that read what
    /// the other one writes, the later fails. Costs two look-ups for each key; for one of them
    /// other writes wait to become visible.
    ///
    /// # Errors
    /// `Conflict` if a key was written: the caller reads again, and tries again.
    fn write_if(&mut self, batch: &Batch, reads: ReadSet, options: WriteOptions)
    -> Result<Outcome<Position>>;

    /// Sets `key` to `value`; otherwise as [`write`](Self::write) of a batch of one.
    fn put(
        &mut self,
        keyspace: KeyspaceId,
        key: &[u8],
        value: &[u8],
        options: WriteOptions,
    ) -> Result<Outcome<Position>>;

    /// Removes `key`; otherwise as [`write`](Self::write) of a batch of one.
    fn delete(
        &mut self,
        keyspace: KeyspaceId,
        key: &[u8],
        options: WriteOptions,
    ) -> Result<Outcome<Position>>;

    /// Adds `operand` to `key` without reading it; `Invalid` if the keyspace has no merge operator.
    ///
    /// An operand does not expire: whatever `options` say, it stays. Once the value below it has
    /// expired it applies to nothing, as if that value had been deleted.
    fn merge(
        &mut self,
        keyspace: KeyspaceId,
        key: &[u8],
        operand: &[u8],
        options: WriteOptions,
    ) -> Result<Outcome<Position>>;

    /// Replaces `key`'s value by what `f` makes of it, atomically against every other write of the
    /// key.
    ///
    /// `f` may be called more than once; the last call is the one that took effect. Updates of one
    /// key that wait for each other are written first come, first served. `f` runs while other
    /// updates of the key wait, so it should be short. It MUST NOT write to the database or wait
    /// for another update of the key. If `f`, or the keyspace's merge operator, panics, the update
    /// writes nothing. The panic goes on through a call that is answered at once; a pending one
    /// fails with [`crate::ErrorKind::Retry`]. [`crate::Change::Keep`] writes nothing. It is
    /// answered like a write, `Done` or pending and then [`Completion::Written`]. The position is
    /// the one read at, at or after everything this session was acknowledged; it promises no
    /// durability of what was read.
    fn update(
        &mut self,
        keyspace: KeyspaceId,
        key: &[u8],
        f: UpdateFn,
        options: WriteOptions,
    ) -> Result<Outcome<Position>>;

    /// Does `rmw` to the value of `key`, atomically against every other write of the key.
    ///
    /// As an [`update`](Self::update) without a function: nothing of the caller runs, so an engine
    /// can change a value where it lies. An expiry is what `options` say, not what the value had.
    /// Completes as [`Completion::Modified`]; where nothing changes the position is the one read
    /// at.
    ///
    /// # Errors
    /// As [`write`](Self::write), and those of [`Rmw::apply`]: nothing is written then.
    fn rmw(
        &mut self,
        keyspace: KeyspaceId,
        key: &[u8],
        rmw: Rmw<'_>,
        options: WriteOptions,
    ) -> Result<Outcome<(Position, RmwAnswer)>>;

    /// Locks `keys` against all other calls that lock one of them, until the answer is dropped.
    ///
    /// For callers that read, then decide, then write: no other lock call comes between. Reads and
    /// writes themselves look at no lock. One call names all keys: a caller that holds locks MUST
    /// NOT ask for more, or wait for another holder. First come, first served, also within a
    /// session. Keys may share a lock without being equal; a key may be named twice. Pending while
    /// another call holds one of them; completes as [`Completion::Locked`].
    fn lock(&mut self, keys: &[(KeyspaceId, &[u8])]) -> Outcome<KeyLocks>;

    /// Locks every key of every keyspace, keys without a value too; otherwise as
    /// [`lock`](Self::lock).
    ///
    /// For callers that cannot name what they will read and write. All other lock calls wait
    /// meanwhile; two such calls never deadlock. Costs as much as locking some ten
    /// thousand keys.
    fn lock_all(&mut self) -> Outcome<KeyLocks>;

    /// Hands every completion that is ready to `sink` and returns how many; never blocks.
    fn poll(&mut self, sink: &mut dyn FnMut(Ticket, Completion)) -> usize;

    /// Blocks until [`poll`](Self::poll) has something to deliver or `deadline` passes; returns
    /// which.
    ///
    /// With nothing pending and no deadline it returns `false` at once.
    fn wait(&mut self, deadline: Option<Instant>) -> bool;

    /// Wakes other threads when a completion arrives.
    fn notifier(&self) -> Notifier;

    /// Whether reads and durability waits run on the calling thread instead of answering `Pending`.
    ///
    /// The blocking layer turns this on: it would wait anyway, and a hand-over to another thread
    /// costs two context switches. Off at birth.
    fn set_inline(&mut self, inline: bool);

    /// Whether writes at [`Durability::Process`] are answered as soon as they are visible, before
    /// they would survive the process.
    ///
    /// For a caller that serves many clients and answers them together. It MUST call
    /// [`settle`](Self::settle) before it reports to a client anything that it wrote or read. Off
    /// at birth. An engine that keeps every promise at once may ignore this, as it does by default.
    fn set_deferred(&mut self, _deferred: bool) {}

    /// Makes everything that is visible by now, from any session, survive the process. May block
    /// for one write of the log; costs a comparison if there is nothing to do.
    ///
    /// # Errors
    /// `Retry` when the disk is full; `Closed` with the first cause after a failure of the log.
    /// What was answered since the last time may be lost then.
    fn settle(&mut self) -> Result<()> {
        Ok(())
    }
}

/// A session on an engine that keeps keys in order: what only order can do.
///
/// All that [`Session`] promises holds here too.
pub trait OrderedSession: Session {
    /// Opens a scan of `range`, as of `at`. Reads nothing yet.
    ///
    /// # Errors
    /// `Invalid` for an unknown keyspace.
    fn scan(&mut self, at: ReadAt<'_>, keyspace: KeyspaceId, range: ScanRange) -> Result<Box<dyn Scan>>;

    /// Applies all of `batch`, range deletes included, or none of it; otherwise as
    /// [`write`](Session::write).
    fn write_ordered(&mut self, batch: &OrderedBatch, options: WriteOptions) -> Result<Outcome<Position>>;

    /// Applies all of `batch` if no key of `reads`, and none in a range of it, was written since
    /// they were read; otherwise as [`write_if`](Session::write_if).
    fn write_ordered_if(
        &mut self,
        batch: &OrderedBatch,
        reads: OrderedReadSet,
        options: WriteOptions,
    ) -> Result<Outcome<Position>>;

    /// Removes every key of `start..end` (as bytes); otherwise as [`write`](Session::write) of a
    /// batch of one.
    ///
    /// # Errors
    /// `Invalid` unless `start` is less than `end`.
    fn delete_range(
        &mut self,
        keyspace: KeyspaceId,
        start: &[u8],
        end: &[u8],
        options: WriteOptions,
    ) -> Result<Outcome<Position>>;
}
