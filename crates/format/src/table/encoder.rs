//! A table as a stream of bytes, without I/O.

use std::fmt;

use super::PrefixBytes;
use super::block::Sealer;
use super::content::entry_hash;
use super::data::DataBlockBuilder;
use super::footer::{FOOTER_BYTES, Footer};
use super::index::{IndexBuilder, shortest_separator};
use super::properties::{Properties, ReferenceSummary};
use super::references::ReferenceSet;
use crate::blob::{Reference, SegmentNumber};
use crate::compression::Compression;
use crate::error::{Error, Result};
use crate::filter;
use crate::key::{Entry, Kind, Sequence};
use crate::tombstone::FragmentList;

mod hashes;
mod output;

use hashes::FilterHashes;
use output::Output;

/// The form of a table, as far as it is a choice.
#[derive(Clone)]
pub struct TableForm {
    /// Payload bytes at which a data block is closed; a larger value gets a block of its own.
    pub block_bytes: u32,
    /// How data blocks are compressed.
    pub compression: Compression,
    /// Bits per key of the filters; 0 = no filter.
    pub filter_bits_per_key: u32,
    /// Name and function of the prefix extractor, if prefixes are to be filtered too.
    pub prefix: Option<(String, PrefixBytes)>,
}

impl Default for TableForm {
    fn default() -> Self {
        Self {
            block_bytes: 4096,
            compression: Compression::None,
            filter_bits_per_key: filter::BITS_PER_KEY_DEFAULT,
            prefix: None,
        }
    }
}

impl fmt::Debug for TableForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableForm")
            .field("block_bytes", &self.block_bytes)
            .field("compression", &self.compression)
            .field("filter_bits_per_key", &self.filter_bits_per_key)
            .field("prefix", &self.prefix.as_ref().map(|(name, _)| name))
            .finish()
    }
}

/// Turns entries in order into the bytes of a table file.
///
/// Bytes come out front to back: [`completed`](Self::completed) are final and may be written, then
/// [`release`](Self::release)d. They depend on the form and on what was added, on nothing else. A
/// value is copied once, to where it is written from.
#[derive(Debug)]
pub struct TableEncoder {
    form: TableForm,
    output: Output,
    block: DataBlockBuilder,
    sealer: Sealer,
    index: IndexBuilder,
    /// Bytes of the block just closed, until its separator is known.
    closed_block_bytes: u64,
    separator: Vec<u8>,
    filtered: FilterHashes,
    tombstones: FragmentList,
    /// Values that entries refer to, in the order of their keys.
    references: Vec<(SegmentNumber, u32)>,
    operand_count: u64,
    properties: Properties,
}

/// What [`TableEncoder::finish`] leaves: the rest of the bytes are in `completed`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// What the file says about itself.
    pub properties: Properties,
    /// Length of the file.
    pub file_bytes: u64,
    /// xxh3-64 of the whole file.
    pub file_checksum: u64,
}

impl TableEncoder {
    /// An empty table of `form`.
    pub fn new(form: TableForm) -> Self {
        let properties = Properties {
            sequence_min: Sequence::MAX,
            block_bytes: form.block_bytes,
            compression: form.compression,
            filter_bits_per_key: form.filter_bits_per_key,
            prefix_extractor: form.prefix.as_ref().map(|(name, _)| name.clone()),
            ..Properties::default()
        };
        Self {
            sealer: Sealer::new(form.compression),
            form,
            output: Output::default(),
            block: DataBlockBuilder::default(),
            index: IndexBuilder::default(),
            closed_block_bytes: 0,
            separator: Vec::new(),
            filtered: FilterHashes::default(),
            tombstones: FragmentList::new(),
            references: Vec::new(),
            operand_count: 0,
            properties,
        }
    }

    /// Adds the next entry: greater key, or the same key and a smaller sequence.
    ///
    /// # Errors
    /// Out of order, beyond a limit of [`super::data`], not a put, delete or merge, or a reference
    /// that is none. Or the codec fails.
    pub fn add(&mut self, entry: &Entry<'_>) -> Result<()> {
        let block_bytes = self.form.block_bytes as usize;
        if entry.value.len() > block_bytes && !self.block.is_empty() {
            self.close_block()?;
        }
        let same_key = self.add_to_block(entry)?;
        match entry.kind {
            Kind::PutReference => self.add_reference(entry.value)?,
            Kind::Merge => self.operand_count += 1,
            _ => {}
        }
        let properties = &mut self.properties;
        properties.expiring.add_entry(entry);
        if properties.entry_count == 0 {
            properties.smallest = entry.key.to_vec();
        }
        properties.entry_count += 1;
        properties.tombstone_count += u64::from(entry.kind == Kind::Delete);
        properties.data_bytes += (entry.key.len() + entry.value.len()) as u64;
        properties.sequence_min = properties.sequence_min.min(entry.sequence);
        properties.sequence_max = properties.sequence_max.max(entry.sequence);
        properties.content_hash = properties.content_hash.wrapping_add(entry_hash(entry));
        if !same_key && self.form.filter_bits_per_key > 0 {
            self.filtered.add(entry.key, &self.form);
        }
        if self.block.payload_bytes() >= block_bytes {
            self.close_block()?;
        }
        Ok(())
    }

    /// Adds range tombstones; any number of times before [`finish`](Self::finish).
    pub fn add_tombstones(&mut self, list: &FragmentList) {
        if !list.is_empty() {
            self.tombstones = FragmentList::merge(&[&self.tombstones, list]);
        }
    }

