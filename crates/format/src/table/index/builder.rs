//! Writing both levels.

use crate::table::block;
use crate::table::data::common_bytes;
use crate::varint;

/// Bytes of payload at which an index block is closed.
const INDEX_BLOCK_BYTES: usize = 4096;

/// Whole separators of an index block have at most this many times the bytes of its entries.
///
/// The builder closes a block before an entry that would break it; a block's first entry has its
/// separator whole and cannot. So a reader may refuse what expands further, and never allocates
/// more than this many times what it was given.
pub(super) const EXPANSION_MAX: usize = 64;

/// Gathers separators while data blocks are written.
#[derive(Debug, Default)]
pub struct IndexBuilder {
    /// Sealed index blocks.
    sealed: Vec<u8>,
    /// Entries of the top index.
    top: Vec<u8>,
    index_blocks: u32,
    /// Entries of the open index block, and how many.
    entries: Vec<u8>,
    entry_count: u32,
    /// Bytes of the open block's separators, whole.
    expanded_bytes: usize,
    first_offset: u64,
    last_separator: Vec<u8>,
    data_blocks: u64,
    data_bytes: u64,
}

impl IndexBuilder {
    /// The next data block has `block_bytes` bytes, trailer included, and ends at `separator`.
    pub fn add(&mut self, separator: &[u8], block_bytes: u64) {
        let mut shared = common_bytes(&self.last_separator, separator);
        let entry_bytes = varint::encoded_bytes(shared as u64)
            + varint::encoded_bytes((separator.len() - shared) as u64)
            + varint::encoded_bytes(block_bytes)
            + (separator.len() - shared);
        let expanded_bytes = self.expanded_bytes + separator.len();
        if self.entry_count > 0 && expanded_bytes > (self.entries.len() + entry_bytes) * EXPANSION_MAX {
            self.close_block();
        }
        if self.entry_count == 0 {
            self.first_offset = self.data_bytes;
            self.last_separator.clear();
            shared = 0;
        }
        let suffix = separator.get(shared..).unwrap_or_default();
        varint::encode(shared as u64, &mut self.entries);
        varint::encode(suffix.len() as u64, &mut self.entries);
        varint::encode(block_bytes, &mut self.entries);
        self.entries.extend_from_slice(suffix);
        self.expanded_bytes += separator.len();
        self.last_separator.truncate(shared);
        self.last_separator.extend_from_slice(suffix);
        self.entry_count += 1;
        self.data_blocks += 1;
        self.data_bytes += block_bytes;
        if self.entries.len() >= INDEX_BLOCK_BYTES {
            self.close_block();
        }
    }

    /// All index blocks as they stand in the file, and the top index's payload.
    pub fn finish(mut self) -> (Vec<u8>, Vec<u8>) {
        if self.entry_count > 0 {
            self.close_block();
        }
        let mut top = Vec::with_capacity(self.top.len() + 12);
        top.extend_from_slice(&self.data_blocks.to_le_bytes());
        top.extend_from_slice(&self.index_blocks.to_le_bytes());
        top.extend_from_slice(&self.top);
        (self.sealed, top)
    }

    /// Bytes both levels have so far.
    pub fn estimated_bytes(&self) -> usize {
        self.sealed.len() + self.entries.len() + self.top.len()
    }

    /// Data blocks added.
    pub fn block_count(&self) -> u64 {
        self.data_blocks
    }

    fn close_block(&mut self) {
        let start = self.sealed.len();
        self.sealed.extend_from_slice(&self.first_offset.to_le_bytes());
        self.sealed.extend_from_slice(&self.entry_count.to_le_bytes());
        self.sealed.extend_from_slice(&self.entries);
        block::seal_raw(&mut self.sealed, start);
        varint::encode((self.sealed.len() - start) as u64, &mut self.top);
        varint::encode(u64::from(self.entry_count), &mut self.top);
        varint::encode(self.last_separator.len() as u64, &mut self.top);
        self.top.extend_from_slice(&self.last_separator);
        self.index_blocks += 1;
        self.entries.clear();
        self.entry_count = 0;
        self.expanded_bytes = 0;
    }
}

/// Writes to `out` (cleared first) a short key that is not below `last` and below `next`.
///
/// `last` itself where nothing shorter will do. `last < next` is required.
pub fn shortest_separator(last: &[u8], next: &[u8], out: &mut Vec<u8>) {
    out.clear();
    let common = common_bytes(last, next);
    let tail = last.get(common..).unwrap_or_default();
    if !tail.is_empty() && next.len() > common + 1 {
        out.extend_from_slice(next.get(..=common).unwrap_or(last));
        return;
    }
    // `next` ends right after the difference: raise a byte of `last`, the first where that stays
    // below `next`.
    for (index, byte) in tail.iter().enumerate() {
        let limit = if index == 0 { next.get(common).copied().unwrap_or(0) } else { u8::MAX };
        let raised = byte.saturating_add(1);
        if *byte < u8::MAX && (index > 0 || raised < limit) {
            out.extend_from_slice(last.get(..common + index).unwrap_or_default());
            out.push(raised);
            return;
        }
    }
    out.extend_from_slice(last);
}
