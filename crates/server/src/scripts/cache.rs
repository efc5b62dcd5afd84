//! Scripts that the server keeps, to be run by their sums.
//!
//! Those of SCRIPT LOAD stay until SCRIPT FLUSH: a client that loads a script relies on its sum.
//! Those of EVAL are kept for any client that sends the sum next, the most recently run ones.
//! Programs write values into scripts, so that ever new ones come. Both have limits.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::source::{Source, Sum};
use crate::bounds::{EVALUATED_BYTES_MAX, EVALUATED_MAX, LOADED_BYTES_MAX};
use crate::failure::{Failure, Result};

const NO_ROOM: Failure = Failure::new(
    "ERR scripts of SCRIPT LOAD take 64 MiB, which is all that they may: SCRIPT FLUSH forgets all scripts",
);

/// Scripts by their sums.
///
/// 1. One of EVAL has a turn in `by_turn`, one of SCRIPT LOAD has none.
/// 2. `evaluated_bytes` and `loaded_bytes` are the sums over those, and at most their limits.
#[derive(Debug, Default)]
pub(super) struct Cache {
    by_sum: HashMap<Sum, Kept>,
    /// Those of EVAL, the one that was not run for longest first.
    by_turn: BTreeMap<u64, Sum>,
    last_turn: u64,
    evaluated_bytes: usize,
    loaded_bytes: usize,
}

#[derive(Debug)]
struct Kept {
    source: Arc<Source>,
    /// When it was run last, if it is kept for that; `None` = it was loaded.
    turn: Option<u64>,
}

impl Cache {
    pub(super) fn get(&self, sum: &Sum) -> Option<Arc<Source>> {
        self.by_sum.get(sum).map(|kept| Arc::clone(&kept.source))
    }

    /// A script is run: it is kept, and the last that is given up. How many had to go for it.
    pub(super) fn run(&mut self, source: &Arc<Source>) -> u64 {
        let turn = self.last_turn + 1;
        match self.by_sum.get_mut(&source.sum) {
            Some(Kept { turn: None, .. }) => return 0,
            Some(Kept { turn: Some(last), .. }) if *last == self.last_turn => return 0,
            Some(Kept { turn: Some(last), .. }) => {
                self.by_turn.remove(last);
                *last = turn;
            }
            None if source.memory_bytes() > EVALUATED_BYTES_MAX => return 0,
            None => {
                self.evaluated_bytes += source.memory_bytes();
                self.by_sum.insert(source.sum, Kept { source: Arc::clone(source), turn: Some(turn) });
            }
        }
        self.last_turn = turn;
        self.by_turn.insert(turn, source.sum);
        self.make_room()
    }

    /// Keeps a script until all are forgotten.
    ///
    /// # Errors
    /// Scripts kept so would take more memory than they may; the ones already kept stay as they
    /// were.
    pub(super) fn load(&mut self, source: &Arc<Source>) -> Result<()> {
        let before = self.by_sum.get(&source.sum).map(|kept| kept.turn);
        if before == Some(None) {
            return Ok(());
        }
        if self.loaded_bytes + source.memory_bytes() > LOADED_BYTES_MAX {
            return Err(NO_ROOM);
        }
        if let Some(turn) = before.flatten() {
            self.by_turn.remove(&turn);
            self.evaluated_bytes -= source.memory_bytes();
        }
        self.loaded_bytes += source.memory_bytes();
        self.by_sum.insert(source.sum, Kept { source: Arc::clone(source), turn: None });
        Ok(())
    }

    /// Scripts, and memory that they take.
    pub(super) fn size(&self) -> (usize, usize) {
        (self.by_sum.len(), self.evaluated_bytes + self.loaded_bytes)
    }

    fn make_room(&mut self) -> u64 {
        let mut gone = 0;
        while self.by_turn.len() > EVALUATED_MAX || self.evaluated_bytes > EVALUATED_BYTES_MAX {
            let Some((_, sum)) = self.by_turn.pop_first() else { break };
            if let Some(kept) = self.by_sum.remove(&sum) {
                self.evaluated_bytes -= kept.source.memory_bytes();
                gone += 1;
            }
        }
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(number: usize, bytes: usize) -> Arc<Source> {
        let text = format!("return {number}{}", " ".repeat(bytes));
        Arc::new(Source::parse(text.as_bytes()).expect("a script"))
    }

    #[test]
    fn what_was_not_run_for_longest_goes_first() {
        let mut cache = Cache::default();
        let scripts: Vec<_> = (0..EVALUATED_MAX + 3).map(|number| script(number, 0)).collect();
        let (first, rest) = scripts.split_at(EVALUATED_MAX);
        first.iter().for_each(|source| assert_eq!(cache.run(source), 0));
        assert_eq!(cache.load(&first[0]), Ok(()));
        assert_eq!(cache.run(&first[1]), 0);
        // One place is free, for the first one is no longer among them.
        assert_eq!(rest.iter().map(|source| cache.run(source)).collect::<Vec<_>>(), [0, 1, 1]);
        let gone: Vec<usize> =
            (0..scripts.len()).filter(|index| cache.get(&scripts[*index].sum).is_none()).collect();
        assert_eq!(gone, [2, 3]);
        assert_eq!(cache.size().0, EVALUATED_MAX + 1);
        // What is run again and again costs no turns.
        let turn = cache.last_turn;
        assert_eq!((cache.run(&rest[2]), cache.run(&first[0]), cache.last_turn), (0, 0, turn));
    }

    #[test]
    fn scripts_of_either_kind_have_their_memory() {
        const PART: usize = 12 << 20;
        let mut cache = Cache::default();
        let scripts: Vec<_> = (0..7).map(|number| script(number, PART)).collect();
        let loaded: Vec<bool> = scripts.iter().map(|source| cache.load(source).is_ok()).collect();
        assert_eq!(loaded, [true, true, true, true, true, false, false]);
        assert_eq!(cache.load(&scripts[0]), Ok(()), "it is there");
        assert_eq!(cache.load(&scripts[5]), Err(NO_ROOM));
        let others: Vec<_> = (10..16).map(|number| script(number, PART)).collect();
        let gone: Vec<u64> = others.iter().map(|source| cache.run(source)).collect();
        assert_eq!(gone, [0, 0, 0, 0, 0, 1]);
        let large = script(20, EVALUATED_BYTES_MAX);
        assert_eq!((cache.run(&large), cache.get(&large.sum).is_none()), (0, true));
        let (count, bytes) = cache.size();
        assert_eq!((count, bytes / PART), (10, 10));
        assert_eq!(cache.load(&others[5]), Err(NO_ROOM));
        assert!(cache.get(&others[5].sum).is_some(), "it stays as it was");
    }
}
