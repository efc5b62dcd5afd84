//! What waits of one file: the slots that it has.

use super::combiner::{Combiner, Slot};

/// The slots of a file, in the order in which it got them; the last takes pieces. None of them is
/// another file's.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    slots: Vec<Slot>,
}

impl Waiting {
    /// Whether the last slot has room for `bytes`, or one more was to be had for the file `name`.
    pub(super) fn make_room(&mut self, bytes: usize, name: &str, combiner: &Combiner) -> bool {
        if self.slots.last().is_some_and(|slot| slot.has_room(bytes)) {
            return true;
        }
        let Some(mut slot) = combiner.take(self.slots.len()) else { return false };
        slot.begin(name);
        self.slots.push(slot);
        true
    }

    /// The slot that takes pieces; `None` if the file has none.
    pub(super) fn last(&mut self) -> Option<&mut Slot> {
        self.slots.last_mut()
    }

    /// Whether some slots would be left if one were given back.
    pub(super) fn has_several(&self) -> bool {
        self.slots.len() > 1
    }

    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.slots.iter().all(Slot::is_empty)
    }

    /// What waits, in the order of the file: pieces that follow one another there stand in one
    /// list, with the offset of the first.
    pub(super) fn stretches(&self) -> Vec<(u64, Vec<&[u8]>)> {
        let mut pieces: Vec<(u64, &[u8])> = self.slots.iter().flat_map(Slot::runs).collect();
        pieces.sort_unstable_by_key(|&(offset, _)| offset);
        let follows = |one: &(u64, &[u8]), next: &(u64, &[u8])| one.0 + one.1.len() as u64 == next.0;
        let stretches = pieces.chunk_by(follows).filter_map(|stretch| {
            let (offset, _) = stretch.first()?;
            Some((*offset, stretch.iter().map(|&(_, bytes)| bytes).collect()))
        });
        stretches.collect()
    }

    /// Nothing waits any more; the first slot stays for the file `name`, the others are given back.
    pub(super) fn empty(&mut self, name: &str, combiner: &Combiner) {
        for slot in self.slots.drain(1.min(self.slots.len())..) {
            combiner.give_back(slot);
        }
        if let Some(slot) = self.slots.first_mut() {
            slot.begin(name);
        }
    }

    /// The same, and every slot is given back.
    pub(super) fn give_back(&mut self, combiner: &Combiner) {
        self.slots.drain(..).for_each(|slot| combiner.give_back(slot));
    }

    /// What waits stays in its slots, which no file gets.
    pub(super) fn abandon(&mut self) {
        self.slots.clear();
    }

    /// Behind the last byte that waits; 0 if none does.
    pub(super) fn end(&self) -> u64 {
        self.slots.iter().map(Slot::end).max().unwrap_or(0)
    }

    /// Copies what waits of the file from `offset` on over `out`.
    pub(super) fn lay_over(&self, offset: u64, out: &mut [u8]) {
        self.slots.iter().for_each(|slot| slot.lay_over(offset, out));
    }

    /// What waits of the file from `offset` on, if that is all that `out` takes and lies in one
    /// slot.
    pub(super) fn read(&self, offset: u64, out: &mut [u8]) -> bool {
        self.slots.iter().any(|slot| slot.read(offset, out))
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::sync::Arc;

    use super::*;

    #[test]
    fn what_came_in_any_order_in_any_slot_is_written_in_the_order_of_the_file() {
        let root = tempfile::tempdir().unwrap();
        let combiner = Combiner::new(&Arc::new(File::open(root.path()).unwrap()));
        let mut waiting = Waiting::default();
        let half = vec![1; 40_000];
        for (offset, piece) in [(60_000, &half[..]), (100_005, b"last"), (20_000, &half), (100_000, b"first")]
        {
            assert!(waiting.make_room(piece.len(), "a.log", &combiner));
            waiting.last().unwrap().add(offset, piece);
        }
        assert!(waiting.has_several());
        assert_eq!(waiting.end(), 100_009, "in the slot before the last");
        let expected: Vec<(u64, Vec<&[u8]>)> = vec![(20_000, vec![&half, &half, b"first", b"last"])];
        assert_eq!(waiting.stretches(), expected);
        waiting.empty("a.log", &combiner);
        assert!(waiting.is_empty() && !waiting.has_several());
        assert_eq!((waiting.end(), waiting.stretches().len()), (0, 0));
    }
}
