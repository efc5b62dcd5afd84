//! The tree from outside: files on a real directory and in memory, threads and none.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support; // what the others are written with
mod smoke; // the shortest paths through everything
mod write; // order, durability, bounds
mod read; // what reads see and cause
mod blobs; // values that are separated from their keys
mod compaction; // which tables, and when
mod ingest; // sorted records in bulk
mod jobs; // executors, damage, leftovers
mod recovery; // openings, crashes, copies
mod verify; // damage and bad input
mod shared_storage; // that other machines reach
mod faults; // that real use found
