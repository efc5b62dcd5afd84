//! Which tables compactions are given, and when.

mod chosen_late; // not before an executor is about to begin
mod older_ranges; // tables below that compactions are given
mod range_levels; // a range where levels overlap in a chain
mod range_pieces; // a range in pieces, by several executors
mod reclaim; // the space of large range deletions
