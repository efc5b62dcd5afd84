//! Strings, however long.
//!
//! Up to [`STRING_BYTES_MAX`] a string is all in its record. A longer one is a collection of
//! fragments, of which a command reads and writes only those that it needs. A fragment that is
//! missing or short is zeros to its end.

use std::borrow::Cow;
use std::ops::Range;
use std::rc::Rc;

use firn_engine::ScanRange;
use firn_format::datatype::value::STRING_BYTES_MAX as RECORD_BYTES_MAX;
use firn_format::datatype::{Field, Tag, Value};

use super::{Collection, Entry, Transaction};
use crate::bounds::READ_TOGETHER_MAX;
use crate::failure::{Failure, Result};
use crate::server_thread::Turns;

/// What the keys of a string's fragments have at most, beside the key of the string.
const FRAGMENT_KEY_BYTES: usize = 64;

/// Longest string, as clients know it.
pub(crate) const STRING_BYTES_MAX: usize = 512 << 20;

impl Transaction {
    /// Bytes to which a string may grow part by part: no more than it could have been set to at
    /// once.
    pub(crate) fn string_bytes_max(&self) -> usize {
        self.thread.shared.parameters.argument_bytes_max().min(STRING_BYTES_MAX)
    }

    /// Length of the string that stands there; `None` if the key does not exist.
    ///
    /// # Errors
    /// `WRONGTYPE` if it is no string.
    pub(crate) fn string_len(&self, entry: &Entry) -> Result<Option<usize>> {
        match entry.value()? {
            None => Ok(None),
            Some(Value::String { bytes, .. }) => Ok(Some(bytes.len())),
            Some(Value::LongString { collection, .. }) => Ok(Some(collection.count as usize)),
            Some(_) => Err(Failure::WRONG_TYPE),
        }
    }

