//! One file being read through the cache.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use crate::backend::ASKED_MAX;
use crate::{FileBytes, ReadFile, Result};

use super::ranges::{BLOCK_BYTES, Claim, Claimed, Ranges, add};
use super::slots::FileId;

#[derive(Debug)]
pub(super) struct CachedReadFile {
    pub(super) inner: Arc<dyn ReadFile>,
    pub(super) ranges: Arc<Ranges>,
    pub(super) file: FileId,
    /// Ranges that a reader said it will need and has not read yet, as many as are remembered.
    pub(super) asked: Mutex<VecDeque<Range<u64>>>,
}

impl CachedReadFile {
    /// Whether all of `range` was asked for ahead; it is not any more.
    fn take_asked(&self, range: &Range<u64>) -> bool {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let mut at = range.start;
        while at < range.end
            && let Some(known) = asked.iter_mut().find(|known| known.contains(&at))
        {
            at = known.end.min(range.end);
            known.start = at;
        }
        asked.retain(|known| !known.is_empty());
        at >= range.end
    }

    /// The bytes of block `block`, in the file.
    fn span(&self, block: u64) -> Range<u64> {
        let start = block * BLOCK_BYTES;
        start..(start + BLOCK_BYTES).min(self.inner.len())
    }

    /// Asks the store for blocks that follow one another, by one request. Each thread that waits
    /// for one of them is told.
    fn fetch(&self, run: Vec<(u64, Claimed)>) -> Result<Vec<(u64, Bytes)>> {
        let (Some((first, _)), Some((last, _))) = (run.first(), run.last()) else { return Ok(Vec::new()) };
        let range = self.span(*first).start..self.span(*last).end;
        let mut bytes = vec![0; (range.end - range.start) as usize];
        add(&self.ranges.counts.fetched_bytes, range.end - range.start);
        let read = self.inner.read_at(range.start, &mut bytes).map(|()| Bytes::from(bytes));
        let block_of = |all: &Bytes, block: u64| {
            let span = self.span(block);
            all.slice((span.start - range.start) as usize..(span.end - range.start) as usize)
        };
        let mut fetched = Vec::new();
        for (block, claimed) in run {
            let answer = read.as_ref().map(|all| block_of(all, block)).map_err(Clone::clone);
            fetched.extend(answer.as_ref().ok().map(|bytes| (block, bytes.clone())));
            claimed.land(answer);
        }
        read.map(|_| fetched)
    }

    /// Fills `part`, which begins at `offset` of the file and ends in the same block.
    fn read_part(&self, block: u64, mut claim: Claim, offset: u64, part: &mut [u8]) -> Result<()> {
        let span = self.span(block);
        let start = (offset - span.start) as usize;
        loop {
            let bytes = match claim {
                Claim::Coming(flight) => flight.wait()?,
                Claim::Mine(claimed) => match self.fetch(vec![(block, claimed)])?.pop() {
                    Some((_, bytes)) => bytes,
                    None => return self.inner.read_at(offset, part),
                },
                Claim::Here(found) => {
                    let block_bytes = (span.end - span.start) as usize;
                    if self.ranges.read((self.file, block), &found, start, part, block_bytes) {
                        return Ok(());
                    }
                    match self.ranges.claim(self.file, block..=block).pop() {
                        Some((_, next)) => claim = next,
                        None => return self.inner.read_at(offset, part),
                    }
                    continue;
                }
            };
            return match bytes.get(start..start + part.len()) {
                Some(found) => {
                    part.copy_from_slice(found);
                    Ok(())
                }
                None => self.inner.read_at(offset, part),
            };
        }
    }

    fn read_cached(&self, range: Range<u64>, out: &mut [u8]) -> Result<()> {
        let claims = self.ranges.claim(self.file, range.start / BLOCK_BYTES..=(range.end - 1) / BLOCK_BYTES);
        let (mut mine, mut others) = (Vec::new(), Vec::new());
        for (block, claim) in claims {
            match claim {
                Claim::Mine(claimed) => mine.push((block, claimed)),
                claim => others.push((block, claim)),
            }
        }
        let part_of = |block: u64| {
            let span = self.span(block);
            let (from, until) = (span.start.max(range.start), span.end.min(range.end));
            (from, (from - range.start) as usize..(until - range.start) as usize)
        };
        // First what others wait for, so that no two wait for each other. A range has two blocks at
        // most: the caller's are one run.
        for (block, bytes) in self.fetch(mine)? {
            let (from, part) = part_of(block);
            let start = (from - self.span(block).start) as usize;
            if let (Some(part), Some(found)) =
                (out.get_mut(part.clone()), bytes.get(start..start + part.len()))
            {
                part.copy_from_slice(found);
            }
        }
        for (block, claim) in others {
            let (from, part) = part_of(block);
            if let Some(part) = out.get_mut(part) {
                self.read_part(block, claim, from, part)?;
            }
        }
        Ok(())
    }
}

impl ReadFile for CachedReadFile {
    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let end = offset.checked_add(out.len() as u64).filter(|end| *end <= self.inner.len());
        match end {
            Some(end) if !out.is_empty() => {
                let range = offset..end;
                if !self.take_asked(&range) && out.len() as u64 <= BLOCK_BYTES {
                    return self.read_cached(range, out);
                }
                add(&self.ranges.counts.passed_bytes, out.len() as u64);
                self.inner.read_at(offset, out)
            }
            // The backend says what is wrong with it.
            _ => self.inner.read_at(offset, out),
        }
    }

    /// What is asked for ahead is read once, and not kept here.
    fn will_need(&self, offset: u64, bytes: u64) {
        self.inner.will_need(offset, bytes);
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        if asked.len() >= ASKED_MAX {
            asked.pop_front();
        }
        let range = offset..offset.saturating_add(bytes).min(self.inner.len());
        if !range.is_empty() {
            asked.push_back(range);
        }
    }

    /// Asks the store for blocks that are neither here nor on their way; the first reader of each
    /// keeps it here. What would go past when it is read does so when it is asked for.
    fn will_look_up(&self, offset: u64, bytes: u64) {
        let end = offset.saturating_add(bytes).min(self.inner.len());
        if bytes > BLOCK_BYTES {
            return self.will_need(offset, bytes);
        }
        if offset >= end {
            return;
        }
        for block in self.ranges.missing(self.file, offset / BLOCK_BYTES..=(end - 1) / BLOCK_BYTES) {
            let span = self.span(block);
            self.inner.will_need(span.start, span.end - span.start);
        }
    }

    fn bytes(&self) -> Result<Option<FileBytes>> {
        self.inner.bytes()
    }
}

impl Drop for CachedReadFile {
    fn drop(&mut self) {
        self.ranges.close(self.file);
    }
}
