//! Garbage collection of blobs: what is dead, which segments hold too much of it, and copying what
//! lives.
//!
//! ```text
//!   a segment is full ─► seal: ordinal table, footer, sync, an edit
//!   hidden: what newer records hide is brought to light ─► flushes, compactions
//!   flush ─► obsolete: what it leaves without readers ─► liveness
//!   compaction ─► liveness: what nothing refers to any more
//!              ─► space: which segments hold too much of it
//!              ─► collect: survivors to a new segment (a job), relocations, an edit
//! ```

mod collect;
mod liveness;
pub(crate) mod unreclaimed;
mod seal;
mod space;
mod obsolete;

pub(crate) use collect::Collecting;
pub(crate) use liveness::references_of;
pub(crate) use obsolete::NewlyObsolete;
pub(crate) use seal::{SEALED_AT_ONCE_MAX, commit_seals, seal_blobs, share_sealed};
pub(crate) use space::BlobSpace;
