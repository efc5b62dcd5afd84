//! The index in memory.

use super::builder::EXPANSION_MAX;
use crate::bytes::Reader;
use crate::error::{Error, Result};
use crate::key::key_prefix;
use crate::table::block::{self, Checked};
use crate::table::data::common_bytes;

/// Fences that are compared at once: four cache lines.
const CHUNK: usize = 32;

/// All separators of a table, searched by 8-byte fences.
///
/// Fence i is separator i's 8 bytes after the bytes that all separators share, as a big-endian
/// number. A search halves one array of words and compares whole separators only where fences are
/// equal.
#[derive(Debug, Default)]
pub struct Index {
    common: Vec<u8>,
    fences: Vec<u64>,
    /// The last fence of every whole chunk of [`CHUNK`]. A search halves these and then counts in
    /// one chunk, whose lines are loaded side by side.
    samples: Vec<u64>,
    /// Where each data block begins, and where the last one ends.
    offsets: Vec<u64>,
    /// Separators without the common bytes, one after another.
    suffixes: Vec<u8>,
    suffix_ends: Vec<usize>,
}

impl Index {
    /// The index whose top level has payload `top` and whose index blocks are `region`.
    ///
    /// `data_bytes` is where the data blocks end. Allocates in proportion to `region`: its
    /// separators have at most 64 times its bytes, a bound that [`super::IndexBuilder`] keeps for
    /// every input. What all of them share is not repeated.
    ///
    /// # Errors
    /// Anything [`super::IndexBuilder`] does not write. Offsets are in `region`, or in `top` for
    /// `top`'s faults.
    pub fn decode(top: &[u8], region: &[u8], data_bytes: u64) -> Result<Self> {
        let mut separators = Separators::new(top, region)?;
        let mut input = Reader::new(top, 0);
        let block_count = input.u64()?;
        let index_blocks = input.u32()?;
        let mut at = 0;
        for _ in 0..index_blocks {
            let entry_at = input.offset();
            let (bytes, count) = (input.number()?, input.number()?);
            let last = input.bytes()?;
            let Some(block) = block_at(region, at, bytes) else {
                return Err(Error::new(
                    entry_at,
                    "an index block inside the index",
                    format!("{bytes} bytes"),
                ));
            };
            let before = separators.ends.len();
            separators.add_block(block).map_err(|error| error.based(at))?;
            at += block.len();
            if (separators.ends.len() - before) as u64 != count || separators.key != last {
                return Err(Error::new(entry_at, "what the index block holds", format!("{count} entries")));
            }
        }
        let whole = at == region.len() && input.is_empty() && separators.ends.len() as u64 == block_count;
        if !whole || separators.data_end != data_bytes {
            let found = format!("{} blocks to offset {}", separators.ends.len(), separators.data_end);
            return Err(Error::new(0, format!("{block_count} blocks to offset {data_bytes}"), found));
        }
        Ok(separators.into_index())
    }

    /// The first block whose separator is not below `key`; [`block_count`](Self::block_count) if
    /// there is none.
    #[inline]
    pub fn find(&self, key: &[u8]) -> usize {
        let count = self.fences.len();
        let common = common_bytes(&self.common, key);
        if common < self.common.len() {
            return match key.get(common) > self.common.get(common) {
                true => count,
                false => 0,
            };
        }
        let fence = key_prefix(key, common);
        let low = self.first_not_below(fence);
        if self.fences.get(low).is_none_or(|word| *word != fence) {
            return low;
        }
        self.find_among_equals(low, fence, key.get(common..).unwrap_or_default())
    }

    /// A fence in each cache line that [`find`](Self::find) compares last, to be loaded ahead.
    #[inline]
    pub fn fence_lines(&self, key: &[u8]) -> impl Iterator<Item = &u64> {
        let common = common_bytes(&self.common, key);
        let chunk = if common < self.common.len() { 0 } else { self.chunk_of(key_prefix(key, common)) };
        self.fences.get(chunk..).unwrap_or_default().iter().take(CHUNK).step_by(64 / size_of::<u64>())
    }

