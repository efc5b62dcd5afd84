//! Every byte of Firn that outlives a process.
//!
//! One module for each kind of file: its layout as a diagram, its encoder, its decoder. FORMAT.md
//! lists the kinds; golden files in `golden/` freeze them.
//!
//! ```text
//!   batch ──► log: segment { frame { record … } … }        names: file_name
//!                    │ flushed                             any file as text: dump
//!                    ▼
//!             table: blocks, index, filter, tombstones, footer
//!                    │ large values lie beside
//!             blob: segment { record … }, references, relocations
//!                    │ which files are live
//!                    ▼
//!             manifest: edit { change … }
//!
//!   what is on its way into a log or a blob segment ──► combiner: slot { piece … }
//!
//!   a server's hashes, lists, sets … ──► datatype: keys and values of records
//! ```
//! Start at [`key`] (positions, sequences, kinds), then [`log`].
//!
//! # Not here
//! - I/O, clocks, randomness, `unsafe`.
//! - What bytes mean together: which edit is newest, where a log ends, what a crash left. Engines
//!   decide.
//!
//! # Invariants
//! 1. Decoders never panic and never allocate more than their input justifies; errors name offset,
//!    expected and found.
//! 2. Everything that can rot is under a checksum: a byte changed anywhere is an error, never
//!    another value.
//! 3. Encodings are canonical: what a decoder of the log or the manifest accepts, its encoder gives
//!    back byte for byte. Numbers are little-endian or varints, never `usize`; in keys of
//!    [`datatype`] big-endian, to order them.
//! 4. Nothing in a file depends on its name, on a clock, or on its writer.
//! 5. What a newer release wrote is refused with a message that says so.

#![forbid(unsafe_code)]
#![deny(clippy::indexing_slicing)]

pub mod version;
pub mod error;
pub mod checksum;
pub mod varint;
pub mod bytes;
pub mod compression;
pub mod key;
pub mod file_name;
pub mod log;
pub mod tombstone;
pub mod filter;
pub mod table;
pub mod blob;
pub mod manifest;
pub mod home;
pub mod log_object;
pub mod combiner;
pub mod hybrid;
pub mod datatype;
pub mod dump;

pub use error::{Error, Result};
pub use key::{Kind, Position, Sequence};
pub use version::FormatVersion;
