//! The lines that a point read of a mapped table touches, loaded ahead of it.
//!
//! ```text
//!   filter line ─► (maybe there) ─► fences ─► where the block lies ─► tail of the block ─► its keys
//! ```
//! Each step knows where to look only once the one before has arrived. A caller with several keys
//! to look up takes the first step for all of them, then the second, and so on. So their misses
//! overlap. Nothing here waits for a device: where pages may have left memory, nothing but the
//! filter is loaded.

use firn_format::filter;
use firn_format::table::data::Shape;

use super::TableReader;
use crate::backend::prefetch;

/// Bytes of keys of a block that are loaded; a block of 4 KiB with values of 50 bytes has no more.
const KEY_BYTES: usize = 1024;

impl TableReader {
    /// Begins to load what [`may_contain`](Self::may_contain) looks at.
    #[inline]
    pub fn prefetch_filter(&self, key_hash: u32) {
        if let Some(line) = filter::line(self.filter.get(), key_hash) {
            prefetch(line);
        }
    }

    /// Begins to load what [`prefetch_place`](Self::prefetch_place) looks at; `false` if this
    /// table's blocks are not to be touched ahead.
    #[inline]
    pub fn prefetch_fences(&self, key: &[u8]) -> bool {
        if !self.reads_in_place() {
            return false;
        }
        self.index.fence_lines(key).for_each(prefetch);
        true
    }

    /// The block that holds `key` if any does; begins to load what is known of it.
    #[inline]
    pub fn prefetch_place(&self, key: &[u8]) -> usize {
        let block = self.index.find(key);
        if let Some(place) = self.index.place(block) {
            prefetch(place);
        }
        if let Some(word) = self.verified_word(block) {
            prefetch(word);
        }
        block
    }

    /// Begins to load the tail and the first value of block `block`.
    #[inline]
    pub fn prefetch_block(&self, block: usize) {
        self.begin_load(block);
    }

    /// Begins to load the keys of block `block`, whose tail was loaded.
    #[inline]
    pub fn prefetch_keys(&self, block: usize) {
        if !self.is_verified(block) {
            return;
        }
        let Some((offset, bytes)) = self.index.block(block) else { return };
        let Some([payload @ .., _, _, _, _, _, _, _, _, _]) = self.mapped(offset, bytes) else { return };
        let Ok(shape) = Shape::of(payload) else { return };
        let (keys, _) = shape.parts();
        let keys = payload.get(keys).unwrap_or_default();
        keys.iter().take(KEY_BYTES).step_by(64).for_each(prefetch);
    }
}
