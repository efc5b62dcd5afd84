//! The ordered engine.

mod records;

pub use records::Records;
