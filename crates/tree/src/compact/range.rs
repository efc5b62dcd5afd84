//! All tables of a key range, rewritten into its last level: piece by piece.
//!
//! ```text
//!   what overlaps the range ─► pieces that overlap nothing outside, in order of keys ─┬─ piece 0 ─► jobs ─► commit
//!                                                                                     ├─ piece 1 ─► jobs ─► commit
//!                                                                                     └─ ... as many jobs at once as there are executors
//! ```
//! Each piece is committed once it and all before it are done: a crash, or a full disk, costs the pieces after it and no other, and what a piece replaces is
//! removed before the next ones have written theirs.

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};

use firn_engine::{ErrorKind, Result};

use super::pick::{Choice, pick_range};
use crate::database::Database;
use crate::version::Table;

/// Tables' worth of bytes that a piece has at least: so that its outputs are of the size that they should have.
const PIECE_TABLES: u64 = 4;

impl Database {
    /// Rewrites whatever overlaps `start..end` into the last level that holds any of it.
    ///
    /// Waits for other calls and for compactions in progress first, so that it finds their tables free.
    ///
    /// # Errors
    /// `Retry` when the disk is full: a part of the range from its beginning on is rewritten then, and nothing else changed.
    pub(crate) fn compact_range(&self, keyspace: u32, start: &[u8], end: Option<&[u8]>) -> Result<()> {
        let _one_at_a_time = self.compacting_range.lock().unwrap_or_else(PoisonError::into_inner);
        self.wait_quiet()?;
        let _alone = self.hold_background();
        let version = self.version.load_full();
        let choice = pick_range(&version.keyspace(keyspace)?.levels, start, end, &self.pick_rules());
        drop(version);
        let Some(choice) = choice else { return Ok(()) };
        let pieces = pieces(choice, PIECE_TABLES * self.settings.table_bytes);
        let done = self.compact_pieces(keyspace, pieces).map_err(|error| self.explained(error));
        if done.as_ref().is_err_and(|error| error.kind() == ErrorKind::Retry) {
            // Their blocks may be what is wanted, whoever wants them next.
            self.give_up_spares();
        }
        done
    }

    /// Rewrites and commits `pieces`, each after the ones before it.
    fn compact_pieces(&self, keyspace: u32, pieces: Vec<Choice>) -> Result<()> {
        let mut begun = VecDeque::new();
        let mut done = Ok(());
        for piece in pieces {
            // One that is about to end is followed at once by the next.
            while done.is_ok()
                && begun.iter().map(super::run::Rewrite::job_count).sum::<usize>() >= self.parts_max()
                && let Some(first) = begun.pop_front()
            {
                done = self.end_rewrite(first);
            }
            if done.is_ok() {
                done = self.begin_rewrite(keyspace, piece).map(|rewrite| begun.extend(rewrite));
            }
        }
        while let Some(rewrite) = begun.pop_front() {
            match done {
                Ok(()) => done = self.end_rewrite(rewrite),
                Err(_) => {
                    rewrite.cancel();
                    begun.iter().for_each(super::run::Rewrite::cancel);
                    self.abandon_rewrite(rewrite);
                }
            }
        }
        done
    }
}

/// `choice` as several in order of keys: of at least `bytes` each, and none overlapping another.
fn pieces(choice: Choice, bytes: u64) -> Vec<Choice> {
    let mut inputs = choice.inputs;
    inputs.sort_by(|a, b| a.2.meta().smallest.cmp(&b.2.meta().smallest));
    let mut pieces: Vec<Vec<(u32, u64, Arc<Table>)>> = Vec::new();
    let (mut held, mut largest) = (0, Vec::new());
    for item in inputs {
        let meta = item.2.meta();
        let (is_apart, more) = (meta.smallest > largest, meta.bytes);
        if meta.largest > largest {
            largest.clone_from(&meta.largest);
        }
        match pieces.last_mut() {
            Some(piece) if !is_apart || held < bytes => {
                piece.push(item);
                held += more;
            }
            _ => {
                pieces.push(vec![item]);
                held = more;
            }
        }
    }
    let (output_level, output_run, moves, score) =
        (choice.output_level, choice.output_run, choice.moves, choice.score);
    let choice = |mut inputs: Vec<_>| {
        inputs.sort_by(super::pick::newest_first);
        Choice { inputs, output_level, output_run, moves, score }
    };
    pieces.into_iter().map(choice).collect()
}

#[cfg(test)]
mod tests {
    use super::super::pick::tests::table;
    use super::*;

    /// Pieces of tables given as (level, smallest, largest, bytes), by their tables' names.
    fn names(tables: &[(u32, &str, &str, u64)], bytes: u64) -> Vec<Vec<String>> {
        let input = |(level, smallest, largest, bytes): &(u32, &str, &str, u64)| {
            let name = format!("{level} {smallest}-{largest}");
            (*level, 0, table(name, smallest.as_bytes(), largest.as_bytes(), *bytes, 0.0))
        };
        let inputs = tables.iter().map(input).collect();
        let choice = Choice { inputs, output_level: 6, output_run: 0, moves: false, score: 1.0 };
        let pieces = pieces(choice, bytes);
        assert!(pieces.iter().all(|piece| (piece.output_level, piece.moves) == (6, false)));
        let name = |(_, _, table): &(u32, u64, Arc<Table>)| table.meta().file.clone();
        pieces.iter().map(|piece| piece.inputs.iter().map(name).collect()).collect()
    }

    #[test]
    fn a_piece_overlaps_no_other_and_is_large_enough() {
        let tables =
            [(6, "a", "c", 10), (6, "d", "f", 10), (6, "g", "i", 10), (6, "j", "l", 10), (6, "m", "o", 10)];
        assert_eq!(names(&tables, 1).len(), 5);
        let expected = [vec!["6 a-c", "6 d-f"], vec!["6 g-i", "6 j-l"], vec!["6 m-o"]];
        assert_eq!(names(&tables, 20), expected);
        assert_eq!(names(&tables, 11), expected);
        assert_eq!(names(&tables, 1000).len(), 1);
        // What lies over two of them, or only touches one, holds them together; newest first within a piece.
        let over = [(0, "e", "h", 1), (0, "l", "l", 1), (0, "c", "c", 1)];
        let all = [&tables[..], &over].concat();
        let expected =
            [vec!["0 c-c", "6 a-c"], vec!["0 e-h", "6 d-f", "6 g-i"], vec!["0 l-l", "6 j-l"], vec!["6 m-o"]];
        assert_eq!(names(&all, 1), expected);
        assert_eq!(names(&[(6, "", "z", 1), (0, "", "", 1)], 1), [vec!["0 -", "6 -z"]]);
    }
}
