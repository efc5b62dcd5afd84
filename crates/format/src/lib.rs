//! Every byte of Firn that outlives a process.
//!
//! Decoders never panic and never allocate more than their input justifies; they name offset, expected and
//! found. No I/O here, no clock, no `unsafe`.

#![forbid(unsafe_code)]
#![deny(clippy::indexing_slicing)]

pub mod version;
pub mod error;
pub mod checksum;
pub mod varint;
pub mod key;
pub mod log;
pub mod table;
pub mod manifest;

pub use error::{Error, Result};
pub use key::{Kind, Position, Sequence};
pub use version::FormatVersion;
