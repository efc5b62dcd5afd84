//! The tree from outside: files on a real directory and in memory, threads and none.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod world;
mod watched;
mod smoke;
mod two_machines;
mod two_machines_race;
mod take_overs;
mod shared_durability;
mod shared_race;
mod shared_histories;
mod shared_large;
mod sweeps;
mod slow_writers;
mod verify_sample;
mod values;
mod values_compressed;
mod values_crash;
mod values_interrupted;
mod values_move;
mod values_reuse;
mod values_holes;
mod verify;
mod verify_edits;
mod flip;
mod range_pieces;
mod read_only;
mod bad_input;
mod places;
mod deferred;
mod faults;
mod reopened;
mod reuse;
mod memory;
mod numbered;
mod watermark;
mod group_write;
mod recovery_cuts;
mod bounds;
mod checkpoint_load;
mod executors;
mod urgency;
mod unmapped;
mod scans;
mod session_order;
mod reclaim;
