//! Which tables a compaction takes, and where they go.

use std::sync::Arc;

use crate::version::Table;

/// Tables to rewrite together.
#[derive(Clone, Debug)]
pub(crate) struct Choice {
    /// (level, sorted run, table), newest place first.
    pub(crate) inputs: Vec<(u32, u64, Arc<Table>)>,
    pub(crate) output_level: u32,
    /// The sorted run that the outputs belong to; 0 in deeper levels.
    pub(crate) output_run: u64,
    /// The inputs overlap nothing below and each other nowhere: they change their level and are not
    /// rewritten.
    pub(crate) moves: bool,
    /// How urgent, 1.0 = at the limit.
    pub(crate) score: f64,
}

impl Choice {
    /// Whether it takes tables out of level 0, or only changes what the version says: no thread
    /// waits for either for long.
    pub(crate) fn is_l0(&self) -> bool {
        self.moves || self.inputs.iter().any(|(level, ..)| *level == 0)
    }

    /// Size at which output tables are cut, where they are to have about `target` bytes and are cut
    /// at `splits` too. With it they are all alike, and no small one is left at the end.
    pub(crate) fn table_bytes(&self, target: u64, splits: &[Vec<u8>]) -> u64 {
        let mut bytes = self.input_bytes();
        if self.output_level > 0 {
            bytes = bytes.saturating_sub(self.superseded_bytes()).max(bytes / 4);
        }
        let pieces = splits.iter().filter(|split| self.spans(split)).count() as u64 + 1;
        let piece = bytes / pieces;
        match (piece + target / 2) / target.max(1) {
            0 | 1 => target * 2,
            // An estimate that is a little too low must not leave a small one either.
            count => piece / count + piece / count / 16,
        }
    }

    /// Whether there are inputs on both sides of `key`.
    fn spans(&self, key: &[u8]) -> bool {
        self.inputs.iter().any(|(_, _, table)| table.meta().smallest.as_slice() < key)
            && self.inputs.iter().any(|(_, _, table)| table.meta().largest.as_slice() >= key)
    }

    pub(crate) fn input_bytes(&self) -> u64 {
        self.inputs.iter().map(|(_, _, table)| table.meta().bytes).sum()
    }

    pub(crate) fn superseded_bytes(&self) -> u64 {
        self.inputs.iter().map(|(_, _, table)| table.superseded_bytes()).sum()
    }
}

/// A compaction of one keyspace.
pub(crate) type OfKeyspace = (u32, Choice);
