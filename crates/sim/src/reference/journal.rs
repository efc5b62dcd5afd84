//! The reference engine's only file: every change since birth, one frame each.
//!
//! ```text
//! offset size  field
//!      0    4  bytes of the payload, u32 LE
//!      4    8  hash of the payload, xored with the frame's offset, u64 LE
//!     12    n  payload: tag, then the change
//! ```
//! A frame whose hash is wrong ends the journal. Not a format of Firn: nothing but tests ever reads
//! it.

use std::collections::VecDeque;
use std::sync::Arc;

use firn_engine::{
    Compression, Error, ErrorKind, KeyspaceId, KeyspaceSettings, Location, OrderedBatch, OrderedOp,
    OrderedOpKind, Result,
};
use firn_storage::{Storage, WriteFile};

/// The file's name.
pub(super) const JOURNAL: &str = "journal.log";
const FRAME_HEADER_BYTES: usize = 12;

/// One change of the database.
#[derive(Clone, Debug)]
pub(super) enum Entry {
    Batch(OrderedBatch),
    CreateKeyspace(String, KeyspaceSettings),
    DropKeyspace(KeyspaceId),
}

/// The journal, open for appending.
#[derive(Debug)]
pub(super) struct Journal {
    file: Arc<dyn WriteFile>,
    end: u64,
    /// Frames not written yet (only ever filled by a fault).
    late: VecDeque<Vec<u8>>,
}

impl Journal {
    /// Opens or creates the journal; cuts what is torn at its end and syncs the rest.
    pub(super) fn open(storage: &dyn Storage) -> Result<(Self, Vec<Entry>)> {
        let read = match storage.open_read(JOURNAL) {
            Ok(read) => read,
            Err(error) if error.kind == firn_storage::ErrorKind::NotFound => {
                let file = storage.create(JOURNAL).map_err(from_storage)?;
                file.sync().map_err(from_storage)?;
                storage.sync_dir().map_err(from_storage)?;
                return Ok((Self { file, end: 0, late: VecDeque::new() }, Vec::new()));
            }
            Err(error) => return Err(from_storage(error)),
        };
        let mut bytes = vec![0; usize::try_from(read.len()).unwrap_or(usize::MAX)];
        read.read_at(0, &mut bytes).map_err(from_storage)?;
        let mut entries = Vec::new();
        let mut end = 0;
        while let Some((entry, frame_bytes)) = decode_frame(&bytes[end..], end as u64) {
            entries.push(entry);
            end += frame_bytes;
        }
        let file = storage.open_write(JOURNAL).map_err(from_storage)?;
        file.set_len(end as u64).map_err(from_storage)?;
        file.sync().map_err(from_storage)?;
        storage.sync_dir().map_err(from_storage)?;
        Ok((Self { file, end: end as u64, late: VecDeque::new() }, entries))
    }

    /// Hands `entry` to the storage, all but the newest `late_count` frames; how many bytes it
    /// takes.
    pub(super) fn append(&mut self, entry: &Entry, late_count: usize) -> Result<u64> {
        let late_bytes: u64 = self.late.iter().map(|frame| frame.len() as u64).sum();
        let frame = encode_frame(entry, self.end + late_bytes);
        let bytes = frame.len() as u64;
        self.late.push_back(frame);
        self.write_late(late_count)?;
        Ok(bytes)
    }

    /// Syncs everything appended.
    pub(super) fn sync(&mut self) -> Result<()> {
        self.write_late(0)?;
        self.file.sync().map_err(from_storage)
    }

    /// Everything appended so far, as a file of its own holds it.
    pub(super) fn copy(&self, storage: &dyn Storage) -> Result<Vec<u8>> {
        let mut bytes = vec![0; usize::try_from(self.end).unwrap_or(usize::MAX)];
        let read = storage.open_read(JOURNAL).map_err(from_storage)?;
        read.read_at(0, &mut bytes).map_err(from_storage)?;
        bytes.extend(self.late.iter().flatten());
        Ok(bytes)
    }

    /// Writes the oldest late frames until `count` are left.
    fn write_late(&mut self, count: usize) -> Result<()> {
        while self.late.len() > count {
            let Some(frame) = self.late.pop_front() else { break };
            self.file.write_at(self.end, &frame).map_err(from_storage)?;
            self.end += frame.len() as u64;
        }
        Ok(())
    }
}

/// A storage error as the contract names it.
pub(super) fn from_storage(error: firn_storage::Error) -> Error {
    use firn_storage::ErrorKind as Storage;
    let kind = match error.kind {
        Storage::Locked => ErrorKind::Conflict,
        Storage::Full | Storage::Refused | Storage::Undecided => ErrorKind::Retry,
        Storage::Corrupt => ErrorKind::Corrupt,
        Storage::NotFound | Storage::Exists | Storage::Invalid => ErrorKind::Invalid,
        Storage::Unsynced | Storage::Io | Storage::Closed => ErrorKind::Closed,
        Storage::Bug => ErrorKind::Bug,
    };
    let location = Location { file: error.file.clone(), offset: error.offset };
    Error::new(kind, "the storage failed").at(location).because(error)
}

