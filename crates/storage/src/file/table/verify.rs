//! Reading all of a table to see that it is sound.

use std::sync::Arc;

use firn_format::blob::Reference;
use firn_format::filter::filter_hash;
use firn_format::key::{Entry, Kind, Sequence};
use firn_format::manifest::TableMeta;
use firn_format::table::content::entry_hash;
use firn_format::table::{Expiring, FileChecksum, block};

use super::cursor::{CursorOptions, TableCursor};
use super::point::{Lookup, ReadMode};
use super::reader::TableReader;
use crate::{Error, ReadFile, Result};

/// Bytes read at a time for the whole file's checksum.
const CHUNK_BYTES: usize = 1 << 20;

/// Bytes asked for at a time for that, the next ones while these are read.
const AHEAD_BYTES: u64 = 4 << 20;

/// How many bytes of a key are its prefix.
type Prefix<'p> = &'p dyn Fn(&[u8]) -> Option<usize>;

/// What a walk over all entries adds up to.
#[derive(Default)]
struct Sums {
    entry_count: u64,
    tombstone_count: u64,
    operand_count: u64,
    data_bytes: u64,
    content_hash: u128,
    expiring: Expiring,
    last: Option<(Vec<u8>, Sequence)>,
}

impl TableReader {
    /// Reads everything and checks it: the file's checksum (against `meta`), each block's, the
    /// order of entries, counts, bounds of entries and of range tombstones, content hash. The
    /// filter and the index must find every key. Blocks on the device.
    ///
    /// `prefix_bytes` is the function of the extractor that the table was written with; then the
    /// filter of prefixes must know every key's.
    ///
    /// # Errors
    /// The first fault, as `Corrupt` with file and offset; what reading says.
    pub fn verify(self: &Arc<Self>, meta: &TableMeta, prefix_bytes: Option<Prefix<'_>>) -> Result<()> {
        self.verify_file_checksum(meta.file_checksum)?;
        self.verify_tombstones()?;
        let mut sums = Sums { content_hash: self.tombstones().content_hash(), ..Sums::default() };
        let mut cursor = TableCursor::new(Arc::clone(self), CursorOptions::JOB);
        cursor.seek_first()?;
        while let Some(entry) = cursor.entry() {
            self.verify_entry(&entry, &mut sums)?;
            self.verify_prefix(&entry, prefix_bytes)?;
            cursor.next()?;
        }
        let p = self.properties();
        let Sums { entry_count, tombstone_count, operand_count, data_bytes, content_hash, expiring, .. } =
            sums;
        let found = (entry_count, tombstone_count, operand_count, data_bytes, content_hash);
        let operands = p.references.map_or(operand_count, |summary| summary.operand_count);
        let expected = (p.entry_count, p.tombstone_count, operands, p.data_bytes, p.content_hash);
        if found != expected {
            let message =
                format!("expected entries, deletions, operands, bytes, hash {expected:?}, found {found:?}");
            return Err(Error::corrupt(self.name(), self.footer().properties.offset, message));
        }
        if expiring != p.expiring {
            let (expected, found) = (p.expiring.points(), expiring.points());
            let message = format!("expected (ms, bytes) that expire {expected:?}, found {found:?}");
            return Err(Error::corrupt(self.name(), self.footer().properties.offset, message));
        }
        Ok(())
    }

    /// Compares the checksum of every data block and tells `fault` of each that is bad. Blocks on
    /// the device.
    ///
    /// Goes on after a fault, so that all of them are named; [`verify`](Self::verify) stops at the
    /// first.
    pub fn verify_blocks(&self, fault: &mut dyn FnMut(Error)) {
        let mut stored = Vec::new();
        for block in 0..self.index.block_count() {
            let Some((offset, bytes)) = self.index.block(block) else { break };
            stored.clear();
            stored.resize(bytes as usize, 0);
            let checked = self.file.read_at(offset, &mut stored).and_then(|()| {
                block::check(&stored).map(|_| ()).map_err(|error| self.corrupt(offset, &error))
            });
            if let Err(error) = checked {
                fault(error);
            }
        }
    }

    /// Range tombstones are as many and where the properties say; their bounds and sequences decide
    /// which lookups ask them.
    fn verify_tombstones(&self) -> Result<()> {
        let (p, list) = (self.properties(), self.tombstones());
        let (Some(start), Some(end), Some((oldest, newest))) =
            (list.smallest(), list.end(), list.sequence_range())
        else {
            return match p.range_tombstone_count {
                0 => Ok(()),
                count => Err(self.wrong_tombstones(format!("expected {count} range tombstones, found none"))),
            };
        };
        if list.len() as u64 != p.range_tombstone_count {
            let (expected, found) = (p.range_tombstone_count, list.len());
            return Err(self.wrong_tombstones(format!("expected {expected} range tombstones, found {found}")));
        }
        if start < &p.smallest[..] || end > &p.largest[..] {
            let message = "expected range tombstones between the table's bounds, found one outside";
            return Err(self.wrong_tombstones(message.to_owned()));
        }
        if oldest < p.sequence_min || newest > p.sequence_max {
            let message = "expected range tombstones with the table's sequences, found one outside";
            return Err(self.wrong_tombstones(message.to_owned()));
        }
        Ok(())
    }

