//! Kinds of file: a format of crate `format` on a place.

pub mod table;
pub mod value;
pub mod cache;
mod tail;
