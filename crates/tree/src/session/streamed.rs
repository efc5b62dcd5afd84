//! Writes of values that a source brings.

use std::sync::Arc;

use firn_engine::{
    Durability, Error, ErrorKind, KeyspaceId, OrderedOp, OrderedOpKind, Position, Result, Session,
    ValueSource, WriteOptions,
};
use firn_format::Kind;
use firn_format::compression::Compression;

use super::TreeSession;
use crate::blob_gc::seal_blobs;
use crate::blobs::{Streamed, WholeBlob};
use crate::commit::{Appended, Blobs, CommitEnv, Frame, Item};
use crate::version::set::separate_bytes;

/// Values up to this are held in memory and lie among others: a segment of its own costs a file, a
/// sync and an edit.
const HELD_BYTES_MAX: u64 = 4 << 20;

/// What becomes of a value while it comes.
enum Way {
    /// Held in memory, and written as any other.
    Held,
    /// Written as it comes, by the keyspace's codec.
    Streamed(Compression),
}

impl TreeSession {
    /// Sets `key` to what `source` brings. Blocks as long as that takes; for sessions that are
    /// inline.
    pub(crate) fn put_from(
        &mut self,
        keyspace: KeyspaceId,
        key: &[u8],
        source: ValueSource<'_>,
        options: WriteOptions,
    ) -> Result<Position> {
        self.check_write(options)?;
        let op = OrderedOp {
            keyspace,
            kind: OrderedOpKind::Put,
            key,
            value: &[],
            expires_at_ms: options.expires_at_ms,
        };
        self.shared.commit.validate(std::iter::once(op))?;
        match self.way(keyspace, source.value_bytes())? {
            Way::Streamed(codec) => self.put_streamed(op, codec, source, options),
            Way::Held => {
                let value = source.whole()?;
                let written = self.put(keyspace, key, &value, options)?;
                written.done().ok_or_else(|| Error::bug("an inline write answered Pending"))
            }
        }
    }

    fn put_streamed(
        &mut self,
        op: OrderedOp<'_>,
        codec: Compression,
        mut source: ValueSource<'_>,
        options: WriteOptions,
    ) -> Result<Position> {
        let shared = Arc::clone(&self.shared);
        let value_bytes = source.value_bytes() as usize;
        let mut streamed = shared.blobs.stream((op.keyspace.0, op.key), value_bytes as u32, codec)?;
        let mut chunk = Vec::new();
        while source.next_piece(Streamed::CHUNK_BYTES, &mut chunk)? {
            shared.check_open()?;
            let delay = shared.commit.admit(&*shared, chunk.len() as u64);
            if !delay.is_zero() {
                shared.clock.sleep(delay);
            }
            streamed.add(&chunk)?;
        }
        source.end()?;
        drop(chunk);
        shared.check_open()?;
        let mut whole = Some(streamed.finish()?);
        let needs_log_objects =
            self.durability(options) == Durability::Shared || shared.shared_log.is_begun();
        let delay = shared.commit.admit(&*shared, op.key.len() as u64);
        if !delay.is_zero() {
            shared.clock.sleep(delay);
        }
        let end = loop {
            match self.append_whole(op, &mut whole)? {
                Appended::At(end) => break end,
                Appended::Stopped | Appended::Raced => shared.wait_to_retry()?,
            }
        };
        if needs_log_objects {
            self.seal_for_others();
        }
        shared.commit.make_durable(&*shared, end, self.durability(options))?;
        self.count_written(op.key.len() + value_bytes);
        Ok(end)
    }

    /// What becomes of a value of `value_bytes` in `keyspace`.
    ///
    /// # Errors
    /// `Invalid` where it is too long, or would have to be held in memory, with the setting that
    /// changes that.
    fn way(&self, keyspace: KeyspaceId, value_bytes: u64) -> Result<Way> {
        self.shared.commit.check_value_bytes(value_bytes)?;
        let version = self.shared.catalog.version.load();
        let state = version.keyspace(keyspace.0)?;
        let separate_bytes = separate_bytes(state, &self.shared.settings);
        if separate_bytes == u32::MAX && value_bytes > HELD_BYTES_MAX {
            let name = &state.definition.name;
            return Err(Error::invalid(format!(
                "a value of {value_bytes} bytes would be held in memory, since values of keyspace {name:?} lie in the tree: set its separate_bytes (64 KiB, say), or put the value as a whole"
            )));
        }
        let is_held = value_bytes <= HELD_BYTES_MAX || value_bytes < u64::from(separate_bytes);
        Ok(if is_held { Way::Held } else { Way::Streamed(state.codec()) })
    }

    /// Seals whole segments: other machines find them then, so that no log object has to hold their
    /// values. Where that fails for now, a log object holds them.
    fn seal_for_others(&self) {
        let database = &*self.shared;
        let sealed = seal_blobs(&database.blobs, &database.catalog, &database.commit, usize::MAX)
            .map_err(|error| database.catalog.explained(error, database.files.is_shared()));
        if let Err(error) = sealed
            && error.kind() != ErrorKind::Retry
            && !database.maintenance.is_stopping()
        {
            // The writer gets this error when it waits for the log.
            database.fail(&error);
        }
    }

    /// Writes the frame that refers to `whole`, whose segment joins the others with it; `whole`
    /// stays where there is no room.
    fn append_whole(&self, op: OrderedOp<'_>, whole: &mut Option<WholeBlob<'_>>) -> Result<Appended> {
        let missing = || Error::bug("a streamed value is written twice");
        let reference = whole.as_ref().ok_or_else(missing)?.reference.encode();
        let item = Item { kind: Kind::PutReference, value: &reference, ..Item::from(op) };
        let blobs = Blobs::Whole(whole);
        self.shared.commit.append(&*self.shared, Frame { blobs, ..Frame::of(std::iter::once(item)) })
    }
}
