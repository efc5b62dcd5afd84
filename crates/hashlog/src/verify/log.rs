//! Segments of the log: each there, each record what was written.

use firn_format::file_name::{FileName, hybrid_segment};
use firn_format::hybrid::image::{PREFIX_BYTES, open_record, shape_at};
use firn_format::hybrid::{Link, SEGMENT_HEADER_BYTES, SegmentHeader, Shape};
use firn_storage::ReadFile;

use super::values::{Key, References, Stamp};
use super::{Verifier, segment_words};
use crate::keyspaces::number_of_keyspace;
use crate::state::State;

/// Bytes that are read at once.
const READ_BYTES: u64 = 4 << 20;

/// The part of a log that counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    /// What it is called.
    pub(super) log: &'static str,
    pub(super) begin: u64,
    pub(super) cut: u64,
    /// The name of the segment with a first address.
    pub(super) name: fn(u64) -> String,
}

impl Verifier<'_> {
    /// Checks the segments of the log between its beginning and the last checkpoint. What lies
    /// behind that in a segment is of a process that died, or of one that is open.
    pub(super) fn check_segments(&mut self, state: &State, references: &mut References) {
        let extent = Extent { log: "log", begin: state.begin, cut: state.cut, name: hybrid_segment };
        let base = |name| if let FileName::HybridSegment(base) = name { Some(base) } else { None };
        self.check_strays(state, extent, base);
        self.check_log(state, extent, &mut |key, record| {
            references.add_record(key, record.shape, record.value(), Stamp::of_record(record.address));
        });
    }

    /// Names segments that lie outside `extent`.
    pub(super) fn check_strays(
        &mut self,
        state: &State,
        extent: Extent,
        base: impl Fn(FileName) -> Option<u64>,
    ) {
        let Some(words) = segment_words(state) else { return };
        let Extent { log, begin, cut, .. } = extent;
        for (name, base) in self.named(base) {
            if base >= cut || base.saturating_add(words) <= begin {
                self.leftover(&name, None, format!("the {log} has addresses from {begin} to {cut}"));
                self.advance(&name);
            }
        }
    }

    /// Checks the segments of a log; `take` gets each record that came into a chain, and its key.
    pub(super) fn check_log(&mut self, state: &State, extent: Extent, take: &mut dyn FnMut(&Key, &Record)) {
        let Some(words) = segment_words(state) else { return };
        let mut at = extent.begin;
        while at < extent.cut {
            let base = at / words * words;
            let name = (extent.name)(base);
            self.report.totals.log_segments += 1;
            match self.files.contains_key(&name) {
                true => self.check_segment(&name, base, (state, extent), take),
                false => self.damage(
                    &name,
                    None,
                    format!("expected a segment from address {base} on, found no file"),
                ),
            }
            self.advance(&name);
            at = base + words;
        }
    }

    fn check_segment(
        &mut self,
        name: &str,
        base: u64,
        (state, extent): (&State, Extent),
        take: &mut dyn FnMut(&Key, &Record),
    ) {
        let words = segment_words(state).unwrap_or_default();
        let (from, to) = (extent.begin.max(base), extent.cut.min(base + words));
        let file = match self.storage.open_read(name) {
            Ok(file) => file,
            Err(error) => return self.refused(name, &error),
        };
        let least = SEGMENT_HEADER_BYTES as u64 + 8 * (to - base);
        if file.len() < least {
            let message = format!("expected at least {least} bytes, found {}", file.len());
            return self.damage(name, None, message);
        }
        let mut header = vec![0; SEGMENT_HEADER_BYTES];
        if let Err(error) = file.read_at(0, &mut header) {
            return self.refused(name, &error);
        }
        match SegmentHeader::decode(&header) {
            Err(error) => self.undecoded(name, 0, error),
            Ok(found) if (found.database, found.base, found.words) != (state.database, base, words) => {
                let message = format!(
                    "expected a segment of database {:032x} with {words} words from {base} on, found {found:?}",
                    state.database
                );
                self.damage(name, Some(16), message);
            }
            Ok(_) => {}
        }
        let mut walk = Walk { name, file: &*file, base, at: from, to, bytes: Vec::new(), taken: 0 };
        while let Some(record) = self.next_record(&mut walk) {
            self.report.totals.log_records += 1;
            let key = record.key();
            self.check_keyspace(name, key.0, state);
            if !record.link.is_invalid() {
                take(&key, &record);
            }
        }
    }

    /// A record in `name` is of a keyspace that there is, or was.
    pub(super) fn check_keyspace(&mut self, name: &str, keyspace: u32, state: &State) {
        if number_of_keyspace(keyspace) >= state.next_number && !self.unknown_keyspaces.contains(&keyspace) {
            let message = format!(
                "a record of keyspace {keyspace}, which the manifest does not know: is its newest edit missing?"
            );
            self.damage(name, None, message);
            self.unknown_keyspaces.push(keyspace);
        }
    }

    /// The next record that is what was written; `None` at the end, or where it cannot be told how
    /// long what follows is.
    fn next_record(&mut self, walk: &mut Walk<'_>) -> Option<Record> {
        loop {
            let offset = walk.offset();
            let prefix = match walk.bytes_at(PREFIX_BYTES as u64) {
                Ok([]) => return None,
                Ok(bytes) => bytes,
                Err(error) => {
                    self.refused(walk.name, &error);
                    return None;
                }
            };
            let (link, shape) = match shape_at(prefix) {
                Ok(None) => {
                    walk.pass(1);
                    continue;
                }
                Ok(Some(found)) => found,
                Err(error) => {
                    let message = format!("{error}; what follows in this segment is not checked");
                    self.damage(walk.name, Some(offset + error.offset as u64), message);
                    return None;
                }
            };
            let length = 8 * shape.words() as u64;
            let left = 8 * (walk.to - walk.at);
            let mut bytes = match walk.bytes_at(length) {
                Ok(bytes) if bytes.len() as u64 >= length => bytes[..length as usize].to_vec(),
                Ok(_) => {
                    let message = format!("expected a record of at most {left} bytes, found one of {length}");
                    self.damage(walk.name, Some(offset), message);
                    return None;
                }
                Err(error) => {
                    self.refused(walk.name, &error);
                    return None;
                }
            };
            let address = walk.at;
            walk.pass(shape.words() as u64);
            if let Err(error) = open_record(address, &mut bytes) {
                self.undecoded(walk.name, offset, error);
                continue;
            }
            if link.previous() >= address {
                let message = format!(
                    "expected a record before address {address} as the one before, found {}",
                    link.previous()
                );
                self.damage(walk.name, Some(offset), message);
            }
            return Some(Record { address, link, shape, bytes });
        }
    }
}

