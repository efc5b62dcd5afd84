//! Walking a data block entry by entry, both ways.

use std::ops::Range;

use super::read::{DataBlock, stored_kind};
use crate::error::Result;
use crate::key::{Entry, Kind, Trailer};

/// A place in a data block. Holds the entry's key and offsets, never the block: every call is given
/// it.
///
/// Moving allocates only while the key buffers grow to the longest key met.
#[derive(Debug, Default)]
pub struct Walker {
    key: Vec<u8>,
    stand: Option<Stand>,
    /// The entries of one restart interval, decoded for going backward; keys in `back_keys`.
    back: Vec<Back>,
    back_keys: Vec<u8>,
}

#[derive(Clone, Debug)]
struct Stand {
    at: usize,
    next: usize,
    trailer: Trailer,
    kind: Kind,
    expires_at_ms: u64,
    value: Range<usize>,
}

#[derive(Debug)]
struct Back {
    stand: Stand,
    key: Range<usize>,
}

impl Walker {
    /// The entry it stands on; `payload` is the block's.
    #[inline]
    pub fn entry<'s>(&'s self, payload: &'s [u8]) -> Option<Entry<'s>> {
        let stand = self.stand.as_ref()?;
        Some(Entry {
            key: &self.key,
            sequence: stand.trailer.sequence(),
            kind: stand.kind,
            expires_at_ms: stand.expires_at_ms,
            value: payload.get(stand.value.clone())?,
        })
    }

    /// The key it stands on.
    pub fn key(&self) -> Option<&[u8]> {
        self.stand.as_ref().map(|_| &self.key[..])
    }

    /// Where in the payload the entry's head and its value are.
    pub fn place(&self) -> Option<(Range<usize>, Range<usize>)> {
        self.stand.as_ref().map(|stand| (stand.at..stand.next, stand.value.clone()))
    }

    /// Whether it stands on an entry.
    #[inline]
    pub fn is_positioned(&self) -> bool {
        self.stand.is_some()
    }

    /// Leaves the block: the next one may be given. MUST be called between blocks.
    pub fn reset(&mut self) {
        self.stand = None;
        self.key.clear();
        self.back.clear();
        self.back_keys.clear();
    }

    /// Goes to the first entry.
    ///
    /// # Errors
    /// As for every move: the payload is not a data block; the walker is then unpositioned.
    pub fn seek_first(&mut self, block: &DataBlock<'_>) -> Result<()> {
        self.reset();
        let (at, value_at) = block.restart(0)?;
        self.step(block, at, value_at)
    }

    /// Goes to the last entry.
    ///
    /// # Errors
    /// As for every move.
    pub fn seek_last(&mut self, block: &DataBlock<'_>) -> Result<()> {
        self.reset();
        self.fill_back(block, block.shape.restart_count.saturating_sub(1))?;
        self.stand_on_back(self.back.len());
        Ok(())
    }

    /// Goes to the first entry whose key is `key` or greater; unpositioned if the block has none.
    ///
    /// # Errors
    /// As for every move.
    pub fn seek(&mut self, block: &DataBlock<'_>, key: &[u8]) -> Result<()> {
        self.reset();
        let restart = block.last_restart(|_, suffix| suffix < key)?;
        let (mut at, mut value_at) = block.restart(restart.unwrap_or(0))?;
        loop {
            self.step(block, at, value_at)?;
            match &self.stand {
                Some(stand) if self.key.as_slice() < key => (at, value_at) = (stand.next, stand.value.end),
                _ => return Ok(()),
            }
        }
    }

    /// Goes to the last entry whose key is smaller than `key`; unpositioned if the block has none.
    ///
    /// # Errors
    /// As for every move.
    pub fn seek_before(&mut self, block: &DataBlock<'_>, key: &[u8]) -> Result<()> {
        self.reset();
        let Some(restart) = block.last_restart(|_, suffix| suffix < key)? else { return Ok(()) };
        self.fill_back(block, restart)?;
        let keys = &self.back_keys;
        let count =
            self.back.partition_point(|back| keys.get(back.key.clone()).is_some_and(|back| back < key));
        self.stand_on_back(count);
        Ok(())
    }

