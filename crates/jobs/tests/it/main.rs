//! Jobs against a naive model, and the promises of `lib.rs` one by one.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod world; // random histories in tables, and the model that reads them
mod compaction; // what readers see before and after
mod segments; // random blob segments, and the model that knows every value
mod blob_gc; // values that live, copied out of their segments
mod blobs; // compactions of records whose values are separated
#[cfg(unix)]
mod same_bytes; // GCs by an executor and here
#[cfg(unix)]
mod socket; // jobs in another process
mod promises; // purity, conservation, cancelling, executors
mod asked_clock; // moves when it is told to
mod elsewhere; // executors that go their own ways
mod chain; // what is done elsewhere, or here
mod l0_work; // jobs that writers wait for and that have not begun there
mod ran; // which worker ran a job, as its handle says
mod checking; // what others did, looked at
mod reexecuted; // what others did, done again
mod idle; // what would wait elsewhere, done here meanwhile
mod chain_away; // what waits while the first executor is away
mod panics; // operators that panic
mod merging; // the merge cursor against a sorted array
mod scenes; // text files that show what a pure function answers, for other crates too
mod scenes_read; // how they are read