/// One record of a segment.
pub(super) struct Record {
    pub(super) address: u64,
    link: Link,
    pub(super) shape: Shape,
    bytes: Vec<u8>,
}

impl Record {
    fn part(&self, first_word: usize, length: usize) -> &[u8] {
        self.bytes.get(8 * first_word..8 * first_word + length).unwrap_or_default()
    }

    fn key(&self) -> Key {
        let keyspace = match self.shape.has_keyspace {
            true => self.part(self.shape.keyspace_at(), 4).try_into().map_or(0, u32::from_le_bytes),
            false => 0,
        };
        (keyspace, self.part(self.shape.key_at(), self.shape.key_bytes).to_vec())
    }

    pub(super) fn value(&self) -> &[u8] {
        self.part(self.shape.value_at(), self.shape.value_bytes)
    }
}

/// A way through the words of a segment.
struct Walk<'f> {
    name: &'f str,
    file: &'f dyn ReadFile,
    base: u64,
    /// Address of the next word, and of the first one behind the last.
    at: u64,
    to: u64,
    /// What was read, and how much of it lies behind.
    bytes: Vec<u8>,
    taken: usize,
}

impl Walk<'_> {
    /// Where in the file the next word lies.
    fn offset(&self) -> u64 {
        SEGMENT_HEADER_BYTES as u64 + 8 * (self.at - self.base)
    }

    /// The bytes from here on, at least so many, or all that are left.
    fn bytes_at(&mut self, least: u64) -> firn_storage::Result<&[u8]> {
        let left = 8 * (self.to - self.at);
        let read = (self.bytes.len() - self.taken) as u64;
        if read < least.min(left) {
            self.bytes.drain(..self.taken);
            self.taken = 0;
            let read = self.bytes.len();
            let more = left.min(least.max(READ_BYTES));
            self.bytes.resize(more as usize, 0);
            let from = self.offset() + read as u64;
            self.file.read_at(from, &mut self.bytes[read..])?;
        }
        Ok(&self.bytes[self.taken..])
    }

    /// Goes so many words on.
    fn pass(&mut self, words: u64) {
        self.at += words;
        self.taken += 8 * words as usize;
    }
}
