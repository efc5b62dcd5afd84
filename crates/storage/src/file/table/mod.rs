//! Tables on a backend: written as a stream, read in place where the backend gives memory.
//!
//! ```text
//!   entries ─► TableBuilder ─► file ─► TableReader ─┬─► newest(key): filter ─► index ─► one block ─► value
//!                                                   └─► TableCursor: all entries in order, both ways
//! ```
//! The bytes are [`firn_format::table`]'s business; here is the I/O around them.
//!
//! # What is in memory, and what is believed
//! Index, filters and range tombstones of an open table are in memory and counted
//! ([`TableReader::memory_bytes`]). Data blocks are *mapped* where the backend gives the file as
//! memory and the block is stored raw: the value is read where it lies. Others are *loaded* (read,
//! checked, decompressed, kept in the [`super::cache::BlockCache`]). A mapped block's checksum is
//! compared the first time the block is read since the table was opened; one bit a block remembers
//! that. The bit is set without ordering: the bytes never change, and two threads that both find it
//! clear both compare. A page that the kernel drops and reads again later is not compared again by
//! point reads and scans. Jobs compare every block every time.

mod builder;
mod parts;
mod opening;
mod reader;
mod point;
mod prefetch;
mod cursor;
mod verify;
mod copy;
mod references;

#[cfg(test)]
mod tests;

pub use builder::{TableBuilder, Unsynced};
pub use copy::copy_table;
pub use cursor::{CursorOptions, TableCursor};
pub use point::{Hit, Lookup, ReadMode};
pub use reader::{ReaderOptions, TableReader};
pub use verify::file_checksum;
