//! Range tombstones: which stretches of keys were deleted, and when.
//!
//! A [`FragmentList`] holds *spans* `start..end @ sequence`: every version of a key of `start..end`
//! that is older than `sequence` is deleted. The distinct starts and ends cut the keys into
//! *fragments*; all keys of one fragment are covered by the same sequences.
//!
//! ```text
//!   keys        a        f        m        t        z
//!   spans       ├──────── 40 ─────┤
//!                        ├─────── 25 ──────┤
//!                                 ├────── 70 ───────┤
//!   fragments   │  40    │ 40 25  │ 70 25  │   70    │
//! ```
//!
//! # Invariants
//! 1. Canonical: spans of one sequence neither overlap nor touch; spans are ordered by (start,
//!    newest first). So equal sets of deletions are equal lists, whatever order they came in and
//!    however they were cut.
//! 2. Memory is O(n log n) for n spans even where all overlap. A fragment's sequences lie along one
//!    path of a segment tree over the fragments, never in a list of its own.
//! 3. The content hash of a span is `h(end, sequence) - h(start, sequence)` mod 2^128. So cutting a
//!    span in pieces changes no sum: jobs over neighbouring key ranges add up to the job over both.

mod encoding;
mod list;
mod thin;

#[cfg(test)]
mod tests;

pub use list::{Fragment, FragmentList, Span, Stretch};