    fn wrong_tombstones(&self, message: String) -> Error {
        Error::corrupt(self.name(), self.footer().tombstones.offset, message)
    }

    fn verify_prefix(&self, entry: &Entry<'_>, prefix_bytes: Option<Prefix<'_>>) -> Result<()> {
        let bytes = prefix_bytes.and_then(|prefix_bytes| prefix_bytes(entry.key));
        let Some(prefix) = bytes.and_then(|bytes| entry.key.get(..bytes)) else { return Ok(()) };
        if self.may_contain_prefix(filter_hash(prefix)) {
            return Ok(());
        }
        let what = "expected a filter that knows every prefix, found one it does not";
        let message = format!("{what}: {} of {}", prefix.escape_ascii(), entry.key.escape_ascii());
        Err(Error::corrupt(self.name(), self.footer().prefixes.offset, message))
    }

    fn verify_entry(&self, entry: &Entry<'_>, sums: &mut Sums) -> Result<()> {
        let fault = |what: &str| {
            let key = entry.key.escape_ascii();
            Err(Error::corrupt(self.name(), 0, format!("{what}: {key} @ {}", entry.sequence)))
        };
        let p = self.properties();
        let ordered = sums.last.as_ref().is_none_or(|(key, sequence)| {
            key.as_slice() < entry.key || (key == entry.key && *sequence > entry.sequence)
        });
        if !ordered {
            return fault("expected entries in order, found one out of it");
        }
        if entry.key < &p.smallest[..] || entry.key > &p.largest[..] {
            return fault("expected entries between the table's bounds, found one outside");
        }
        let (oldest, newest) = self.sequences();
        if entry.sequence < oldest || entry.sequence > newest {
            return fault("expected sequences between the table's, found one outside");
        }
        if !self.may_contain(filter_hash(entry.key)) {
            return fault("expected a filter that knows every key, found one it does not");
        }
        let is_newest = sums.last.as_ref().is_none_or(|(key, _)| key != entry.key);
        if is_newest && self.newest_sequence(entry.key)? != Some(entry.sequence) {
            return fault("expected an index that finds every key, found one it does not");
        }
        let claimed = p.references.filter(|_| entry.kind == Kind::PutReference);
        if let Some(summary) = claimed
            && Reference::decode(entry.value).is_ok_and(|it| it.value_bytes < summary.value_bytes_min)
        {
            return fault("expected no separated value shorter than the table says, found one");
        }
        sums.entry_count += 1;
        sums.tombstone_count += u64::from(entry.kind == Kind::Delete);
        sums.operand_count += u64::from(entry.kind == Kind::Merge);
        sums.expiring.add_entry(entry);
        sums.data_bytes += (entry.key.len() + entry.value.len()) as u64;
        sums.content_hash = sums.content_hash.wrapping_add(entry_hash(&self.stored(entry)));
        match &mut sums.last {
            Some((key, sequence)) => {
                key.clear();
                key.extend_from_slice(entry.key);
                *sequence = entry.sequence;
            }
            None => sums.last = Some((entry.key.to_vec(), entry.sequence)),
        }
        Ok(())
    }

    /// `entry` as the file has it.
    fn stored<'e>(&self, entry: &Entry<'e>) -> Entry<'e> {
        let sequence = if self.given.is_some() { Sequence(0) } else { entry.sequence };
        Entry { sequence, ..*entry }
    }

    fn newest_sequence(&self, key: &[u8]) -> Result<Option<Sequence>> {
        match self.newest(key, filter_hash(key), Sequence::MAX, ReadMode::Blocking)? {
            Lookup::Found(hit) => Ok(Some(hit.sequence())),
            Lookup::Absent | Lookup::Miss => Ok(None),
        }
    }

    fn verify_file_checksum(&self, expected: u64) -> Result<()> {
        match file_checksum(&*self.file)? {
            found if found == expected => Ok(()),
            found => {
                let message = format!("expected a file with checksum {expected:#018x}, found {found:#018x}");
                Err(Error::corrupt(self.name(), 0, message))
            }
        }
    }
}

/// The checksum of all bytes of `file`, as [`TableMeta::file_checksum`] has it. Blocks while it is
/// read; what comes next is asked for ahead.
///
/// # Errors
/// What reading says.
pub fn file_checksum(file: &dyn ReadFile) -> Result<u64> {
    let mut checksum = FileChecksum::default();
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut offset = 0;
    while offset < file.len() {
        if offset.is_multiple_of(AHEAD_BYTES) {
            file.will_need(offset, 2 * AHEAD_BYTES);
        }
        let bytes = (file.len() - offset).min(CHUNK_BYTES as u64) as usize;
        let Some(part) = chunk.get_mut(..bytes) else { break };
        file.read_at(offset, part)?;
        checksum.update(part);
        offset += bytes as u64;
    }
    Ok(checksum.finish())
}