    /// Where the chunk begins in which the first fence is that is `fence` or more.
    #[inline]
    fn chunk_of(&self, fence: u64) -> usize {
        self.samples.partition_point(|word| *word < fence) * CHUNK
    }

    /// Index of the first fence that is `fence` or more.
    #[inline]
    fn first_not_below(&self, fence: u64) -> usize {
        let chunk = self.chunk_of(fence);
        match self.fences.get(chunk..).and_then(|rest| rest.first_chunk::<CHUNK>()) {
            Some(words) => chunk + words.iter().map(|word| usize::from(*word < fence)).sum::<usize>(),
            None => {
                let rest = self.fences.get(chunk..).unwrap_or_default();
                chunk + rest.iter().map(|word| usize::from(*word < fence)).sum::<usize>()
            }
        }
    }

    #[inline(never)]
    fn find_among_equals(&self, low: usize, fence: u64, suffix: &[u8]) -> usize {
        let equals = self.fences.get(low..).unwrap_or_default().partition_point(|word| *word == fence);
        let (mut low, mut high) = (low, low + equals);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.suffix(middle) < suffix {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Whether `key` is block `block`'s separator: only then can its versions go on in the next
    /// block.
    pub fn is_separator(&self, block: usize, key: &[u8]) -> bool {
        block < self.block_count() && key.strip_prefix(&self.common[..]) == Some(self.suffix(block))
    }

    /// Where block `block` begins and how many bytes it has, trailer included.
    #[inline]
    pub fn block(&self, block: usize) -> Option<(u64, u64)> {
        match self.offsets.get(block..)? {
            [start, end, ..] => Some((*start, end - start)),
            _ => None,
        }
    }

    /// The word that [`block`](Self::block) reads first, to be loaded ahead.
    #[inline]
    pub fn place(&self, block: usize) -> Option<&u64> {
        self.offsets.get(block)
    }

    /// How many data blocks.
    #[inline]
    pub fn block_count(&self) -> usize {
        self.fences.len()
    }

    /// The separator of block `block`.
    pub fn separator(&self, block: usize) -> Vec<u8> {
        [&self.common, self.suffix(block)].concat()
    }

    /// Heap bytes held.
    pub fn memory_bytes(&self) -> usize {
        self.common.capacity()
            + (self.fences.capacity() + self.samples.capacity() + self.offsets.capacity()) * size_of::<u64>()
            + self.suffixes.capacity()
            + self.suffix_ends.capacity() * size_of::<usize>()
    }

    fn suffix(&self, block: usize) -> &[u8] {
        let start =
            block.checked_sub(1).and_then(|before| self.suffix_ends.get(before)).copied().unwrap_or(0);
        let end = self.suffix_ends.get(block).copied().unwrap_or(start);
        self.suffixes.get(start..end).unwrap_or_default()
    }
}

/// Separators on the way to an [`Index`].
#[derive(Default)]
struct Separators {
    /// What the first and the last one share, and so all between.
    common: Vec<u8>,
    /// The last one, whole.
    key: Vec<u8>,
    /// All without the common bytes.
    suffixes: Vec<u8>,
    ends: Vec<usize>,
    offsets: Vec<u64>,
    data_end: u64,
}

impl Separators {
    /// None so far, of an index with `top` and `region`.
    fn new(top: &[u8], region: &[u8]) -> Result<Self> {
        let mut input = Reader::new(top, 0);
        let (_, index_blocks) = (input.u64()?, input.u32()?);
        let (mut first, mut last) = (&[][..], &[][..]);
        for index in 0..index_blocks {
            let (bytes, _) = (input.number()?, input.number()?);
            last = input.bytes()?;
            if index == 0 {
                first = first_separator(block_at(region, 0, bytes).unwrap_or_default())?;
            }
        }
        let common = first.get(..common_bytes(first, last)).unwrap_or_default().to_vec();
        Ok(Self { common, ..Self::default() })
    }

    fn add_block(&mut self, block: &[u8]) -> Result<()> {
        let mut input = Reader::new(payload(block)?, 0);
        let first_offset = input.u64()?;
        if first_offset != self.data_end {
            return Err(Error::new(0, format!("first offset {}", self.data_end), format!("{first_offset}")));
        }
        let count = input.u32()?;
        let mut room = input.peek().len().saturating_mul(EXPANSION_MAX);
        for index in 0..count {
            let at = input.offset();
            let (shared, unshared, block_bytes) = (input.number()?, input.number()?, input.number()?);
            let suffix = input.take(usize::try_from(unshared).unwrap_or(usize::MAX))?;
            let shared = usize::try_from(shared)
                .ok()
                .filter(|shared| *shared <= self.key.len() && (index > 0 || *shared == 0));
            let end = self.data_end.checked_add(block_bytes).filter(|_| block_bytes > 0);
            let (Some(shared), Some(end)) = (shared, end) else {
                return Err(Error::new(at, "a separator that continues the one before", "another"));
            };
            let Some(left) = room.checked_sub(shared + suffix.len()) else {
                let expected = format!("separators of at most {EXPANSION_MAX} times their block's bytes");
                return Err(Error::new(at, expected, "more"));
            };
            room = left;
            self.add(shared, suffix, at)?;
            self.offsets.push(self.data_end);
            self.data_end = end;
        }
        match input.is_empty() && count > 0 {
            true => Ok(()),
            false => {
                Err(Error::new(input.offset(), "one or more separators and the block's end", "more bytes"))
            }
        }
    }

    /// Adds the separator that has the first `shared` bytes of the one before, and `suffix`.
    fn add(&mut self, shared: usize, suffix: &[u8], at: usize) -> Result<()> {
        let old = self.key.get(shared..).unwrap_or_default();
        if !self.ends.is_empty() && suffix < old {
            return Err(Error::new(at, "a separator not below the one before", "a smaller one"));
        }
        self.key.truncate(shared);
        self.key.extend_from_slice(suffix);
        let Some(rest) = self.key.strip_prefix(&self.common[..]) else {
            return Err(Error::new(at, "a separator between the first and the last one", "another"));
        };
        self.suffixes.extend_from_slice(rest);
        self.ends.push(self.suffixes.len());
        Ok(())
    }

    fn into_index(mut self) -> Index {
        let mut fences = Vec::with_capacity(self.ends.len());
        let mut start = 0;
        for end in &self.ends {
            fences.push(key_prefix(self.suffixes.get(start..*end).unwrap_or_default(), 0));
            start = *end;
        }
        self.offsets.push(self.data_end);
        self.offsets.shrink_to_fit();
        self.suffixes.shrink_to_fit();
        self.ends.shrink_to_fit();
        let samples = fences.chunks_exact(CHUNK).filter_map(|chunk| chunk.last().copied()).collect();
        let Self { common, offsets, suffixes, ends: suffix_ends, .. } = self;
        Index { common, fences, samples, offsets, suffixes, suffix_ends }
    }
}

/// The block of `bytes` bytes at `at`.
fn block_at(region: &[u8], at: usize, bytes: u64) -> Option<&[u8]> {
    let end = usize::try_from(bytes).ok().and_then(|bytes| bytes.checked_add(at))?;
    region.get(at..end)
}

fn payload(block: &[u8]) -> Result<&[u8]> {
    match block::check(block)? {
        Checked::Raw(payload) => Ok(payload),
        Checked::Compressed { .. } => Err(Error::new(0, "an uncompressed index block", "a compressed one")),
    }
}

/// The first separator of an index block.
fn first_separator(block: &[u8]) -> Result<&[u8]> {
    let mut input = Reader::new(payload(block)?, 0);
    let (_first_offset, _count) = (input.u64()?, input.u32()?);
    let (_shared, unshared, _block_bytes) = (input.number()?, input.number()?, input.number()?);
    input.take(usize::try_from(unshared).unwrap_or(usize::MAX))
}
