//! The rules: which versions of a key stay.
//!
//! Snapshots cut the sequences into *intervals*. Interval i holds exactly what the snapshots from
//! the i-th on see, the last interval what only readers of everything see. Of one key, from newest
//! to oldest:
//!
//! 1. Behind a put or delete, nothing older of its interval can be read: *shadowed*. Same for what
//!    a range tombstone of its interval covers: *range*. A record whose reference is obsolete is
//!    shadowed too, by one outside of the inputs.
//! 2. A put that expired becomes a tombstone of the same sequence; so does one that no snapshot
//!    sees and that the compaction filter drops.
//! 3. A tombstone that every snapshot sees is dropped where nothing older can lie outside the
//!    inputs: inside them rule 1 drops all that is older.
//! 4. Operands of one interval are combined with the put, delete or nothing below them, else into
//!    one operand if the operator can. The result has the newest operand's sequence. Records that
//!    expire take no part in it: each has a time of its own. What the operator cannot apply stays,
//!    so that reads say so.
//! 5. An entry of a table without sequences of its own has the table's from here on.
//! 6. What is kept has its value in the tree or separated, by its length. A separated value is read
//!    only for that move, for the filter, and as the base of operands.
//!
//! Everything is counted in [`Sums`]. No allocation per entry, merge operators apart.

mod operands;
mod rules;
mod blobs;

pub use blobs::CompactBlobs;
pub use rules::CompactRules;

use std::ops::Deref;

use firn_format::key::{Entry, Kind, Sequence};
use firn_format::table::content::entry_hash;
use firn_format::tombstone::FragmentList;
use firn_storage::Storage;

use crate::Cursor;
use crate::conservation::Sums;
use crate::control::{Control, Watch};
use crate::error::Result;
use crate::spec::KeyRange;
use operands::Operands;

/// Where kept entries go.
pub trait Sink {
    /// Takes the next entry in order.
    ///
    /// # Errors
    /// The job ends with it.
    fn add(&mut self, entry: &Entry<'_>) -> Result<()>;
}

impl<S: Deref<Target: Storage>> Sink for crate::write::TableWriter<S> {
    fn add(&mut self, entry: &Entry<'_>) -> Result<()> {
        crate::write::TableWriter::add(self, entry)
    }
}

/// Runs the rules over all entries of `source` in `range` and gives what stays to `sink`.
///
/// `tombstones` are all range tombstones of the inputs inside `range`; which of them stay is
/// [`CompactRules::kept_tombstones`]' business. Without `values` the separated ones are not read
/// and stay there: no operand is combined with one, and no filter sees one. The sums have
/// everything but the range tombstones. Blocks on whatever the source reads; looks at `control`
/// every thousand entries, and every MiB.
///
/// # Errors
/// What source and sink say; `Cancelled`.
pub fn compact_entries<C: Cursor + ?Sized, S: Sink + ?Sized>(
    source: &mut C,
    range: &KeyRange,
    tombstones: &FragmentList,
    rules: &CompactRules,
    values: Option<&mut CompactBlobs<'_>>,
    sink: &mut S,
    control: &Control,
) -> Result<Sums> {
    let mut compaction = Compaction {
        rules,
        tombstones,
        values,
        sink,
        sums: Sums::default(),
        key: Vec::new(),
        has_key: false,
        last: None,
        closed: None,
        cover: None,
        operands: Operands::default(),
    };
    source.seek(&range.start)?;
    let mut watch = Watch::new(control);
    while let Some(entry) = source.entry() {
        if range.end.as_ref().is_some_and(|end| entry.key >= end.as_slice()) {
            break;
        }
        let bytes = entry.key.len() + entry.value.len();
        let hash = match source.has_given_sequence() {
            false => compaction.read(&entry),
            true => compaction.read_without_sequence(&entry),
        };
        compaction.take(&entry, hash)?;
        source.next()?;
        watch.pass(bytes as u64 + compaction.values.as_mut().map_or(0, |values| values.take_read_bytes()))?;
    }
    compaction.end_key()?;
    Ok(compaction.sums)
}

struct Compaction<'r, 'v, S: ?Sized> {
    rules: &'r CompactRules,
    tombstones: &'r FragmentList,
    values: Option<&'r mut CompactBlobs<'v>>,
    sink: &'r mut S,
    sums: Sums,
    key: Vec<u8>,
    has_key: bool,
    /// Sequence of the entry taken last, of this key.
    last: Option<Sequence>,
    /// The interval in which everything older of this key is out of sight.
    closed: Option<usize>,
    /// The newest range tombstone over this key that interval's readers see, and the interval.
    cover: Option<(usize, Option<Sequence>)>,
    /// Operands of this key not written yet, all of one interval.
    operands: Operands,
}

/// What operands are combined with: a put of their interval.
struct Base<'e> {
    entry: &'e Entry<'e>,
    hash: u128,
    /// Its value, wherever that lies.
    value: &'e [u8],
}

