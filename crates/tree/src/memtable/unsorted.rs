//! Entries of a memtable that a view of it does not hold.

use firn_format::Kind;
use firn_format::key::Sequence;

use super::entries::Entries;
use crate::Records;
use crate::buffer::prefix_word;

/// Entries that are looked at for one question, at most; where there are more the answer is that
/// there may be one.
const LOOKED_AT_MAX: u32 = 1 << 16;

/// Keys from `start` to before `end`; `None` = to the last key there can be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range<'k> {
    pub(crate) start: &'k [u8],
    pub(crate) end: Option<&'k [u8]>,
}

impl Range<'_> {
    fn holds(&self, key: &[u8]) -> bool {
        self.start <= key && self.end.is_none_or(|end| key < end)
    }
}

/// The entries that a view did not sort: those at or above its watermark, and what was inserted
/// since.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unsorted<'v> {
    pub(super) left: &'v [u32],
    /// All from this index on.
    pub(super) from: u32,
    /// Whether these are all the entries that the reader of the view does not see.
    pub(super) is_all: bool,
}

impl Unsorted<'_> {
    /// All entries there are, for a caller without a view.
    pub(super) fn all() -> Self {
        Self { left: &[], from: 0, is_all: true }
    }

    /// Whether one of the entries may lie in `range` and be live. Bytes are read of published
    /// records only.
    pub(super) fn may_have_live<R: Records + ?Sized>(
        self,
        entries: &Entries,
        common_prefix: &[u8],
        range: Range<'_>,
        (published, records): (Sequence, &R),
    ) -> bool {
        let taken = entries.taken();
        if !self.is_all || taken.saturating_sub(self.from) > LOOKED_AT_MAX {
            return true;
        }
        let first = prefix_word(range.start, common_prefix);
        let last = range.end.map_or(u64::MAX, |end| prefix_word(end, common_prefix));
        self.left.iter().copied().chain(self.from..taken).any(|index| {
            let Some(entry) = entries.get(index) else { return true };
            // A writer is about to fill it.
            let Some(trailer) = entry.trailer_unless_hole() else { return true };
            if trailer.kind() == Some(Kind::Delete) || !(first..=last).contains(&entry.prefix()) {
                return false;
            }
            let sequence = trailer.sequence();
            let record = (sequence < published).then(|| records.record(sequence.position())).flatten();
            record.is_none_or(|record| range.holds(record.key))
        })
    }
}
