//! The tree from outside: files on a real directory and in memory, threads and none.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod world;
mod watched;
mod smoke;
mod set_back;
mod two_machines;
mod two_machines_race;
mod take_overs;
mod shared_durability;
mod shared_race;
mod shared_histories;
mod shared_away;
mod shared_batches;
mod shared_large;
mod shared_regrouped;
mod sweeps;
mod sweeps_uploads;
mod late_requests;
mod slow_writers;
mod verify_sample;
mod asking;
mod values;
mod values_asked;
mod values_compressed;
mod values_counted;
mod values_crash;
mod values_cut;
mod values_interrupted;
mod values_move;
mod values_reuse;
mod values_full;
mod values_held;
mod values_holes;
mod values_room;
mod values_spoiled;
mod values_reclaim;
mod values_stale;
mod values_turns;
mod values_write_back;
mod streamed;
mod streamed_broken;
mod streamed_shared;
mod verify;
mod verify_edits;
mod flip;
mod range_levels;
mod range_pieces;
mod read_only;
mod bad_input;
mod places;
mod damaged;
mod deferred;
mod refused;
mod faults; // that real use found
mod reopened;
mod reuse;
mod reuse_elsewhere;
mod memory;
mod numbered;
mod watermark;
mod group_write;
mod recovery_cuts;
mod bounds;
mod checkpoint_load;
mod chosen_late; // when compactions are chosen
mod checkpoint_away;
mod panics;
mod told;
mod executors;
#[path = "../../../jobs/tests/it/asked_clock.rs"]
mod asked_clock; // moves on command
mod held_bulk; // jobs that wait for an executor which is away
mod older_ranges; // tables below that compactions are given
mod urgency;
mod unmapped;
mod scans;
mod session_order;
mod reclaim;
