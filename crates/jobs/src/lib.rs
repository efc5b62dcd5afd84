//! Background work as values.

#![forbid(unsafe_code)]

mod cursor;

pub use cursor::Cursor;
