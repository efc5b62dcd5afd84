//! Background work as values.
//!
//! A [`JobSpec`] says *what* to rewrite: which immutable tables or blob segments to read, which
//! rules to apply, where the outputs go. It does not say *where* it runs. The same spec yields the
//! same bytes on this thread, on another one, or on another machine.
//!
//! ```text
//!   picks ─► JobSpec ─► Executor ─► JobResult ─► verify ─► commit (the engine's one manifest edit)
//!               │                       ▲
//!               └─ run: tables ─► MergeCursor ─► compact_entries ─► TableWriter ─► tables
//!                       blob segments ─► collect: records that live, as they are ─► a blob segment
//!      flush: buffer runs ─► MergeCursor ─┘  (compact_source: the same core over any cursor)
//! ```
//!
//! Start at [`JobSpec`], then [`run()`]; everything else serves them.
//!
//! # Not here
//! - When to compact, and what: the engine decides.
//! - Opening a database: a worker needs storage and a spec, nothing else.
//! - Retrying what failed everywhere: only the submitter knows whether the inputs are still live.
//!
//! # Invariants
//! 1. Inputs are immutable; the submitter keeps them until the result is committed or given up.
//! 2. Output bytes are a function of the spec alone: no clock, no randomness, no thread order.
//! 3. `input + produced = outputs + dropped`, by count, bytes and content hash, or there is no
//!    result. Of a GC: all values that live, and each where its relocation leads.
//! 4. Outputs are invisible until committed; the outputs of a dead attempt are garbage, never
//!    damage.

#![forbid(unsafe_code)]

mod spec; // what
mod cursor; // walking entries, whatever holds them
mod run_cursor; // the tables of one sorted run
mod merge; // many cursors as one
mod compact; // the rules of compactions
mod blob_gc; // copying values that live
mod conservation; // the sums that show nothing was lost
mod write; // the outputs
mod write_blobs; // values that lie separated
mod run; // all of it on one thread
mod range; // one choice as several jobs
mod pressure; // how urgent
mod executor; // where
pub mod submit; // how a database gives its jobs away
#[cfg(unix)]
pub mod socket; // in another process
mod codec; // how specs and results travel
mod verify; // when a result may be believed
mod control; // stopping it
mod error;

pub use blob_gc::{BlobGcResult, BlobGcSpec, Relocations, Victim, read_relocations, relocations};
pub use compact::{CompactBlobs, CompactRules, Sink, compact_entries};
pub use conservation::{Sums, Tally};
pub use control::Control;
pub use cursor::Cursor;
pub use error::{Error, ErrorKind, Result};
pub use executor::{
    Cause, ChainStatus, Executor, ExecutorChain, Finisher, JobHandle, Local, Patience, Ran, caught, new_job,
};
pub use merge::MergeCursor;
pub use pressure::Pressure;
pub use range::partition;
pub use run::{Output, Scope, compact_source, run, run_compact};
pub use run_cursor::{RunCursor, Tables};
pub use spec::{
    BlobPolicy, CompactResult, CompactSpec, JobInput, JobResult, JobSpec, KeyRange, OutputForm, Rules,
    ValueSource,
};
pub use verify::{
    is_output_of, read_back, verify, verify_all, verify_blob_gc, verify_compact, verify_files, verify_same,
};
pub use write::TableWriter;
pub use write_blobs::{BlobOrigin, BlobWriter};
