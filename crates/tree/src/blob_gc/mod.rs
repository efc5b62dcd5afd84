//! Garbage collection of blobs: what is dead, which segments hold too much of it, and copying what
//! lives.
//!
//! ```text
//!   a segment is full ─► seal: ordinal table, footer, sync, an edit
//!   hidden: what newer records hide is brought to light ─► flushes, compactions
//!   flush ─► stale: what it leaves without readers ─► deaths
//!   compaction ─► deaths: what nothing refers to any more
//!              ─► space: which segments hold too much of it
//!              ─► collect: survivors to a new segment (a job), redirects, an edit
//! ```

mod collect;
mod deaths;
pub(crate) mod hidden;
mod seal;
mod space;
mod stale;

pub(crate) use collect::Collecting;
pub(crate) use deaths::references_of;
pub(crate) use seal::{SEALED_AT_ONCE_MAX, commit_seals, seal_values, share_sealed};
pub(crate) use space::BlobSpace;
pub(crate) use stale::Outlived;