fn encode_frame(entry: &Entry, offset: u64) -> Vec<u8> {
    let mut out = vec![0; FRAME_HEADER_BYTES];
    match entry {
        Entry::Batch(batch) => {
            out.push(1);
            for op in batch.ops() {
                out.push(op.kind as u8);
                out.extend_from_slice(&op.keyspace.0.to_le_bytes());
                out.extend_from_slice(&op.expires_at_ms.to_le_bytes());
                put_bytes(&mut out, op.key);
                put_bytes(&mut out, op.value);
            }
        }
        Entry::CreateKeyspace(name, settings) => {
            out.push(2);
            put_bytes(&mut out, name.as_bytes());
            put_bytes(&mut out, settings.compression.map_or("", Compression::name).as_bytes());
            for name in [&settings.merge_operator, &settings.compaction_filter, &settings.prefix_extractor] {
                put_bytes(&mut out, name.as_deref().unwrap_or_default().as_bytes());
            }
        }
        Entry::DropKeyspace(id) => {
            out.push(3);
            out.extend_from_slice(&id.0.to_le_bytes());
        }
    }
    let payload_bytes = (out.len() - FRAME_HEADER_BYTES) as u32;
    let hash = firn_format::key::key_hash(&out[FRAME_HEADER_BYTES..]) ^ offset;
    out[..4].copy_from_slice(&payload_bytes.to_le_bytes());
    out[4..FRAME_HEADER_BYTES].copy_from_slice(&hash.to_le_bytes());
    out
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

/// The frame at the beginning of `bytes` and its length; `None` where no whole frame is.
fn decode_frame(mut bytes: &[u8], offset: u64) -> Option<(Entry, usize)> {
    let payload_bytes = take_u32(&mut bytes)? as usize;
    let hash = take_u64(&mut bytes)?;
    let mut payload = bytes.get(..payload_bytes)?;
    if firn_format::key::key_hash(payload) ^ offset != hash {
        return None;
    }
    let (tag, rest) = payload.split_first()?;
    payload = rest;
    let entry = match tag {
        1 => Entry::Batch(decode_batch(payload)?),
        2 => {
            let name = take_text(&mut payload)?;
            let compression = match take_text(&mut payload)?.as_str() {
                "" => None,
                name => Some(Compression::from_name(name)?),
            };
            let mut optional =
                || take_text(&mut payload).map(|name| Some(name).filter(|name| !name.is_empty()));
            let (merge_operator, compaction_filter) = (optional()?, optional()?);
            let prefix_extractor = optional()?;
            let settings = KeyspaceSettings {
                compression,
                merge_operator,
                compaction_filter,
                prefix_extractor,
                ..KeyspaceSettings::default()
            };
            Entry::CreateKeyspace(name, settings)
        }
        3 => Entry::DropKeyspace(KeyspaceId(take_u32(&mut payload)?)),
        _ => return None,
    };
    Some((entry, FRAME_HEADER_BYTES + payload_bytes))
}

fn decode_batch(mut payload: &[u8]) -> Option<OrderedBatch> {
    let mut batch = OrderedBatch::default();
    while let Some((kind, rest)) = payload.split_first() {
        payload = rest;
        let kinds =
            [OrderedOpKind::Put, OrderedOpKind::Delete, OrderedOpKind::Merge, OrderedOpKind::DeleteRange];
        let kind = kinds.into_iter().find(|known| *known as u8 == *kind)?;
        let keyspace = KeyspaceId(take_u32(&mut payload)?);
        let expires_at_ms = take_u64(&mut payload)?;
        let key = take_bytes(&mut payload)?;
        let value = take_bytes(&mut payload)?;
        batch.push(OrderedOp { keyspace, kind, key, value, expires_at_ms });
    }
    Some(batch)
}

fn take_u32(bytes: &mut &[u8]) -> Option<u32> {
    let (number, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(u32::from_le_bytes(*number))
}

fn take_u64(bytes: &mut &[u8]) -> Option<u64> {
    let (number, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(u64::from_le_bytes(*number))
}

fn take_bytes<'b>(bytes: &mut &'b [u8]) -> Option<&'b [u8]> {
    let count = take_u32(bytes)? as usize;
    let (taken, rest) = bytes.split_at_checked(count)?;
    *bytes = rest;
    Some(taken)
}

fn take_text(bytes: &mut &[u8]) -> Option<String> {
    String::from_utf8(take_bytes(bytes)?.to_vec()).ok()
}
