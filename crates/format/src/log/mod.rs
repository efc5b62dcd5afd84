//! Log segments: a header, then frames of records.

pub mod record;

pub use record::{RECORD_HEADER_BYTES, Record};
