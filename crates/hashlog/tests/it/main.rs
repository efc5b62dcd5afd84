//! Tests of the hashed engine from outside.

mod support;
mod script;
mod conformance;
mod exact_sums;
mod compaction;
mod read_cache;
mod checkpoints;
mod storage;
mod verify;
mod stats;
mod openings;
mod scans;