impl<S: Sink + ?Sized> Compaction<'_, '_, S> {
    /// Counts `entry`, which was read; its hash.
    #[inline]
    fn read(&mut self, entry: &Entry<'_>) -> u128 {
        let hash = entry_hash(entry);
        self.sums.input.add(entry.key.len() + entry.value.len(), hash);
        hash
    }

    /// The same of an entry whose sequence is its table's: what was read has none, and one that has
    /// it takes its place.
    fn read_without_sequence(&mut self, entry: &Entry<'_>) -> u128 {
        let hash = entry_hash(entry);
        let bytes = entry.key.len() + entry.value.len();
        let stored = self.read(&Entry { sequence: Sequence(0), ..*entry });
        self.sums.moved.add(bytes, stored);
        self.sums.produced.add(bytes, hash);
        hash
    }

    /// Takes the next entry, which has this `hash`.
    #[inline]
    fn take(&mut self, entry: &Entry<'_>, hash: u128) -> Result<()> {
        let bytes = entry.key.len() + entry.value.len();
        if !self.has_key || self.key != entry.key {
            self.end_key()?;
            self.key.clear();
            self.key.extend_from_slice(entry.key);
            (self.has_key, self.last, self.closed, self.cover) = (true, None, None, None);
        }
        if self.last == Some(entry.sequence) {
            self.sums.duplicate.add(bytes, hash);
            return Ok(());
        }
        self.last = Some(entry.sequence);
        let interval = self.rules.interval(entry.sequence);
        if self.closed == Some(interval) {
            self.sums.shadowed.add(bytes, hash);
            return Ok(());
        }
        if self.operands.interval().is_some_and(|pending| pending != interval) {
            self.flush_partly()?;
        }
        if self.is_obsolete(entry)? {
            self.sums.shadowed.add(bytes, hash);
            self.closed = Some(interval);
            return Ok(());
        }
        if self.is_covered(entry.sequence, interval) {
            self.sums.range.add(bytes, hash);
            self.close(interval, None)?;
            return Ok(());
        }
        self.take_visible(entry, interval, bytes, hash)
    }

    /// Whether a newer record outside of the inputs hides this one from every reader, so that its
    /// value may be gone.
    #[inline]
    fn is_obsolete(&self, entry: &Entry<'_>) -> Result<bool> {
        match (&self.values, entry.kind) {
            (Some(values), Kind::PutReference) => values.is_obsolete(entry),
            _ => Ok(false),
        }
    }

    /// Ends the interval's operands with `base` (a put without expiry), or with nothing; whether
    /// they were combined.
    fn close(&mut self, interval: usize, base: Option<Base<'_>>) -> Result<bool> {
        self.closed = Some(interval);
        match self.operands.is_empty() {
            true => Ok(false),
            false => self.flush_whole(base),
        }
    }

