//! Background work as values.

#![forbid(unsafe_code)]

mod cursor;
mod merge;

pub use cursor::Cursor;
pub use merge::MergeCursor;
