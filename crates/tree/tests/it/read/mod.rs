//! Reads: what they see, and what they cause.

mod places; // records in memtables, runs and tables at once
mod watermark; // what is seen while several threads write
mod set_back; // expired values after the clock is set back
mod fetched; // what statistics count of files
mod under_way; // a close in the midst of them
pub(crate) mod scans; // many of them make level 0 shallow
