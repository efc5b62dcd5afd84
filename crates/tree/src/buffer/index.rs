//! Static 16-ary search tree over the prefixes of sorted entries.
//!
//! The lowest layer holds the first prefix of every group of [`GROUP`] entries. Every higher layer
//! holds the first prefix of every node of 16 below it. A node is two cache lines; its place
//! follows from its number, so there are no pointers. A search counts smaller prefixes in one node
//! a layer, without a branch that depends on them.
//!
//! Source: the S+ tree of Slotin, "Static B-Trees" (Algorithms for Modern Hardware).

use std::ops::Range;

use super::entry::RunEntry;

/// Entries under one prefix of the lowest layer.
const GROUP: usize = 16;
/// Prefixes in a node.
const FANOUT: usize = 16;

/// Finds the first entry of a prefix. Belongs to the entries it was built over; half a byte each.
#[derive(Debug, Default)]
pub(crate) struct PrefixIndex {
    /// All layers, highest first.
    nodes: Vec<Node>,
    /// Where each layer begins in `nodes`, highest first.
    layers: Vec<u32>,
}

/// Prefixes with the sign bit flipped, so that signed comparisons order them; `i64::MAX` fills the
/// last node.
#[derive(Clone, Copy, Debug)]
#[repr(align(128))]
struct Node([i64; FANOUT]);

impl PrefixIndex {
    /// A tree over `entries`, whose prefixes never decrease. At most 2^36 entries.
    pub(crate) fn build(entries: &[RunEntry]) -> Self {
        let mut firsts: Vec<i64> = entries.chunks(GROUP).map(|group| flip(group[0].prefix)).collect();
        let mut layers = Vec::new();
        while firsts.len() > 1 {
            let nodes: Vec<Node> = firsts.chunks(FANOUT).map(Node::from_part).collect();
            firsts = nodes.iter().map(|node| node.0[0]).collect();
            layers.push(nodes);
        }
        let mut index = Self::default();
        index.nodes.reserve_exact(layers.iter().map(Vec::len).sum());
        for layer in layers.iter().rev() {
            index.layers.push(index.nodes.len() as u32);
            index.nodes.extend_from_slice(layer);
        }
        index
    }

    /// Index of the first of `entries` (those of [`build`](Self::build)) whose prefix is `prefix`
    /// or greater.
    #[inline]
    pub(crate) fn lower_bound(&self, entries: &[RunEntry], prefix: u64) -> usize {
        let start = self.group(prefix).start;
        let Some(group) = entries.get(start..) else { return entries.len() };
        let smaller = match group.first_chunk::<GROUP>() {
            Some(group) => smaller(group, prefix),
            None => smaller(group, prefix),
        };
        start + smaller
    }

    /// The entries that decide where the entries with `prefix` begin; they may reach past the end.
    #[inline]
    pub(crate) fn group(&self, prefix: u64) -> Range<usize> {
        let wanted = flip(prefix);
        let mut place = 0;
        for &layer in &self.layers {
            let Some(node) = self.nodes.get(layer as usize + place) else { break };
            place = place * FANOUT + node.smaller(wanted).saturating_sub(1);
        }
        place * GROUP..(place + 1) * GROUP
    }

    /// Heap bytes held.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.nodes.capacity() * size_of::<Node>() + self.layers.capacity() * size_of::<u32>()
    }
}

impl Node {
    fn from_part(part: &[i64]) -> Self {
        let mut node = [i64::MAX; FANOUT];
        node[..part.len()].copy_from_slice(part);
        Self(node)
    }

    /// How many of its prefixes are smaller.
    #[inline]
    fn smaller(&self, wanted: i64) -> usize {
        self.0.iter().map(|prefix| i64::from(*prefix < wanted)).sum::<i64>() as usize
    }
}

/// How many of sorted `group` have a smaller prefix.
#[inline]
fn smaller(group: &[RunEntry], prefix: u64) -> usize {
    group.iter().map(|entry| usize::from(entry.prefix < prefix)).sum()
}

#[inline]
fn flip(prefix: u64) -> i64 {
    (prefix ^ (1 << 63)) as i64
}

#[cfg(test)]
mod tests {
    use super::{PrefixIndex, RunEntry};
    use firn_format::key::Trailer;

    fn check(prefixes: &[u64]) {
        let entries: Vec<RunEntry> =
            prefixes.iter().map(|prefix| RunEntry { prefix: *prefix, trailer: Trailer(0) }).collect();
        let index = PrefixIndex::build(&entries);
        let probes =
            prefixes.iter().flat_map(|prefix| [prefix.wrapping_sub(1), *prefix, prefix.wrapping_add(1)]);
        for probe in probes.chain([0, 1, 1 << 63, (1 << 63) - 1, u64::MAX]) {
            let expected = prefixes.partition_point(|prefix| *prefix < probe);
            assert_eq!(index.lower_bound(&entries, probe), expected, "{} prefixes, {probe}", prefixes.len());
        }
    }

    #[test]
    fn finds_what_binary_search_finds() {
        let mut random = fastrand::Rng::with_seed(1);
        for count in (0..70).chain([255, 256, 257, 271, 272, 273, 4095, 4096, 4097, 5000, 65_536, 70_000]) {
            let mut prefixes: Vec<u64> = (0..count).map(|_| random.u64(..)).collect();
            prefixes.sort_unstable();
            check(&prefixes);
            // Many equal ones, and the greatest, which also fills nodes.
            let mut few: Vec<u64> = (0..count).map(|_| u64::MAX - random.u64(..1 + count / 20)).collect();
            few.sort_unstable();
            check(&few);
            check(&vec![u64::MAX; count as usize]);
            check(&vec![0; count as usize]);
        }
    }
}
