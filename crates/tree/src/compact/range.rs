//! All tables of a key range, rewritten into its last level: piece by piece.
//!
//! ```text
//!   what overlaps the range ─► pieces that overlap nothing outside, in order of keys ─┬─ piece 0 ─► jobs ─► commit
//!                                                                                     ├─ piece 1 ─► jobs ─► commit
//!                                                                                     └─ ... as many jobs at once as there are executors
//! ```
//! Each piece is committed once it and all before it are done: a crash, or a full disk, costs the pieces after it and no other, and what a piece replaces is
//! removed before the next ones have written theirs.
//!
//! Where there are several levels their tables may overlap one another in a chain through much of the range, which is one large piece. There what lies above
//! the deepest level is cut first where tables of that level begin, each table by itself, and the range is looked at anew: that writes a tenth more, and no part
//! of a large piece waits for another. Inputs stay whole tables, whose sums are known.

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};

use firn_engine::{ErrorKind, Result};

use super::pick::{Choice, pick_range};
use crate::database::Database;
use crate::version::Table;

/// Tables' worth of bytes that a piece has at least: so that its outputs are of the size that they should have.
const PIECE_TABLES: u64 = 4;

/// Tables' worth of bytes from which on a piece is cut first.
const PIECE_TABLES_MAX: u64 = 16;

/// What has to be written for that is at most this part of the piece.
const CUT_SHARE: u64 = 4;

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
        let done = self.compact_whole(keyspace, start, end).map_err(|error| self.explained(error));
        if done.as_ref().is_err_and(|error| error.kind() == ErrorKind::Retry) {
            // Their blocks may be what is wanted, whoever wants them next.
            self.give_up_spares();
        }
        done
    }

    fn compact_whole(&self, keyspace: u32, start: &[u8], end: Option<&[u8]>) -> Result<()> {
        let table_bytes = self.settings.table_bytes;
        let pieces = || {
            let version = self.version.load_full();
            let choice = pick_range(&version.keyspace(keyspace)?.levels, start, end, &self.pick_rules());
            Ok(choice.map_or_else(Vec::new, |choice| pieces(choice, PIECE_TABLES * table_bytes)))
        };
        let chained = pieces()?;
        let (wide, cuts) = wide(&chained, table_bytes);
        if wide.is_empty() {
            return self.compact_pieces(keyspace, chained, &[]);
        }
        drop(chained);
        self.compact_pieces(keyspace, wide, &cuts)?;
        self.compact_pieces(keyspace, pieces()?, &[])
    }

    /// Rewrites and commits `pieces`, each after the ones before it; see [`begin_rewrite`](Self::begin_rewrite) for `cuts`.
    fn compact_pieces(&self, keyspace: u32, pieces: Vec<Choice>, cuts: &[Vec<u8>]) -> Result<()> {
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
                done = self.begin_rewrite(keyspace, piece, cuts).map(|rewrite| begun.extend(rewrite));
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
pub(super) fn pieces(choice: Choice, bytes: u64) -> Vec<Choice> {
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

/// Tables that hold large pieces of `pieces` together, each to be rewritten where it is, and the keys at which it is to be cut, rising: where tables of the deepest
/// level begin, at least [`PIECE_TABLES`] apart.
pub(super) fn wide(pieces: &[Choice], table_bytes: u64) -> (Vec<Choice>, Vec<Vec<u8>>) {
    let (mut wide, mut cuts) = (Vec::new(), Vec::new());
    for piece in pieces.iter().filter(|piece| piece.input_bytes() >= PIECE_TABLES_MAX * table_bytes) {
        let Some(deepest) = piece.inputs.iter().map(|(level, ..)| *level).max() else { continue };
        // Inputs of one level are in order of keys.
        let (mut bytes, mut at) = (0, Vec::new());
        for (_, _, table) in piece.inputs.iter().filter(|(level, ..)| *level == deepest) {
            if bytes >= PIECE_TABLES * table_bytes {
                at.push(table.meta().smallest.clone());
                bytes = 0;
            }
            bytes += table.meta().bytes;
        }
        let is_cut = |table: &Table| {
            let meta = table.meta();
            at.iter().any(|key| meta.smallest < *key && *key <= meta.largest)
        };
        let above = piece.inputs.iter().filter(|(level, _, table)| *level < deepest && is_cut(table));
        let cut: Vec<Choice> = above
            .map(|input| Choice {
                inputs: vec![input.clone()],
                output_level: input.0,
                output_run: input.1,
                moves: false,
                score: piece.score,
            })
            .collect();
        if cut.iter().map(Choice::input_bytes).sum::<u64>() <= piece.input_bytes() / CUT_SHARE {
            wide.extend(cut);
            cuts.extend(at);
        }
    }
    cuts.sort_unstable();
    (wide, cuts)
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

    /// The tables that are to be cut of one piece, each with its place afterwards, and the keys.
    fn to_cut(tables: &[(u32, &str, &str, u64)], table_bytes: u64) -> (Vec<String>, Vec<Vec<u8>>) {
        let input = |(at, (level, smallest, largest, bytes)): (usize, &(u32, &str, &str, u64))| {
            let name = format!("{level} {smallest}-{largest}");
            let run = if *level == 0 { at as u64 } else { 0 };
            (*level, run, table(name, smallest.as_bytes(), largest.as_bytes(), *bytes, 0.0))
        };
        let inputs = tables.iter().enumerate().map(input).collect();
        let piece = Choice { inputs, output_level: 6, output_run: 0, moves: false, score: 1.0 };
        let (wide, cuts) = wide(&[piece], table_bytes);
        assert!(wide.iter().all(|choice| choice.inputs.len() == 1 && !choice.moves));
        let told = |choice: &Choice| {
            let Choice { inputs, output_level, output_run, .. } = choice;
            format!("{} in {output_level}, {output_run}", inputs[0].2.meta().file)
        };
        (wide.iter().map(told).collect(), cuts)
    }

    #[test]
    fn what_holds_a_large_piece_together_is_cut_where_it_is() {
        let last =
            [(6, "a", "b", 40), (6, "c", "d", 40), (6, "e", "f", 40), (6, "g", "h", 40), (6, "i", "j", 40)];
        // One that has the first key behind a cut is cut too, one between two cuts is not.
        let above = [(0, "b", "c", 5), (5, "c", "d1", 5), (0, "d1", "g", 10), (5, "h", "h", 5)];
        let all = [&above[..], &last].concat();
        let cuts: Vec<Vec<u8>> = ["c", "e", "g", "i"].map(|key| key.as_bytes().to_vec()).to_vec();
        let expected = ["0 b-c in 0, 0", "0 d1-g in 0, 2"].map(str::to_owned).to_vec();
        assert_eq!(to_cut(&all, 10), (expected, cuts));
        // It is too small; nothing holds it together; there is too much above.
        assert_eq!(to_cut(&all, 20), (vec![], vec![]));
        assert!(to_cut(&last, 10).0.is_empty());
        assert_eq!(to_cut(&[&[(0, "b", "c", 100)][..], &last].concat(), 10), (vec![], vec![]));
    }
}
