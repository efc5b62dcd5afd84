//! Tables: sorted string table files, immutable once finished.
//!
//! ```text
//!   ┌──────────────────────────────────────────────────────────────────────────────────────────┐
//!   │ data block │ data block │ … │ filter │ prefixes │ tombstones │ references │ index blocks │ top │ props │ footer
//!   └──────────────────────────────────────────────────────────────────────────────────────────┘
//!   0                         data_bytes                                                        end-128
//! ```
//! Read from the end: [`footer`] says where everything is, [`properties`] what the file holds and
//! [`expiring`] when that expires, [`index`] in which [`data`] block a key lies; [`block`] is what
//! surrounds each of them (codec and checksum). The filters are [`crate::filter`]s over
//! [`crate::filter::filter_hash`]es, the tombstones a [`crate::tombstone::FragmentList`], the
//! [`references`] what the table's entries of kind `PutReference` refer to. [`encoder`] writes all
//! of it; [`content`] is the hash by which jobs prove that nothing was lost.
//!
//! # Invariants
//! 1. Entries are ordered by key, and of one key newest first; no (key, sequence) twice.
//! 2. Every byte is covered by the checksum of its block or of the footer, and by the file's.
//! 3. Bytes depend on the form and the entries alone: not on name, host, time or attempt.
//!
//! Since: FormatVersion::V1. Golden: `golden/table-v*-*`.

pub mod encoder;
pub mod block;
pub mod data;
pub mod index;
pub mod properties;
pub mod expiring;
pub mod references;
pub mod footer;
pub mod content;

#[cfg(test)]
mod tests;

pub use content::FileChecksum;
pub use encoder::{Finished, TableEncoder, TableForm};
pub use expiring::Expiring;
pub use footer::{FOOTER_BYTES, Footer, Handle, TABLE_MAGIC};
pub use properties::{Properties, ReferenceSummary};
pub use references::ReferenceSet;

/// Length of a key's prefix, if it has one; the function form of a prefix extractor.
pub type PrefixBytes = std::sync::Arc<dyn Fn(&[u8]) -> Option<usize> + Send + Sync>;
