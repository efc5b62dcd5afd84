//! The memtable: a mutable index over the records of the newest log segments.
//!
//! Hash for points, order on demand. A record's bytes are in the log already; the memtable keeps 32
//! bytes that give their position, found by hash. Sorting waits until a scan or the freeze needs
//! it.
//!
//! ```text
//!   insert ─► entries (array in chunks) ◄─ points (hash tables)   ◄─ newest
//!                        ▲
//!                        └─ order (sorted arrays below a watermark) ◄─ cursor, freeze_entries
//!     └─► gaps (ranges without a live record) ◄─ scans
//!   insert_range_delete ─► tombstones (fragment lists)            ◄─ newest_covering_range_delete
//! ```
//!
//! # Invariants
//! 1. A record is inserted before it is published, so a reader at watermark W finds every record
//!    below W.
//! 2. No record's bytes are read before it is published: insertion orders by hash and sequence
//!    alone.
//! 3. Nothing is moved, changed or freed before the memtable itself is.
//!
//! No `unsafe` here: entries are arrays of atomics. Decision: docs/decisions/0002-memtable.md.

mod entries;
mod points;
mod sorted;
mod order;
mod cursor;
mod tombstones;
mod sample;
mod gaps;
mod unsorted;
#[path = "memtable.rs"]
mod table;

pub(crate) use cursor::MemtableCursor;
pub(crate) use gaps::{Gap, GapBudget, Gaps, List as GapList, Passed};
pub(crate) use table::Memtable;
pub(crate) use tombstones::RangeDeletes;
pub(crate) use unsorted::Range as KeyRange;

use crate::Records;
use firn_format::key::Trailer;
use firn_format::log::Record;

/// The record that a published entry refers to.
///
/// # Panics
/// If the log does not hold it: it would be silent loss to go on.
#[inline]
fn record_of<R: Records + ?Sized>(records: &R, trailer: Trailer) -> Record<'_> {
    match records.record(trailer.sequence().position()) {
        Some(record) => record,
        None => missing(trailer),
    }
}

#[cold]
fn missing(trailer: Trailer) -> ! {
    panic!("an indexed record is not in the log: position {}", trailer.sequence().position())
}

#[cfg(test)]
mod tests;
