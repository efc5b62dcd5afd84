//! The bytes of a table's file, front to back.

use crate::error::Result;
use crate::filter;
use crate::table::block::{self, Sealer};
use crate::table::content::FileChecksum;
use crate::table::footer::Handle;

/// Bytes that were made and not released yet: final ones, then the open block.
#[derive(Debug, Default)]
pub(super) struct Output {
    bytes: Vec<u8>,
    /// File offset of the first of `bytes`.
    released_bytes: u64,
    /// Where in `bytes` the open block begins: everything before is final.
    block_start: usize,
    /// Of the released bytes.
    checksum: FileChecksum,
}

/// Room for output kept from one release to the next.
const BYTES_KEPT: usize = 4 << 20;

impl Output {
    /// Bytes that are final and not released yet.
    pub(super) fn completed(&self) -> &[u8] {
        self.bytes.get(..self.block_start).unwrap_or_default()
    }

    /// Forgets the first `bytes` of the completed bytes, or all of them.
    pub(super) fn release(&mut self, bytes: usize) {
        let bytes = bytes.min(self.block_start);
        self.checksum.update(self.bytes.get(..bytes).unwrap_or_default());
        self.released_bytes += bytes as u64;
        self.bytes.drain(..bytes);
        self.block_start -= bytes;
        if self.bytes.capacity() > BYTES_KEPT {
            self.bytes.shrink_to(BYTES_KEPT);
        }
    }

    /// Where the open block grows: what is appended belongs to it.
    #[inline]
    pub(super) fn open_block(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Seals the open block, and begins the next one. Answers its bytes in the file.
    ///
    /// # Errors
    /// If the codec fails.
    pub(super) fn seal_block(&mut self, sealer: &mut Sealer) -> Result<u64> {
        sealer.seal(&mut self.bytes, self.block_start)?;
        let bytes = (self.bytes.len() - self.block_start) as u64;
        self.complete();
        Ok(bytes)
    }

    /// Everything so far is final.
    pub(super) fn complete(&mut self) {
        self.block_start = self.bytes.len();
    }

    /// Appends a block that `fill` writes, uncompressed.
    pub(super) fn put_block(&mut self, fill: impl FnOnce(&mut Vec<u8>)) -> Handle {
        let (offset, start) = (self.end(), self.bytes.len());
        fill(&mut self.bytes);
        block::seal_raw(&mut self.bytes, start);
        Handle { offset, bytes: (self.bytes.len() - start) as u64 }
    }

    /// Appends the filter of `hashes`, if there are any.
    pub(super) fn put_filter(&mut self, hashes: &[u32], bits_per_key: u32) -> Handle {
        if hashes.is_empty() {
            return Handle::default();
        }
        let filter = filter::build(hashes, bits_per_key);
        self.put_block(|out| out.extend_from_slice(&filter))
    }

    /// Appends blocks that are sealed already.
    pub(super) fn put_sealed(&mut self, blocks: &[u8]) -> Handle {
        let offset = self.end();
        self.bytes.extend_from_slice(blocks);
        Handle { offset, bytes: blocks.len() as u64 }
    }

    /// File offset where the open block begins.
    pub(super) fn completed_end(&self) -> u64 {
        self.released_bytes + self.block_start as u64
    }

    /// File offset behind the last byte.
    pub(super) fn end(&self) -> u64 {
        self.released_bytes + self.bytes.len() as u64
    }

    /// xxh3-64 of all bytes, released or not.
    pub(super) fn checksum(&self) -> u64 {
        let mut whole = self.checksum.clone();
        whole.update(&self.bytes);
        whole.finish()
    }
}
