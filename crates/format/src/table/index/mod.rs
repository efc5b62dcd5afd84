//! Which data block a key is in: two levels on disk, one array in memory.
//!
//! A *separator* stands for each data block, as short as possible. It is not below the block's last
//! key, and below the next block's first key (unless both are one key with many versions). Data
//! blocks lie one after another from offset 0, so lengths say where they are.
//!
//! ```text
//! index block payload                            top index payload
//!   u64 LE  offset of its first data block         u64 LE  data block count
//!   u32 LE  entry count                            u32 LE  index block count
//!   entries:                                       entries:
//!     varint  shared with the one before             varint  bytes of the index block, trailer included
//!     varint  unshared                               varint  data blocks it names
//!     varint  bytes of the data block                varint  bytes of its last separator
//!     ...     suffix of the separator                ...     that separator
//! ```
//! The separators of an index block have, whole, at most 64 times the bytes of its entries. The
//! builder closes a block before an entry that would break this; a reader refuses a block that
//! does. So compression of data blocks, or long keys that share their beginnings, cannot make an
//! index that is written and not read. And no index makes a reader allocate without bound.
//!
//! Index blocks lie one after another too, wherever the footer says. A reader of a whole table
//! decodes all of them into an [`Index`] (about 30 bytes a data block). The top level lets a reader
//! far from the file fetch one index block only. Since: FormatVersion::V1.

mod builder;
mod read;

#[cfg(test)]
mod tests;

pub use builder::{IndexBuilder, shortest_separator};
pub use read::Index;
