//! All tables of a key range, rewritten into its last level: piece by piece.
//!
//! ```text
//!   what overlaps the range ─► pieces that overlap nothing outside, in order of keys
//!                                ├─ piece 0 ─► jobs ─► commit
//!                                ├─ piece 1 ─► jobs ─► commit
//!                                └─ ... as many jobs at once as there are executors
//! ```
//! Each piece is committed once it and all before it are done. A crash, or a full disk, costs the
//! pieces after it and no other. What a piece replaces is removed before the next ones have written
//! theirs.
//!
//! Where there are several levels, their tables may overlap one another in a chain through much of
//! the range, which is one large piece. There what lies above the deepest level is first brought
//! into the level over that, cut where tables of the deepest begin. Then the range is looked at
//! anew. That writes a tenth more, and no part of a large piece waits for another. Inputs stay
//! whole tables, whose sums are known.

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};

use firn_engine::{ErrorKind, Result};
use firn_maintenance::{Work, wait_until};

use super::Compacting;
use super::pick::pick_range;
use crate::maintenance::Choice;
use crate::version::Table;

/// Tables' worth of bytes that a piece has at least: so that its outputs are of the size that they
/// should have.
const PIECE_TABLES: u64 = 4;

/// Tables' worth of bytes from which on what holds a piece together is cut first.
const PIECE_TABLES_MAX: u64 = 16;

/// What has to be written for that is at most the piece divided by this.
const CUT_SHARE: u64 = 4;

