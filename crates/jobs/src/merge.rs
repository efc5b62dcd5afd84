//! Many ordered sets of entries as one: a loser tree over cursors.
//!
//! Each source plays at a leaf, and an inner node remembers the loser of the match played there.
//! The overall winner is the entry the merge stands on. Advancing replays only the winner's path:
//! log2(k) matches, each against one loser. A source's first key bytes are kept beside the tree as
//! one number, so most matches touch no entry.
//!
//! Turning around costs one move of each source. Going forward, every source but the winner stands
//! on its first entry after the winner's, so its previous entry is its last one before.
//!
//! Source: tournament trees, Knuth, The Art of Computer Programming, vol. 3, 5.4.1.

use std::cmp::Ordering;
use std::fmt;

use firn_format::key::{Entry, key_prefix};
use firn_storage::Result;

use crate::Cursor;

/// A cursor over the union of its sources; what several sources hold appears once for each, earlier
/// source first.
///
/// Moving to a neighbour allocates nothing. After an error it is unpositioned.
pub struct MergeCursor<C = Box<dyn Cursor>> {
    sources: Vec<C>,
    heads: Vec<Head>,
    /// `losers[0]` is the winner; `losers[n]` lost the match at node n. Source i's leaf is node
    /// `len + i`.
    losers: Vec<u32>,
    /// Room for building the tree.
    winners: Vec<u32>,
    direction: Direction,
    /// What all keys begin with, as far as the caller knows: left out of the heads' numbers.
    common: Vec<u8>,
}

/// What a match looks at first.
#[derive(Clone, Copy, Debug, Default)]
struct Head {
    /// 16 key bytes after the common ones. Keys that differ here are in this order.
    word: u128,
    /// Whether the source stands on an entry.
    live: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Forward,
    Backward,
}

impl<C> fmt::Debug for MergeCursor<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MergeCursor").field("sources", &self.sources.len()).finish_non_exhaustive()
    }
}

impl<C: Cursor> MergeCursor<C> {
    /// A merge of `sources`, unpositioned.
    pub fn new(sources: Vec<C>) -> Self {
        Self::with_common_prefix(sources, Vec::new())
    }

    /// As [`new`](Self::new) for sources most of whose keys begin with `common`: fewer matches look
    /// at entries. Other keys are in their right place too.
    pub fn with_common_prefix(sources: Vec<C>, common: Vec<u8>) -> Self {
        let count = sources.len();
        Self {
            sources,
            heads: vec![Head::default(); count],
            losers: vec![0; count],
            winners: vec![0; 2 * count],
            direction: Direction::Forward,
            common,
        }
    }

    /// The sources, in the order of their making.
    pub fn sources(&self) -> &[C] {
        &self.sources
    }

    /// Index of the source whose entry the merge stands on.
    pub fn source(&self) -> Option<usize> {
        let winner = *self.losers.first()? as usize;
        self.heads.get(winner).is_some_and(|head| head.live).then_some(winner)
    }

    /// A number made of the key it stands on: where numbers differ, so do keys.
    #[inline]
    pub fn word(&self) -> Option<u128> {
        Some(self.heads.get(self.source()?)?.word)
    }

    /// Moves every source with `place` and plays all matches.
    fn place_all(
        &mut self,
        direction: Direction,
        mut place: impl FnMut(usize, &mut C) -> Result<()>,
    ) -> Result<()> {
        self.direction = direction;
        for index in 0..self.sources.len() {
            if let Err(error) = place(index, &mut self.sources[index]) {
                self.forget();
                return Err(error);
            }
            self.refresh(index);
        }
        self.play_all();
        Ok(())
    }

    fn play_all(&mut self) {
        let count = self.sources.len();
        for leaf in 0..count {
            self.winners[count + leaf] = leaf as u32;
        }
        for node in (1..count).rev() {
            let (left, right) = (self.winners[2 * node], self.winners[2 * node + 1]);
            let left_wins = self.beats(left as usize, right as usize);
            (self.winners[node], self.losers[node]) = if left_wins { (left, right) } else { (right, left) };
        }
        if count > 0 {
            self.losers[0] = self.winners[1];
        }
    }