    #[inline]
    fn take_visible(&mut self, entry: &Entry<'_>, interval: usize, bytes: usize, hash: u128) -> Result<()> {
        match entry.kind {
            Kind::Put | Kind::PutReference if entry.expires_at_ms != 0 => {
                if entry.expires_at_ms > self.rules.tick_ms() {
                    // It may or may not be the operands' base when they are read: they stay apart.
                    self.flush_partly()?;
                    return self.put(entry, interval, bytes, hash);
                }
                self.sums.expired.add(bytes, hash);
                self.leave_tombstone(entry, interval)
            }
            Kind::Put | Kind::PutReference if self.operands.is_empty() => {
                self.put(entry, interval, bytes, hash)
            }
            Kind::Put => {
                let base = Base { entry, hash, value: entry.value };
                self.close(interval, Some(base)).map(drop)
            }
            Kind::PutReference => self.close_with_reference(entry, interval, bytes, hash),
            Kind::Delete => {
                if self.close(interval, None)? {
                    self.sums.merged.add(bytes, hash);
                    return Ok(());
                }
                if self.rules.tombstone_is_idle(entry.key, interval) {
                    self.sums.tombstone.add(bytes, hash);
                    return Ok(());
                }
                self.sink.add(entry)
            }
            Kind::Merge if self.rules.merge_operator().is_some() && entry.expires_at_ms == 0 => {
                if self.operands.is_full() {
                    self.flush_partly()?;
                }
                self.operands.push(interval, entry, hash);
                Ok(())
            }
            // An operand that no operator here combines: in its place, after those waiting.
            _ => {
                self.flush_partly()?;
                self.sink.add(entry)
            }
        }
    }

    /// Ends the interval's operands with a value that is separated.
    fn close_with_reference(
        &mut self,
        entry: &Entry<'_>,
        interval: usize,
        bytes: usize,
        hash: u128,
    ) -> Result<()> {
        let Some(values) = &mut self.values else {
            // Not read here: operands above it stay.
            self.flush_partly()?;
            return self.put(entry, interval, bytes, hash);
        };
        let value = values.follow(entry)?.to_vec();
        self.close(interval, Some(Base { entry, hash, value: &value })).map(drop)
    }

    /// A put with nothing above it in its interval.
    #[inline]
    fn put(&mut self, entry: &Entry<'_>, interval: usize, bytes: usize, hash: u128) -> Result<()> {
        self.closed = Some(interval);
        if self.rules.is_filtered(interval) && self.filter_drops(entry)? {
            self.sums.filtered.add(bytes, hash);
            return self.leave_tombstone(entry, interval);
        }
        self.keep(entry)
    }

    /// Whether the filter drops this put, whose value is read for that where it may be.
    fn filter_drops(&mut self, entry: &Entry<'_>) -> Result<bool> {
        if entry.kind == Kind::Put {
            return Ok(self.rules.filter_drops(entry.key, entry.value));
        }
        match &mut self.values {
            Some(values) => Ok(self.rules.filter_drops(entry.key, values.follow(entry)?)),
            None => Ok(false),
        }
    }

    /// Gives a put to the sink, its value where that is to lie.
    #[inline]
    fn keep(&mut self, entry: &Entry<'_>) -> Result<()> {
        let Self { values, sink, sums, .. } = self;
        if let Some(values) = values
            && let Some(moved) = values.moved(entry)?
        {
            sums.moved.add(entry.key.len() + entry.value.len(), entry_hash(entry));
            sums.produced.add(moved.key.len() + moved.value.len(), entry_hash(&moved));
            return sink.add(&moved);
        }
        sink.add(entry)
    }

    /// What stays of a put that counts as deleted.
    fn leave_tombstone(&mut self, entry: &Entry<'_>, interval: usize) -> Result<()> {
        if self.close(interval, None)? {
            return Ok(());
        }
        if self.rules.tombstone_is_idle(entry.key, interval) {
            return Ok(());
        }
        let tombstone = Entry { kind: Kind::Delete, expires_at_ms: 0, value: &[], ..*entry };
        self.sums.produced.add(tombstone.key.len(), entry_hash(&tombstone));
        self.sink.add(&tombstone)
    }