    /// Goes to the next entry; unpositioned past the last one.
    ///
    /// # Errors
    /// As for every move.
    #[inline]
    pub fn next(&mut self, block: &DataBlock<'_>) -> Result<()> {
        match &self.stand {
            Some(stand) => {
                let (at, value_at) = (stand.next, stand.value.end);
                self.step(block, at, value_at)
            }
            None => Ok(()),
        }
    }

    /// Goes to the previous entry; unpositioned before the first one. Decodes a restart interval
    /// once.
    ///
    /// # Errors
    /// As for every move.
    pub fn prev(&mut self, block: &DataBlock<'_>) -> Result<()> {
        let Some(at) = self.stand.as_ref().map(|stand| stand.at) else { return Ok(()) };
        let decoded = self.back.first().is_some_and(|first| first.stand.at < at)
            && self.back.last().is_some_and(|last| at <= last.stand.next);
        if !decoded {
            // The interval of the entry that ends where this one begins.
            let (mut low, mut high) = (0, block.shape.restart_count);
            while low < high {
                let middle = low + (high - low) / 2;
                if block.restart(middle)?.0 < at {
                    low = middle + 1;
                } else {
                    high = middle;
                }
            }
            if low == 0 {
                self.stand = None;
                return Ok(());
            }
            self.fill_back(block, low - 1)?;
        }
        self.stand_on_back(self.back.partition_point(|back| back.stand.at < at));
        Ok(())
    }

    /// Stands on the entry at `at`, whose key continues the one in `self.key`; unpositioned at the
    /// end.
    #[inline]
    fn step(&mut self, block: &DataBlock<'_>, at: usize, value_at: usize) -> Result<()> {
        self.stand = None;
        if at >= block.shape.restarts_at {
            return Ok(());
        }
        let head = block.head(at)?;
        let kind = stored_kind(head.trailer, at)?;
        let value = value_at..value_at + head.value_bytes;
        if head.shared > self.key.len() || value.end > block.shape.keys_at {
            return Err(block.broken(at, "an entry that continues the one before it"));
        }
        self.key.truncate(head.shared);
        self.key.extend_from_slice(block.payload.get(head.suffix).unwrap_or_default());
        let expires_at_ms = head.expires_at_ms;
        self.stand = Some(Stand { at, next: head.next, trailer: head.trailer, kind, expires_at_ms, value });
        Ok(())
    }

    /// Decodes restart interval `restart` into `back`; leaves the walker unpositioned.
    fn fill_back(&mut self, block: &DataBlock<'_>, restart: usize) -> Result<()> {
        self.back.clear();
        self.back_keys.clear();
        self.key.clear();
        let (mut at, mut value_at) = block.restart(restart)?;
        let end = match restart + 1 < block.shape.restart_count {
            true => block.restart(restart + 1)?.0,
            false => block.shape.restarts_at,
        };
        while at < end {
            if let Err(error) = self.step(block, at, value_at) {
                self.reset();
                return Err(error);
            }
            let Some(stand) = self.stand.take() else { break };
            (at, value_at) = (stand.next, stand.value.end);
            let start = self.back_keys.len();
            self.back_keys.extend_from_slice(&self.key);
            self.back.push(Back { stand, key: start..self.back_keys.len() });
        }
        Ok(())
    }

    /// Stands on the last of the first `count` entries of `back`.
    fn stand_on_back(&mut self, count: usize) {
        self.stand = None;
        let Some(back) = count.checked_sub(1).and_then(|index| self.back.get(index)) else { return };
        self.key.clear();
        self.key.extend_from_slice(self.back_keys.get(back.key.clone()).unwrap_or_default());
        self.stand = Some(back.stand.clone());
    }
}