    /// Bytes that are final and not released yet.
    pub fn completed(&self) -> &[u8] {
        self.output.completed()
    }

    /// Forgets the first `bytes` of the completed bytes, or all of them: the caller has written
    /// those.
    pub fn release(&mut self, bytes: usize) {
        self.output.release(bytes);
    }

    /// Bytes the file would have if finished now, a little more or less.
    pub fn estimated_bytes(&self) -> u64 {
        let bits = self.filtered.len() * self.form.filter_bits_per_key as usize;
        let open = if self.block.is_empty() { 0 } else { self.block.payload_bytes() };
        let rest = open
            + self.index.estimated_bytes()
            + bits / 8
            + self.tombstones.memory_bytes() / 4
            + FOOTER_BYTES;
        self.output.completed_end() + rest as u64
    }

    /// Entries added so far.
    pub fn entry_count(&self) -> u64 {
        self.properties.entry_count
    }

    /// The last key added; empty before the first.
    pub fn last_key(&self) -> &[u8] {
        self.block.last_key()
    }

    /// Whether nothing was added.
    pub fn is_empty(&self) -> bool {
        self.properties.entry_count == 0 && self.tombstones.is_empty()
    }

    /// Completes the file; what is left of it is then [`completed`](Self::completed).
    ///
    /// # Errors
    /// Nothing was added, one value is referred to twice, or the codec fails.
    pub fn finish(&mut self) -> Result<Finished> {
        if self.is_empty() {
            return Err(Error::new(0, "entries or tombstones in a table", "none"));
        }
        if !self.block.is_empty() {
            self.close_block()?;
        }
        if self.closed_block_bytes > 0 {
            self.separator.clear();
            self.separator.extend_from_slice(self.block.last_key());
            self.index.add(&self.separator, self.closed_block_bytes);
        }
        self.finish_properties();
        let mut footer = Footer { data_bytes: self.output.end(), ..Footer::default() };
        let bits = self.form.filter_bits_per_key;
        let hashes = std::mem::take(&mut self.filtered);
        footer.filter = self.output.put_filter(&hashes.of_keys, bits);
        footer.prefixes = self.output.put_filter(&hashes.of_prefixes, bits);
        if !self.tombstones.is_empty() {
            let tombstones = std::mem::take(&mut self.tombstones);
            footer.tombstones = self.output.put_block(|out| tombstones.encode(out));
        }
        if let Some(mut summary) = self.properties.references {
            let references = ReferenceSet::from_values(std::mem::take(&mut self.references))?;
            summary.block = self.output.put_block(|out| references.encode(out));
            summary.operand_count = self.operand_count;
            self.properties.references = Some(summary);
        }
        let (blocks, top) = std::mem::take(&mut self.index).finish();
        footer.index = self.output.put_sealed(&blocks);
        footer.top = self.output.put_block(|out| out.extend_from_slice(&top));
        let properties = std::mem::take(&mut self.properties);
        footer.properties = self.output.put_block(|out| properties.encode(out));
        footer.encode(self.output.open_block());
        self.output.complete();
        let (file_bytes, file_checksum) = (self.output.end(), self.output.checksum());
        Ok(Finished { properties, file_bytes, file_checksum })
    }

    fn add_to_block(&mut self, entry: &Entry<'_>) -> Result<bool> {
        if self.closed_block_bytes == 0 {
            return Ok(self.block.add(entry, self.output.open_block())?.same_key);
        }
        // The first entry after a closed block tells that block's separator.
        let last = self.block.last_key();
        if last < entry.key {
            shortest_separator(last, entry.key, &mut self.separator);
        } else {
            self.separator.clear();
            self.separator.extend_from_slice(last);
        }
        let added = self.block.add(entry, self.output.open_block())?;
        self.index.add(&self.separator, self.closed_block_bytes);
        self.closed_block_bytes = 0;
        Ok(added.same_key)
    }

    fn add_reference(&mut self, reference: &[u8]) -> Result<()> {
        let reference = Reference::decode(reference)?;
        self.references.push((reference.segment, reference.ordinal));
        let value_bytes = reference.value_bytes;
        let first = ReferenceSummary { value_bytes_min: value_bytes, ..ReferenceSummary::default() };
        let summary = self.properties.references.get_or_insert(first);
        summary.count += 1;
        summary.value_bytes += u64::from(value_bytes);
        summary.value_bytes_min = summary.value_bytes_min.min(value_bytes);
        Ok(())
    }

    fn close_block(&mut self) -> Result<()> {
        self.block.finish(self.output.open_block());
        self.closed_block_bytes = self.output.seal_block(&mut self.sealer)?;
        Ok(())
    }

    fn finish_properties(&mut self) {
        let properties = &mut self.properties;
        properties.block_count = self.index.block_count();
        properties.largest = self.block.last_key().to_vec();
        let list = &self.tombstones;
        let (Some(start), Some(end), Some((oldest, newest))) =
            (list.smallest(), list.end(), list.sequence_range())
        else {
            return;
        };
        if properties.entry_count == 0 || start < &properties.smallest[..] {
            properties.smallest = start.to_vec();
        }
        if end > &properties.largest[..] {
            properties.largest = end.to_vec();
        }
        properties.range_tombstone_count = list.len() as u64;
        properties.sequence_min = properties.sequence_min.min(oldest);
        properties.sequence_max = properties.sequence_max.max(newest);
        properties.content_hash = properties.content_hash.wrapping_add(list.content_hash());
    }
}
