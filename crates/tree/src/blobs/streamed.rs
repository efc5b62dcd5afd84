//! Values that come in pieces: each in a segment of its own, which no list knows before the value
//! is whole.
//!
//! ```text
//!   source ─► chunk after chunk, behind the place of the head ─► head ─► sync
//!      │      ─► join: active like others ─► its frame
//!      └─ fails, or the database closes: the file goes
//! ```
//! The head, which has the checksums of all chunks, is written last. The segment is in no list
//! before its frame has a place in the log, so that no other thread waits for the source. No flush,
//! copy or sync meets it, and no bytes of it count.

use std::collections::BTreeMap;
use std::sync::{Arc, MutexGuard, PoisonError};

use firn_engine::{Error, ErrorKind, Result};
use firn_format::blob::record::{CHUNK_BYTES, Chunk, long_head_bytes, padding, plain_record_bytes};
use firn_format::blob::segment::{BLOB_FOOTER_BYTES, BLOB_HEADER_BYTES, ORDINAL_BYTES};
use firn_format::blob::{BlobHead, Reference, SegmentNumber, stored_chunk};
use firn_format::compression::{Compression, Compressor};
use firn_format::file_name;
use firn_storage::file::blob::OpenBlobs;
use firn_storage::file::log::room::check_room;

use super::active::{Active, Places, Written};
use super::write::compressor_error;
use super::{BlobStore, Rolling};
use crate::counters::count;
use crate::error::from_storage;

/// The files of segments whose values are not whole.
#[derive(Debug, Default)]
pub(super) struct Unfinished {
    names: BTreeMap<SegmentNumber, String>,
    /// The database is closed: none is begun any more, and what was begun is gone.
    is_over: bool,
}

/// A value whose chunks come one after another. Its file goes with this.
#[derive(Debug)]
pub(crate) struct Streamed<'v> {
    claim: Claim<'v>,
    open: OpenBlobs,
    head: BlobHead,
    key: Vec<u8>,
    /// As many as have come.
    chunks: Vec<Chunk>,
    compressor: Compressor,
    /// Where the next chunk goes.
    offset: u64,
}

/// A value that is whole and on the device, and that no list knows. Its file goes with this, unless
/// it has [`join`](Self::join)ed the others.
#[derive(Debug)]
pub(crate) struct WholeBlob<'v> {
    claim: Claim<'v>,
    active: Arc<Active>,
    places: Places,
    pub(crate) reference: Reference,
    /// What the writer is charged for, and what was written of it.
    brought: (u64, u64),
}

/// A file that goes with this, if it is there still.
#[derive(Debug)]
struct Claim<'v> {
    blobs: &'v BlobStore,
    number: SegmentNumber,
}

