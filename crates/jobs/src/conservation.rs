//! The sums that show that a job lost no entry and invented none.
//!
//! Each entry has a 128-bit hash ([`firn_format::table::content`]); hashes are summed mod 2^128. A
//! job adds the hash of every entry it reads to `input`, and of every entry it leaves out to a
//! class of dropped ones. The hash of every entry it makes is added to `produced`: combined values,
//! tombstones for expired ones, puts whose value was moved, entries that got a sequence. The writer
//! of the outputs computes their hashes from what it is given. Then
//!
//! ```text
//!   input + produced = outputs + shadowed + duplicate + tombstones + range + expired + filtered + merged + moved + ranges
//! ```
//! holds, or something was lost, changed or made up. This proves the absence of accidents, not
//! honesty. Range tombstones are hashed so that cutting one in two changes no sum
//! ([`firn_format::tombstone`]).

use firn_format::manifest::TableMeta;

use crate::error::{Error, ErrorKind, Result};

/// How many entries of a class, their bytes and the sum of their hashes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Entries.
    pub count: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
    /// Sum of their hashes mod 2^128.
    pub hash: u128,
}

impl Tally {
    /// Counts one entry.
    #[inline]
    pub fn add(&mut self, bytes: usize, hash: u128) {
        self.count += 1;
        self.bytes += bytes as u64;
        self.hash = self.hash.wrapping_add(hash);
    }

    /// Both together.
    #[must_use]
    pub fn plus(self, other: Tally) -> Tally {
        Tally {
            // A sum made up by another process must not panic the check.
            count: self.count.saturating_add(other.count),
            bytes: self.bytes.saturating_add(other.bytes),
            hash: self.hash.wrapping_add(other.hash),
        }
    }
}

/// The sums of one job, or of several jobs over neighbouring ranges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Everything read. Range tombstones are in the hash, not in count and bytes (as in table
    /// descriptions).
    pub input: Tally,
    /// What the job made: combined operands, tombstones for expired and filtered puts, puts whose
    /// value was moved, entries of ingested tables with their sequence.
    pub produced: Tally,
    /// Versions that no reader can tell from a newer one.
    pub shadowed: Tally,
    /// The same (key, sequence) read twice.
    pub duplicate: Tally,
    /// Tombstones below which nothing can lie.
    pub tombstone: Tally,
    /// Versions under a range tombstone.
    pub range: Tally,
    /// Puts that had expired.
    pub expired: Tally,
    /// Puts the compaction filter dropped.
    pub filtered: Tally,
    /// Operands and bases that were combined.
    pub merged: Tally,
    /// Puts whose value came into the tree or left it; entries of ingested tables, which got their
    /// table's sequence.
    pub moved: Tally,
    /// Range tombstones that no reader needs; the hash alone, since cutting changes their number.
    pub range_tombstones_hash: u128,
}

impl Sums {
    /// All classes with their names, `input` and `produced` first.
    pub fn classes(&self) -> [(&'static str, Tally); 10] {
        [
            ("input", self.input),
            ("produced", self.produced),
            ("shadowed", self.shadowed),
            ("duplicate", self.duplicate),
            ("tombstone", self.tombstone),
            ("range", self.range),
            ("expired", self.expired),
            ("filtered", self.filtered),
            ("merged", self.merged),
            ("moved", self.moved),
        ]
    }

    /// Inverse of [`classes`](Self::classes), names left out.
    pub(crate) fn from_classes(classes: [Tally; 10], range_tombstones_hash: u128) -> Self {
        let [input, produced, shadowed, duplicate, tombstone, range, expired, filtered, merged, moved] =
            classes;
        Self {
            input,
            produced,
            shadowed,
            duplicate,
            tombstone,
            range,
            expired,
            filtered,
            merged,
            moved,
            range_tombstones_hash,
        }
    }

    /// The sums of both jobs together.
    #[must_use]
    pub fn plus(&self, other: &Sums) -> Sums {
        let (mine, others) = (self.classes(), other.classes());
        let hash = self.range_tombstones_hash.wrapping_add(other.range_tombstones_hash);
        Sums::from_classes(std::array::from_fn(|index| mine[index].1.plus(others[index].1)), hash)
    }

    /// Checks the equation against the outputs' descriptions.
    ///
    /// # Errors
    /// `NotConserved`, with what is missing or too much.
    pub fn check_outputs(&self, outputs: &[TableMeta]) -> Result<()> {
        let written = outputs.iter().fold(Tally::default(), |sum, table| {
            sum.plus(Tally { count: table.entry_count, bytes: table.data_bytes, hash: table.content_hash })
        });
        let have = self.input.plus(self.produced);
        let mut accounted = self.classes().iter().skip(2).fold(written, |sum, (_, tally)| sum.plus(*tally));
        accounted.hash = accounted.hash.wrapping_add(self.range_tombstones_hash);
        if have == accounted {
            return Ok(());
        }
        let message = format!(
            "expected {} entries, {} bytes, hash {:032x} in outputs and dropped entries; found {}, {}, {:032x}",
            have.count, have.bytes, have.hash, accounted.count, accounted.bytes, accounted.hash
        );
        Err(Error::new(ErrorKind::NotConserved, message))
    }

    /// Checks that what was read is what the inputs hold. Only for sums that cover all keys of all
    /// inputs.
    ///
    /// # Errors
    /// `NotConserved`.
    pub fn check_inputs<'a>(&self, inputs: impl IntoIterator<Item = &'a TableMeta>) -> Result<()> {
        let held = inputs.into_iter().fold(Tally::default(), |sum, table| {
            sum.plus(Tally { count: table.entry_count, bytes: table.data_bytes, hash: table.content_hash })
        });
        if held == self.input {
            return Ok(());
        }
        let message = format!("expected to read {held:?}, found {:?}", self.input);
        Err(Error::new(ErrorKind::NotConserved, message))
    }
}
