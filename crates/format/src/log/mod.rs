//! Log segments: a header, then frames of records.
//!
//! ```text
//! segment:  header (64 bytes) │ frame │ frame │ … │ zeros
//! frame:    header (24 bytes) │ record │ record │ …
//! ```
//! The file of a segment and its arena in memory have the same bytes. In the order a byte passes:
//! [`segment`] (whose log), [`frame`] (one batch), [`record`] (one key and value); [`large_batch`]
//! names a batch that has a segment of its own, [`scan`] walks the frames at recovery.

pub mod segment;
pub mod frame;
pub mod record;
pub mod large_batch;
pub mod scan;

pub use frame::{
    FRAME_BYTES_MAX, FRAME_HEADER_BYTES, Frame, FrameKind, FrameWriter, Records, encode_single, frame_bytes,
    single_frame_bytes,
};
pub use large_batch::{LARGE_BATCH_BYTES, LargeBatch};
pub use record::{KEY_BYTES_MAX, RECORD_HEADER_BYTES, Record, VALUE_BYTES_MAX, record_bytes, record_span};
pub use scan::{EndReason, FrameScan, ScanEnd, find_frame, scan_frames};
pub use segment::{SEGMENT_HEADER_BYTES, SEGMENT_MAGIC, SegmentHeader};