impl BlobStore {
    /// Begins a segment for the value of `key` in `keyspace`, which is to have `value_bytes` stored
    /// by `codec`. Creates a file, with room for all of it where the backend can set that aside.
    ///
    /// # Errors
    /// `Retry` when the disk is full, `Closed` when the database is; what else creating says.
    pub(crate) fn stream(
        &self,
        (keyspace, key): (u32, &[u8]),
        value_bytes: u32,
        codec: Compression,
    ) -> Result<Streamed<'_>> {
        let header = self.written_header(self.next_number());
        let name = file_name::blob_segment(header.number);
        let end = BLOB_HEADER_BYTES + plain_record_bytes(keyspace, key.len(), value_bytes as usize);
        let bytes = (end + ORDINAL_BYTES + BLOB_FOOTER_BYTES) as u64;
        check_room(&*self.files.storage, bytes).map_err(from_storage)?;
        let mut unfinished = self.lock_unfinished();
        if unfinished.is_over {
            return Err(closed());
        }
        let open =
            OpenBlobs::create(&*self.files.storage, self.files.outputs.values(), &name, &header, bytes)
                .map_err(from_storage)?;
        unfinished.names.insert(header.number, name);
        drop(unfinished);
        let (segment, key_bytes) = (header.number, key.len() as u16);
        let head = BlobHead { segment, ordinal: 0, value_bytes, keyspace, key_bytes, codec };
        let offset = (BLOB_HEADER_BYTES + head.encoded_bytes() + key.len()) as u64;
        Ok(Streamed {
            claim: Claim { blobs: self, number: header.number },
            open,
            head,
            key: key.to_vec(),
            chunks: Vec::new(),
            compressor: Compressor::default(),
            offset,
        })
    }

    /// Removes the files of values that are not whole, and has no more begun. A writer that brings
    /// a value is told when its next chunk comes, and is not waited for.
    pub(crate) fn give_up_unfinished(&self) {
        let mut unfinished = self.lock_unfinished();
        unfinished.is_over = true;
        // What cannot be removed now is found and removed by the next opening.
        std::mem::take(&mut unfinished.names).values().for_each(|name| drop(self.files.storage.remove(name)));
    }

    /// Readers find the values of `active` from now on, and each sync or sealing meets it.
    fn take_in(&self, active: &Arc<Active>) {
        let mut rolling = self.lock();
        let Rolling { open, newest, .. } = &mut *rolling;
        open.push(Arc::clone(active));
        *newest = newest.follow(Some(Arc::clone(active)));
        drop(rolling);
        self.pace.space.doubt();
    }

    fn lock_unfinished(&self) -> MutexGuard<'_, Unfinished> {
        self.unfinished.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<'v> Streamed<'v> {
    /// Bytes of each chunk but the last.
    pub(crate) const CHUNK_BYTES: usize = CHUNK_BYTES;

    /// Writes the next chunk.
    ///
    /// # Errors
    /// `Retry` when the disk is full; what else writing says.
    pub(crate) fn add(&mut self, raw: &[u8]) -> Result<()> {
        let (chunk, stored) =
            stored_chunk(raw, self.head.codec, &mut self.compressor).map_err(compressor_error)?;
        self.open.write_at(self.offset, stored).map_err(from_storage)?;
        self.chunks.push(chunk);
        self.offset += stored.len() as u64;
        count(&self.claim.blobs.counters.written_bytes, stored.len() as u64);
        self.open.begin_write_back().map_err(from_storage)
    }

    /// Writes the head, once all chunks are there, and syncs: no other sync is to wait for this
    /// value. Blocks for that.
    ///
    /// # Errors
    /// `Retry` when the disk is full; what else writing and syncing say.
    pub(crate) fn finish(self) -> Result<WholeBlob<'v>> {
        let Self { claim, open, head, key, chunks, offset: end, .. } = self;
        let (start, unpadded) = (BLOB_HEADER_BYTES as u64, end - BLOB_HEADER_BYTES as u64);
        let mut front = Vec::with_capacity(long_head_bytes(head.value_bytes as usize, true) + key.len());
        let checksum = head.encode(chunks.into_iter(), &key, &mut front);
        let padding = padding(unpadded as usize);
        if !padding.is_empty() {
            open.write_at(end, padding).map_err(from_storage)?;
        }
        open.write_at(start, &front).map_err(from_storage)?;
        open.sync().map_err(from_storage)?;
        let record_bytes = unpadded + padding.len() as u64;
        let counters = &claim.blobs.counters;
        count(&counters.sync_count, 1);
        count(&counters.written_count, 1);
        count(&counters.written_bytes, (front.len() + padding.len()) as u64);
        let BlobHead { segment, ordinal, value_bytes, keyspace, .. } = head;
        let active = Arc::new(Active::new(open, start + record_bytes));
        let given = active.give(1, record_bytes).filter(|given| (given.ordinal, given.offset) == (0, start));
        let given = given.ok_or_else(|| Error::bug("a new blob segment gives no place"))?;
        active.wrote(&[Written { ordinal, keyspace, offset: start, value_bytes }]);
        active.seal();
        let mut places = Places::default();
        places.push(Arc::clone(&active), given);
        let reference = Reference { segment, ordinal, offset: start, value_bytes, checksum };
        let brought = (key.len() as u64 + u64::from(value_bytes), record_bytes);
        Ok(WholeBlob { claim, active, places, reference, brought })
    }
}

impl WholeBlob<'_> {
    /// From now on the segment is one like others. The caller has a place in the log, so that it
    /// needs nothing from other threads before the frame is published or the places are given up.
    /// Sealing waits for that.
    ///
    /// # Errors
    /// `Closed`: its file is gone.
    pub(crate) fn join(self) -> Result<Places> {
        let Self { claim, active, places, brought: (brought, written), .. } = self;
        let blobs = claim.blobs;
        // A close of the database from here on leaves the file, as it does those of other segments.
        if blobs.lock_unfinished().names.remove(&claim.number).is_none() {
            return Err(closed());
        }
        blobs.brought.fade();
        blobs.brought.add(brought, written);
        blobs.take_in(&active);
        Ok(places)
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let mut unfinished = self.blobs.lock_unfinished();
        if let Some(name) = unfinished.names.remove(&self.number) {
            // What cannot be removed now is found and removed by the next opening.
            let _removed = self.blobs.files.storage.remove(&name);
        }
    }
}

fn closed() -> Error {
    Error::new(ErrorKind::Closed, "the database was closed before the value was whole")
}

#[cfg(test)]
mod tests;