impl Compacting<'_> {
    /// Rewrites whatever overlaps `start..end` into the last level that holds any of it.
    ///
    /// Waits for other calls, and for compactions of `work` that are in progress, first: so that it
    /// finds their tables free.
    ///
    /// # Errors
    /// `Retry` when the disk is full: the beginning of the range is rewritten then, or what lies
    /// above the last level is cut more finely.
    pub(crate) fn compact_range(
        &self,
        work: &impl Work,
        keyspace: u32,
        start: &[u8],
        end: Option<&[u8]>,
    ) -> Result<()> {
        let _one_at_a_time = self.maintenance.compacting_range.lock().unwrap_or_else(PoisonError::into_inner);
        wait_until(work, || false)?;
        let _alone = self.maintenance.hold();
        let done = self.compact_whole(keyspace, start, end).map_err(|error| work.explain(error));
        if done.as_ref().is_err_and(|error| error.kind() == ErrorKind::Retry) {
            // Their blocks may be what is wanted, by whatever writes next.
            work.make_room();
        }
        done
    }

    fn compact_whole(&self, keyspace: u32, start: &[u8], end: Option<&[u8]>) -> Result<()> {
        let table_bytes = self.settings.engine.table_bytes;
        let pieces = || -> Result<Vec<Choice>> {
            let version = self.edits.catalog.version.load_full();
            let choice = pick_range(&version.keyspace(keyspace)?.levels, start, end, &self.pick_rules());
            Ok(choice.map_or_else(Vec::new, |choice| pieces(choice, PIECE_TABLES * table_bytes)))
        };
        let chained = pieces()?;
        let (above, cuts) = above(&chained, table_bytes);
        if above.is_empty() {
            return self.compact_pieces(keyspace, chained, &[]);
        }
        drop(chained);
        self.compact_pieces(keyspace, above, &cuts)?;
        // Of a keyspace that was dropped meanwhile nothing is left to do.
        self.compact_pieces(keyspace, pieces().unwrap_or_default(), &[])
    }

    /// Rewrites and commits `pieces`, each after the ones before it; see
    /// [`begin_rewrite`](Self::begin_rewrite) for `cuts`.
    fn compact_pieces(&self, keyspace: u32, pieces: Vec<Choice>, cuts: &[Vec<u8>]) -> Result<()> {
        let mut begun = VecDeque::new();
        let mut done = Ok(());
        for piece in pieces {
            // A piece that is about to end is followed at once by the next.
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

/// What holds large pieces of `pieces` together, to be rewritten into the level over the deepest,
/// and the rising keys at which that is to be cut. Tables of the deepest level begin at those, at
/// least [`PIECE_TABLES`] apart.
///
/// Level 0 alone over one level is left as it is: flushes have cut it where overlaps of that level
/// begin.
pub(super) fn above(pieces: &[Choice], table_bytes: u64) -> (Vec<Choice>, Vec<Vec<u8>>) {
    let (mut all, mut cuts) = (Vec::new(), Vec::new());
    for piece in pieces.iter().filter(|piece| piece.input_bytes() >= PIECE_TABLES_MAX * table_bytes) {
        let mut levels: Vec<u32> = piece.inputs.iter().map(|(level, ..)| *level).collect();
        levels.sort_unstable();
        levels.dedup();
        let [.., over, deepest] = levels[..] else { continue };
        if over == 0 {
            continue;
        }
        let at = bounds(piece, deepest, PIECE_TABLES * table_bytes);
        let inputs = piece.inputs.iter().filter(|(level, ..)| *level < deepest).cloned().collect();
        let overlaps = self::pieces(Choice { inputs, output_level: over, ..piece.clone() }, 1);
        let is_cut = |overlap: &Choice| {
            let is_cut = |table: &Table| {
                at.iter().any(|key| table.meta().smallest < *key && *key <= table.meta().largest)
            };
            overlap.inputs.iter().any(|(_, _, table)| is_cut(table))
        };
        let overlaps: Vec<Choice> = overlaps.into_iter().filter(is_cut).collect();
        if overlaps.iter().map(Choice::input_bytes).sum::<u64>() <= piece.input_bytes() / CUT_SHARE {
            all.extend(overlaps);
            cuts.extend(at);
        }
    }
    cuts.sort_unstable();
    (all, cuts)
}

/// Where tables of `level` begin, at least `bytes` of that level apart.
fn bounds(piece: &Choice, level: u32, bytes: u64) -> Vec<Vec<u8>> {
    let (mut held, mut bounds) = (0, Vec::new());
    // Inputs of one level are in order of keys.
    for (_, _, table) in piece.inputs.iter().filter(|(of, ..)| *of == level) {
        let meta = table.meta();
        if held >= bytes {
            bounds.push(meta.smallest.clone());
            held = 0;
        }
        held += meta.bytes;
    }
    bounds
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
        // What lies over two of them, or only touches one, holds them together; newest first within
        // a piece.
        let over = [(0, "e", "h", 1), (0, "l", "l", 1), (0, "c", "c", 1)];
        let all = [&tables[..], &over].concat();
        let expected =
            [vec!["0 c-c", "6 a-c"], vec!["0 e-h", "6 d-f", "6 g-i"], vec!["0 l-l", "6 j-l"], vec!["6 m-o"]];
        assert_eq!(names(&all, 1), expected);
        assert_eq!(names(&[(6, "", "z", 1), (0, "", "", 1)], 1), [vec!["0 -", "6 -z"]]);
    }

    /// Which tables of one piece are brought together, and where to, and the keys that they are cut
    /// at.
    fn to_cut(tables: &[(u32, &str, &str, u64)], table_bytes: u64) -> (Vec<String>, Vec<Vec<u8>>) {
        let input = |(level, smallest, largest, bytes): &(u32, &str, &str, u64)| {
            let name = format!("{level} {smallest}-{largest}");
            (*level, 0, table(name, smallest.as_bytes(), largest.as_bytes(), *bytes, 0.0))
        };
        let inputs = tables.iter().map(input).collect();
        let piece = Choice { inputs, output_level: 6, output_run: 0, moves: false, score: 1.0 };
        let (overlaps, cuts) = above(&[piece], table_bytes);
        assert!(overlaps.iter().all(|overlap| (overlap.moves, overlap.output_run) == (false, 0)));
        let shown = |overlap: &Choice| {
            let names: Vec<&str> =
                overlap.inputs.iter().map(|(_, _, table)| table.meta().file.as_str()).collect();
            format!("{} to {}", names.join(", "), overlap.output_level)
        };
        (overlaps.iter().map(shown).collect(), cuts)
    }

    #[test]
    fn what_holds_a_large_piece_together_is_cut_in_the_level_over_the_deepest() {
        let last =
            [(6, "a", "b", 40), (6, "c", "d", 40), (6, "e", "f", 40), (6, "g", "h", 40), (6, "i", "j", 40)];
        // A table that has the first key behind a cut is cut too, a table between two cuts is not.
        // What overlaps a table that is cut comes along.
        let above =
            [(0, "b", "c", 5), (5, "c", "d1", 5), (0, "e", "f", 5), (4, "f1", "g", 10), (5, "h", "h", 5)];
        let all = [&above[..], &last].concat();
        let cuts: Vec<Vec<u8>> = ["c", "e", "g", "i"].map(|key| key.as_bytes().to_vec()).to_vec();
        let expected = ["0 b-c, 5 c-d1 to 5", "4 f1-g to 5"].map(str::to_owned).to_vec();
        assert_eq!(to_cut(&all, 10), (expected, cuts));
        // It is too small; nothing holds it together; there is too much above; there is but level 0
        // above.
        assert_eq!(to_cut(&all, 20), (vec![], vec![]));
        assert!(to_cut(&last, 10).0.is_empty());
        assert_eq!(to_cut(&[&[(5, "b", "c", 100)][..], &last].concat(), 10), (vec![], vec![]));
        assert_eq!(to_cut(&[&[(0, "b", "c", 5)][..], &last].concat(), 10), (vec![], vec![]));
    }
}