    /// The string that stands there; `None` if the key does not exist.
    ///
    /// # Errors
    /// `WRONGTYPE` if it is no string.
    pub(crate) async fn string<'e>(&mut self, entry: &'e Entry) -> Result<Option<Cow<'e, [u8]>>> {
        match self.string_len(entry)? {
            None => Ok(None),
            Some(len) => self.string_range(entry, 0..len).await.map(Some),
        }
    }

    /// The part of the string that stands there, which has it.
    pub(crate) async fn string_range<'e>(
        &mut self,
        entry: &'e Entry,
        range: Range<usize>,
    ) -> Result<Cow<'e, [u8]>> {
        match entry.value()? {
            Some(Value::String { bytes, .. }) => Ok(Cow::Borrowed(bytes.get(range).unwrap_or_default())),
            Some(Value::LongString { .. }) => {
                let Some(collection) = entry.collection(Tag::LongString)? else {
                    return Ok(Cow::Borrowed(&[]));
                };
                self.fragments(&collection, range).await.map(Cow::Owned)
            }
            Some(_) => Err(Failure::WRONG_TYPE),
            None => Ok(Cow::Borrowed(&[])),
        }
    }

    async fn fragments(&mut self, collection: &Collection, range: Range<usize>) -> Result<Vec<u8>> {
        let fragment_bytes = collection.fragment_bytes();
        let mut string = vec![0; range.len()];
        if range.is_empty() {
            return Ok(string);
        }
        let first = (range.start / fragment_bytes) as u32;
        let last = ((range.end - 1) / fragment_bytes) as u32;
        let mut fill = |index: u32, fragment: &[u8]| {
            let at = index as usize * fragment_bytes;
            let from = range.start.max(at);
            let to = range.end.min(at + fragment.len());
            if from < to {
                string[from - range.start..to - range.start].copy_from_slice(&fragment[from - at..to - at]);
            }
        };
        if !self.thread.engine.is_ordered() {
            self.each_fragment(collection, first..last + 1, &mut fill).await?;
            return Ok(string);
        }
        let start = collection.field_key(Field::Fragment(first));
        let mut end = collection.field_key(Field::Fragment(last));
        end.push(0);
        let mut cursor = self.scan(self.keyspaces().fields, ScanRange::between(&start, &end))?;
        while let Some((key, fragment)) = cursor.next().await? {
            let Field::Fragment(index) = collection.field_of(key)? else { continue };
            fill(index, fragment);
        }
        Ok(string)
    }

    /// Gives `take` the fragments of a range that there are, each read by its name. Others have
    /// their turns meanwhile.
    async fn each_fragment(
        &mut self,
        collection: &Collection,
        mut indexes: Range<u32>,
        take: &mut dyn FnMut(u32, &[u8]),
    ) -> Result<()> {
        let thread = Rc::clone(&self.thread);
        let mut turns = Turns::new(&thread);
        while !indexes.is_empty() {
            let some = indexes.clone().take(READ_TOGETHER_MAX).map(Field::Fragment);
            for fragment in self.some_field_values(collection, some).await? {
                let fragment = fragment.unwrap_or_default();
                take(indexes.start, &fragment);
                indexes.start += 1;
                turns.step(fragment.len()).await;
            }
        }
        Ok(())
    }

    /// Lets a copy of a long string stand at `to`, fragment by fragment.
    pub(super) async fn copy_fragments(&mut self, original: &Collection, copy: &Collection) -> Result<()> {
        let mut left = 0..original.count().div_ceil(original.fragment_bytes() as u64) as u32;
        while !left.is_empty() {
            let some = left.start..left.end.min(left.start + READ_TOGETHER_MAX as u32);
            let mut found = Vec::new();
            self.each_fragment(original, some.clone(), &mut |index, fragment| {
                if !fragment.is_empty() {
                    found.push((index, fragment.to_vec()));
                }
            })
            .await?;
            for (index, fragment) in found {
                self.put_field(copy, Field::Fragment(index), &fragment);
            }
            left.start = some.end;
        }
        Ok(())
    }

    /// Lets a string stand at the key, whatever stood there, to expire at `expires_at_ms` (0 =
    /// never).
    ///
    /// # Errors
    /// Longer than [`STRING_BYTES_MAX`].
    pub(crate) async fn set_string(&mut self, entry: &Entry, bytes: &[u8], expires_at_ms: u64) -> Result<()> {
        if bytes.len() <= RECORD_BYTES_MAX {
            return self.put_string_record(entry, bytes, expires_at_ms);
        }
        if bytes.len() > STRING_BYTES_MAX {
            return Err(Failure::TOO_LONG_STRING);
        }
        let mut string = self.begin_string(entry, bytes.len()).await?;
        self.put_fragments(&string, 0, bytes).await?;
        self.end_string(&mut string, bytes.len(), expires_at_ms);
        Ok(())
    }

    /// Begins a string of `len` bytes at the key, more than a record holds, whatever stood there.
    /// It is to be written from its front by [`put_fragments`](Self::put_fragments), and then
    /// [ended](Self::end_string).
    pub(crate) async fn begin_string(&mut self, entry: &Entry, len: usize) -> Result<Collection> {
        let string = self.create(entry, Tag::LongString).await?;
        let key_bytes = FRAGMENT_KEY_BYTES + entry.key.bytes().len();
        self.own.reserve(len + (len / string.fragment_bytes() + 2) * key_bytes);
        Ok(string)
    }

    /// The string has `len` bytes, and expires at `expires_at_ms` (0 = never).
    pub(crate) fn end_string(&mut self, string: &mut Collection, len: usize, expires_at_ms: u64) {
        string.set_count(len as u64);
        self.set_collection_expiry(string, expires_at_ms);
        self.save(string);
    }

    /// Writes `bytes` into the string from `offset` on, with zeros in front where there was
    /// nothing; how long it is then. When it expires stays.
    ///
    /// # Errors
    /// `WRONGTYPE` if no string stands there; longer than
    /// [`string_bytes_max`](Self::string_bytes_max).
    pub(crate) async fn write_string(&mut self, entry: &Entry, offset: usize, bytes: &[u8]) -> Result<usize> {
        let old_len = self.string_len(entry)?.unwrap_or(0);
        let end = offset.checked_add(bytes.len()).filter(|end| *end <= self.string_bytes_max());
        let len = end.ok_or(Failure::TOO_LONG_STRING)?.max(old_len);
        let expires_at_ms = entry.expires_at_ms()?;
        if let Some(Value::LongString { .. }) = entry.value()? {
            if let Some(mut collection) = entry.collection(Tag::LongString)? {
                self.write_fragments(&mut collection, offset, bytes, expires_at_ms).await?;
            }
            return Ok(len);
        }
        let mut string = self.string(entry).await?.unwrap_or_default().into_owned();
        if len <= RECORD_BYTES_MAX {
            string.resize(len, 0);
            string[offset..offset + bytes.len()].copy_from_slice(bytes);
            self.put_string_record(entry, &string, expires_at_ms)?;
        } else {
            // It outgrows its record: what it was goes into the first fragments.
            let mut collection = self.create(entry, Tag::LongString).await?;
            self.write_fragments(&mut collection, 0, &string, expires_at_ms).await?;
            self.write_fragments(&mut collection, offset, bytes, expires_at_ms).await?;
        }
        Ok(len)
    }

    async fn write_fragments(
        &mut self,
        collection: &mut Collection,
        offset: usize,
        bytes: &[u8],
        expires_at_ms: u64,
    ) -> Result<()> {
        let len = (collection.count() as usize).max(offset + bytes.len());
        self.put_fragments(collection, offset, bytes).await?;
        self.end_string(collection, len, expires_at_ms);
        Ok(())
    }

    /// Writes `bytes` into the fragments of a string from `offset` on. Its description is for the
    /// caller to write.
    pub(crate) async fn put_fragments(
        &mut self,
        collection: &Collection,
        offset: usize,
        mut bytes: &[u8],
    ) -> Result<()> {
        let fragment_bytes = collection.fragment_bytes();
        let mut at = offset;
        let thread = Rc::clone(&self.thread);
        let mut turns = Turns::new(&thread);
        while !bytes.is_empty() {
            let within = at % fragment_bytes;
            let (piece, rest) = bytes.split_at(bytes.len().min(fragment_bytes - within));
            let field = Field::Fragment((at / fragment_bytes) as u32);
            if piece.len() == fragment_bytes {
                self.put_field(collection, field, piece);
            } else {
                let mut fragment = self.field(collection, field).await?.unwrap_or_default();
                fragment.resize(fragment.len().max(within + piece.len()), 0);
                fragment[within..within + piece.len()].copy_from_slice(piece);
                self.put_field(collection, field, &fragment);
            }
            (at, bytes) = (at + piece.len(), rest);
            turns.step(piece.len()).await;
        }
        Ok(())
    }
}