    /// No older version of the key is in the inputs.
    fn end_key(&mut self) -> Result<()> {
        if self.operands.is_empty() {
            return Ok(());
        }
        if self.rules.may_be_older(&self.key) {
            return self.flush_partly();
        }
        self.flush_whole(None).map(drop)
    }

    /// Whether a newer range tombstone hides `sequence` from every reader of `interval`.
    #[inline]
    fn is_covered(&mut self, sequence: Sequence, interval: usize) -> bool {
        if self.tombstones.is_empty() {
            return false;
        }
        let newest = match self.cover {
            Some((known, newest)) if known == interval => newest,
            _ => {
                let newest = self.tombstones.newest_covering(&self.key, self.rules.interval_end(interval));
                self.cover = Some((interval, newest));
                newest
            }
        };
        newest > Some(sequence)
    }

    /// Writes the waiting operands combined with their base, or all as they are; whether they were
    /// combined.
    fn flush_whole(&mut self, base: Option<Base<'_>>) -> Result<bool> {
        let operands = std::mem::take(&mut self.operands);
        let operator = self.rules.merge_operator();
        let value = operator.and_then(|operator| {
            operator.merge(&self.key, base.as_ref().map(|base| base.value), &operands.oldest_first())
        });
        let combined = value.is_some();
        match value {
            Some(value) => {
                self.sums.merged = self.sums.merged.plus(operands.tally(self.key.len()));
                if let Some(Base { entry, hash, .. }) = base {
                    self.sums.merged.add(entry.key.len() + entry.value.len(), hash);
                }
                self.produce(&operands, Kind::Put, &value)?;
            }
            None => {
                operands.write_all(&self.key, self.sink)?;
                if let Some(base) = base {
                    self.keep(base.entry)?;
                }
            }
        }
        self.operands = operands.cleared();
        Ok(combined)
    }

    /// Writes the waiting operands as one operand if the operator can tell it without a base, else
    /// as they are.
    fn flush_partly(&mut self) -> Result<()> {
        if self.operands.is_empty() {
            return Ok(());
        }
        let operands = std::mem::take(&mut self.operands);
        let combined = match self.rules.merge_operator() {
            Some(operator) if operands.len() > 1 => {
                operator.merge_partial(&self.key, &operands.oldest_first())
            }
            _ => None,
        };
        let result = match combined {
            Some(operand) => {
                self.sums.merged = self.sums.merged.plus(operands.tally(self.key.len()));
                self.produce(&operands, Kind::Merge, &operand)
            }
            None => operands.write_all(&self.key, self.sink),
        };
        self.operands = operands.cleared();
        result
    }

    /// Writes what the operands became.
    fn produce(&mut self, operands: &Operands, kind: Kind, value: &[u8]) -> Result<()> {
        let (sequence, interval) = operands.newest();
        let made = Entry { key: &self.key, sequence, kind, expires_at_ms: 0, value };
        let bytes = made.key.len() + value.len();
        let hash = entry_hash(&made);
        self.sums.produced.add(bytes, hash);
        if kind == Kind::Put
            && self.rules.is_filtered(interval)
            && self.rules.filter_drops(made.key, made.value)
        {
            self.sums.filtered.add(bytes, hash);
            if self.rules.tombstone_is_idle(&self.key, interval) {
                return Ok(());
            }
            let tombstone = Entry { kind: Kind::Delete, value: &[], ..made };
            self.sums.produced.add(tombstone.key.len(), entry_hash(&tombstone));
            return self.sink.add(&tombstone);
        }
        let key = std::mem::take(&mut self.key);
        let kept = self.keep(&Entry { key: &key, sequence, kind, expires_at_ms: 0, value });
        self.key = key;
        kept
    }
}
