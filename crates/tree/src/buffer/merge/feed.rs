//! Entries of several runs as one sorted stream.
//!
//! A binary tree of two-way merges over short buffers. A buffer is filled by its two feeds in one
//! go. So the inner loop merges two slices in the first-level cache and decides by a conditional
//! move. It looks at records where two prefixes are equal and nowhere else.

use std::cmp::Ordering;
use std::sync::Arc;

use firn_format::key::{Trailer, key_prefix};
use firn_storage::Result;

use crate::buffer::entry::RunEntry;
use crate::buffer::run::{Run, find};
use crate::records::Records;

/// Items a buffer holds: 24 KiB of them for the two inputs of a merge.
const BUFFER_ITEMS: usize = 512;

/// An entry on its way, with its prefix after the output's common prefix.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item {
    pub(super) prefix: u64,
    pub(super) trailer: Trailer,
    pub(super) hash: u32,
}

impl Item {
    pub(super) fn entry(self) -> RunEntry {
        RunEntry { prefix: self.prefix, trailer: self.trailer }
    }
}

/// Where items come from, in order of (key, newest first).
#[derive(Debug)]
pub(super) enum Feed {
    Leaf(Leaf),
    Pair(Box<Pair>),
}

impl Feed {
    /// The entries of all `runs`, whose keys begin with the first `skip` bytes of each other.
    pub(super) fn over(runs: &[Arc<Run>], skip: usize) -> Self {
        match runs {
            [run] => Feed::Leaf(Leaf::new(Arc::clone(run), skip)),
            _ => {
                let (left, right) = runs.split_at(runs.len() / 2);
                let [left, right] = [left, right].map(|half| Buffer::new(Feed::over(half, skip)));
                Feed::Pair(Box::new(Pair { left, right }))
            }
        }
    }

    /// Appends up to `room` of the next items to `out`; fewer only when there are no more.
    pub(super) fn fill<R: Records + ?Sized>(
        &mut self,
        out: &mut Vec<Item>,
        room: usize,
        records: &R,
    ) -> Result<()> {
        match self {
            Feed::Leaf(leaf) => {
                leaf.fill(out, room);
                Ok(())
            }
            Feed::Pair(pair) => pair.fill(out, room, records),
        }
    }
}

/// One run's entries from `next` on.
#[derive(Debug)]
pub(super) struct Leaf {
    run: Arc<Run>,
    next: usize,
    /// Bits that the run's common prefix has more than the output's, and what they are (in the
    /// upper bits).
    shift: u32,
    high: u64,
}

impl Leaf {
    fn new(run: Arc<Run>, skip: usize) -> Self {
        assert!(skip <= run.common.len(), "words come after {} bytes, not {skip}", run.common.len());
        let extra_bytes = run.common.len() - skip;
        let high = key_prefix(&run.common, skip);
        Self { shift: extra_bytes.min(8) as u32 * 8, high, run, next: 0 }
    }

    fn fill(&mut self, out: &mut Vec<Item>, room: usize) {
        let end = self.run.entries.len().min(self.next + room);
        let (shift, high) = (self.shift, self.high);
        let entries = self.run.entries[self.next..end].iter().zip(&self.run.hashes[self.next..end]);
        out.extend(entries.map(|(entry, hash)| Item {
            prefix: high | entry.prefix.checked_shr(shift).unwrap_or(0),
            trailer: entry.trailer,
            hash: *hash,
        }));
        self.next = end;
    }
}

#[derive(Debug)]
pub(super) struct Pair {
    left: Buffer,
    right: Buffer,
}

#[derive(Debug)]
struct Buffer {
    feed: Feed,
    items: Vec<Item>,
    next: usize,
}

impl Buffer {
    fn new(feed: Feed) -> Self {
        Self { feed, items: Vec::with_capacity(BUFFER_ITEMS), next: 0 }
    }

    /// What is there, at least one item unless there are no more.
    fn ready<R: Records + ?Sized>(&mut self, records: &R) -> Result<&[Item]> {
        if self.next == self.items.len() {
            self.items.clear();
            self.next = 0;
            self.feed.fill(&mut self.items, BUFFER_ITEMS, records)?;
        }
        Ok(&self.items[self.next..])
    }
}

impl Pair {
    fn fill<R: Records + ?Sized>(&mut self, out: &mut Vec<Item>, room: usize, records: &R) -> Result<()> {
        let full = out.len() + room;
        while out.len() < full {
            let left = self.left.ready(records)?;
            let right = self.right.ready(records)?;
            let room = full - out.len();
            let (from_left, from_right) = match (left.is_empty(), right.is_empty()) {
                (true, true) => return Ok(()),
                (false, true) => (copy(left, room, out), 0),
                (true, false) => (0, copy(right, room, out)),
                (false, false) => merge(left, right, room, out, records)?,
            };
            self.left.next += from_left;
            self.right.next += from_right;
        }
        Ok(())
    }
}

fn copy(items: &[Item], room: usize, out: &mut Vec<Item>) -> usize {
    let count = items.len().min(room);
    out.extend_from_slice(&items[..count]);
    count
}

/// Appends up to `room` items until one side is used up; how many of each side it took.
fn merge<R: Records + ?Sized>(
    left: &[Item],
    right: &[Item],
    room: usize,
    out: &mut Vec<Item>,
    records: &R,
) -> Result<(usize, usize)> {
    let (mut from_left, mut from_right) = (0, 0);
    // As many steps as surely neither side nor the room ends.
    loop {
        let steps = (left.len() - from_left).min(right.len() - from_right).min(room - from_left - from_right);
        if steps == 0 {
            return Ok((from_left, from_right));
        }
        for _ in 0..steps {
            let (a, b) = (&left[from_left], &right[from_right]);
            let take_right =
                if a.prefix == b.prefix { goes_second(a, b, records)? } else { b.prefix < a.prefix };
            out.push(if take_right { *b } else { *a });
            from_right += usize::from(take_right);
            from_left += usize::from(!take_right);
        }
    }
}

/// Whether `a` comes behind `b`, which has the same prefix.
#[cold]
#[inline(never)]
fn goes_second<R: Records + ?Sized>(a: &Item, b: &Item, records: &R) -> Result<bool> {
    let (key_a, key_b) = (find(a.entry(), records)?.key, find(b.entry(), records)?.key);
    Ok(match key_a.cmp(key_b) {
        Ordering::Less => false,
        Ordering::Greater => true,
        Ordering::Equal => a.trailer.sequence() < b.trailer.sequence(),
    })
}
