//! Separated values: in blob segments, written once and read by reference.
//!
//! ```text
//!   blob segment   header │ record 0 │ record 1 │ … │ ordinal table │ relocations │ footer
//!                            head, chunks' checksums,   └──────── written when it is sealed ────────┘
//!                            key, chunks
//!                              ▲
//!   log record, table entry ───┘ a reference: (segment, ordinal), and where that was when it was written
//! ```
//! A value is named by the number of the segment it was first written to and by its **ordinal**
//! there, for ever. When a segment is collected its survivors are copied, head included, to another
//! one, and a [`Relocation`] says where. The head still has the name it was born with: a reader
//! that follows a reference sees whether it led to the right value.
//!
//! [`reference`](mod@reference) is what stands in the tree, [`record`] what stands in a segment.
//! [`segment`] is what surrounds the records, [`relocation`] what is left of a collected segment,
//! [`ordinals`] a set of values of one segment.
//!
//! Since: FormatVersion::V1. Golden: `golden/blob-segment-v1-*`.

pub mod reference;
pub mod record;
pub mod stored;
pub mod segment;
pub mod relocation;
pub mod ordinals;

pub use ordinals::Ordinals;
pub use record::{BlobHead, BlobRecord, CHUNK_BYTES};
pub use reference::{REFERENCE_BYTES_MAX, Reference, ReferenceBytes, SegmentNumber};
pub use relocation::Relocation;
pub use segment::{BlobFooter, BlobSegmentHeader};
pub use stored::{Stored, stored_chunk};
