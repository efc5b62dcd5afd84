//! Kinds of file: a format of crate `format` on a backend.

pub mod table;
pub mod blob;
pub mod cache;
pub mod log;
pub mod manifest;
pub mod obsolete;
pub mod whole;
mod in_turn;
mod tail;