    /// Moves the winner with `step` and replays its path.
    #[inline]
    fn advance(&mut self, step: impl FnOnce(&mut C) -> Result<()>) -> Result<()> {
        let Some(moved) = self.source() else { return Ok(()) };
        if let Err(error) = step(&mut self.sources[moved]) {
            self.forget();
            return Err(error);
        }
        self.refresh(moved);
        let mut winner = moved;
        let mut node = (self.sources.len() + moved) / 2;
        while node > 0 {
            let loser = self.losers[node] as usize;
            if self.beats(loser, winner) {
                self.losers[node] = winner as u32;
                winner = loser;
            }
            node /= 2;
        }
        self.losers[0] = winner as u32;
        Ok(())
    }

    /// Makes every source but the winner stand on the other side of the winner's entry.
    fn turn(&mut self, direction: Direction) -> Result<()> {
        let Some(winner) = self.source() else { return Ok(()) };
        self.place_all(direction, |index, source| match (direction, source.entry().is_some()) {
            _ if index == winner => Ok(()),
            (Direction::Forward, true) => source.next(),
            (Direction::Forward, false) => source.seek_first(),
            (Direction::Backward, true) => source.prev(),
            (Direction::Backward, false) => source.seek_last(),
        })
    }

    #[inline]
    fn refresh(&mut self, index: usize) {
        self.heads[index] = match self.sources[index].entry() {
            Some(entry) => Head { word: head_word(entry.key, &self.common), live: true },
            None => Head::default(),
        };
    }

    /// Unpositioned, as after an error.
    fn forget(&mut self) {
        self.heads.fill(Head::default());
    }

    /// Whether source `a`'s entry comes before source `b`'s in the present direction.
    #[inline]
    fn beats(&self, a: usize, b: usize) -> bool {
        let (left, right) = (self.heads[a], self.heads[b]);
        if !(left.live && right.live) {
            return left.live;
        }
        let order = left.word.cmp(&right.word).then_with(|| self.compare_entries(a, b));
        match self.direction {
            Direction::Forward => order == Ordering::Less,
            Direction::Backward => order == Ordering::Greater,
        }
    }

    #[inline(never)]
    fn compare_entries(&self, a: usize, b: usize) -> Ordering {
        let (Some(left), Some(right)) = (self.sources[a].entry(), self.sources[b].entry()) else {
            return a.cmp(&b);
        };
        left.key.cmp(right.key).then(right.sequence.cmp(&left.sequence)).then(a.cmp(&b))
    }
}

/// The 16 bytes of `key` after `common`; below every such number for keys below `common`, above for
/// keys above.
#[inline]
fn head_word(key: &[u8], common: &[u8]) -> u128 {
    // Asked first, for the empty slice's dangling address. A C library may compare nothing with a
    // masked load from there, which takes the processor as long as a miss of all caches.
    if common.is_empty() || key.starts_with(common) {
        return u128::from(key_prefix(key, common.len())) << 64
            | u128::from(key_prefix(key, common.len() + 8));
    }
    if key < common { 0 } else { u128::MAX }
}

impl<C: Cursor> Cursor for MergeCursor<C> {
    #[inline]
    fn entry(&self) -> Option<Entry<'_>> {
        self.sources[self.source()?].entry()
    }

    #[inline]
    fn has_given_sequence(&self) -> bool {
        self.source().is_some_and(|source| self.sources[source].has_given_sequence())
    }

    fn seek_first(&mut self) -> Result<()> {
        self.place_all(Direction::Forward, |_, source| source.seek_first())
    }

    fn seek_last(&mut self) -> Result<()> {
        self.place_all(Direction::Backward, |_, source| source.seek_last())
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.place_all(Direction::Forward, |_, source| source.seek(key))
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.place_all(Direction::Backward, |_, source| source.seek_before(key))
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        if self.direction == Direction::Backward {
            self.turn(Direction::Forward)?;
        }
        self.advance(|source| source.next())
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        if self.direction == Direction::Forward {
            self.turn(Direction::Backward)?;
        }
        self.advance(|source| source.prev())
    }
}
