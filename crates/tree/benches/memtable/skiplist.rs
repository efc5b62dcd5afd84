//! The alternative: an arena skiplist. Nodes name each other by offset, hold the whole key, and are linked lock-free.

use super::Index;
use super::memtable::record_of;
use super::records::Records;
use crate::buffer::prefix_word;
use firn_format::key::{Sequence, Trailer};
use firn_format::log::Record;
use std::cmp::Ordering as Order;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

const HEIGHT_MAX: usize = 14;
const HEAD: usize = 1;

/// Words of a node: prefix, trailer, key bytes | height, the rest of the key, then the tower.
pub struct Skiplist {
    common: Vec<u8>,
    words: Box<[AtomicU64]>,
    used: AtomicUsize,
}

impl Skiplist {
    fn word(&self, at: usize) -> u64 {
        self.words[at].load(Ordering::Relaxed)
    }

    fn key_words(&self, node: usize) -> usize {
        (self.word(node + 2) as u32 as usize).saturating_sub(self.common.len() + 8).div_ceil(8)
    }

    fn link(&self, node: usize, level: usize) -> &AtomicU64 {
        if node == HEAD {
            return &self.words[HEAD + level];
        }
        &self.words[node + 3 + self.key_words(node) + level]
    }

    fn compare(&self, node: usize, prefix: u64, key: &[u8], trailer: u64) -> Order {
        self.word(node).cmp(&prefix).then_with(|| {
            for (index, chunk) in key[(self.common.len() + 8).min(key.len())..].chunks(8).enumerate() {
                if index == self.key_words(node) {
                    return Order::Less;
                }
                let order = self.word(node + 3 + index).cmp(&big_endian(chunk));
                if order != Order::Equal {
                    return order;
                }
            }
            (self.word(node + 2) as u32 as usize).cmp(&key.len()).then(trailer.cmp(&self.word(node + 1)))
        })
    }

    /// For each level the last node before (key, trailer) and the first one not before.
    fn find(&self, prefix: u64, key: &[u8], trailer: u64) -> ([usize; HEIGHT_MAX], [usize; HEIGHT_MAX]) {
        let (mut before, mut after) = ([HEAD; HEIGHT_MAX], [0; HEIGHT_MAX]);
        let (mut node, mut known_greater) = (HEAD, 0);
        for level in (0..HEIGHT_MAX).rev() {
            (node, known_greater) = self.walk(node, known_greater, level, prefix, key, trailer);
            (before[level], after[level]) = (node, known_greater);
        }
        (before, after)
    }

    fn walk(
        &self,
        mut node: usize,
        known_greater: usize,
        level: usize,
        prefix: u64,
        key: &[u8],
        trailer: u64,
    ) -> (usize, usize) {
        loop {
            let next = self.link(node, level).load(Ordering::Acquire) as usize;
            if next == 0 || next == known_greater || self.compare(next, prefix, key, trailer) != Order::Less {
                return (node, next);
            }
            node = next;
        }
    }

    fn record<'r, R: Records>(&self, node: usize, records: &'r R) -> Record<'r> {
        record_of(records, Trailer(self.word(node + 1)))
    }
}

fn big_endian(chunk: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..chunk.len()].copy_from_slice(chunk);
    u64::from_be_bytes(word)
}

impl Index for Skiplist {
    const NAME: &'static str = "skiplist";

    fn new(common: &[u8], expected_entries: usize) -> Self {
        let words = (0..expected_entries * 9 + 64).map(|_| AtomicU64::new(0)).collect();
        Self { common: common.to_vec(), words, used: AtomicUsize::new(HEAD + HEIGHT_MAX) }
    }

    fn insert(&self, hash: u32, key: &[u8], trailer: Trailer) {
        let mixed = (u64::from(hash) ^ trailer.0).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
        let height = (mixed.trailing_zeros() as usize / 2 + 1).min(HEIGHT_MAX);
        let rest = &key[(self.common.len() + 8).min(key.len())..];
        let key_words = rest.len().div_ceil(8);
        let node = self.used.fetch_add(3 + key_words + height, Ordering::Relaxed);
        let prefix = prefix_word(key, &self.common);
        let set = |at: usize, word: u64| self.words[at].store(word, Ordering::Relaxed);
        set(node, prefix);
        set(node + 1, trailer.0);
        set(node + 2, key.len() as u64 | (height as u64) << 32);
        rest.chunks(8).enumerate().for_each(|(index, chunk)| set(node + 3 + index, big_endian(chunk)));
        let (mut before, mut after) = self.find(prefix, key, trailer.0);
        for level in 0..height {
            loop {
                self.words[node + 3 + key_words + level].store(after[level] as u64, Ordering::Relaxed);
                let link = self.link(before[level], level);
                if link
                    .compare_exchange(after[level] as u64, node as u64, Ordering::AcqRel, Ordering::Relaxed)
                    .is_ok()
                {
                    break;
                }
                (before[level], after[level]) = self.walk(before[level], 0, level, prefix, key, trailer.0);
            }
        }
    }

    fn newest<'r, R: Records>(
        &self,
        _hash: u32,
        key: &[u8],
        before: Sequence,
        records: &'r R,
    ) -> Option<(Trailer, Record<'r>)> {
        let (_, after) = self.find(prefix_word(key, &self.common), key, before.0 << 8);
        if after[0] == 0 {
            return None;
        }
        let record = self.record(after[0], records);
        (record.key == key).then(|| (Trailer(self.word(after[0] + 1)), record))
    }

    fn scan<R: Records + Send + Sync + 'static>(
        &self,
        key: &[u8],
        count: usize,
        before: Sequence,
        records: &std::sync::Arc<R>,
    ) -> usize {
        let (_, after) = self.find(prefix_word(key, &self.common), key, u64::MAX);
        let (mut node, mut found, mut sum) = (after[0], 0, 0);
        while node != 0 && found < count {
            if Trailer(self.word(node + 1)).sequence() < before {
                let record = self.record(node, &**records);
                sum += record.key.len() + usize::from(record.value[0]);
                found += 1;
            }
            node = self.link(node, 0).load(Ordering::Acquire) as usize;
        }
        std::hint::black_box(sum);
        found
    }

    fn freeze<R: Records>(&self, _records: &R) -> usize {
        let mut entries = Vec::new();
        let mut node = self.link(HEAD, 0).load(Ordering::Acquire) as usize;
        while node != 0 {
            entries.push((self.word(node), self.word(node + 1)));
            node = self.link(node, 0).load(Ordering::Acquire) as usize;
        }
        std::hint::black_box(&entries).len()
    }

    fn memory_bytes(&self) -> usize {
        self.used.load(Ordering::Relaxed) * 8
    }
}
