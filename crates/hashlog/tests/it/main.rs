//! Tests of the hashed engine from outside.

mod support;
mod asking;
mod script;
mod conformance;
mod exact_sums;
mod batches;
mod compaction;
mod cold;
mod reads_amid_compaction;
mod reads_together;
mod read_cache;
mod checkpoints;
mod hot_updates;
mod memory;
mod storage;
mod verify;
mod stats;
mod openings;
mod chains;
mod pitfalls;
mod room;
mod scans;
mod interrupted;
mod shared_storage;
