//! Manifest edits: what changed in the set of live files.
//!
//! A database's state is its newest *base* edit and every edit after it, in the order of their
//! numbers. Each edit is one file that is created whole, never changed, and never created twice. In
//! the order of reading: [`edit`] (the file), [`change`] (what it says) and what changes speak of
//! ([`keyspace`], [`table`], [`blobs`], [`cold`]). Fields are stored as [`crate::bytes`] says.

pub mod edit;
pub mod change;
pub mod keyspace;
pub mod table;
pub mod blobs;
pub mod cold;
mod extent;

pub use blobs::{BlobSegmentMeta, RelocationTarget};
pub use change::Change;
pub use cold::ColdChange;
pub use edit::{EDIT_HEADER_BYTES, EDIT_MAGIC, EditEncoder, ManifestEdit};
pub use keyspace::KeyspaceText;
pub use table::TableMeta;

#[cfg(test)]
mod tests;
