//! Background work of an engine, whatever the engine keeps.
//!
//! ```text
//!                 ┌──────────── Schedule: claims, backoff ◄───────────┐
//!                 ▼                                                   │
//!   threads: choose ─► claim ─► perform ─┬─ done ─────────────────────┤
//!     (Work)                             └─ failed ─► failure: Answer ┘
//! ```
//! An engine implements [`Work`]; [`start_threads`] drives it, or [`step`] where the owner does all
//! work.
//!
//! # Not here
//! - What there is to do, and what is done: the engine decides.
//! - Jobs and where they run: crate `firn-jobs`.
//!
//! # Owners and threads
//! One engine owns one [`Schedule`], from its opening to its close. All of it is thread-safe. What
//! lies under its lock ([`InProgress`]) is touched by one thread at a time.
//!
//! # Invariants
//! 1. Nothing is worked on twice at the same time: `threads::claim_next`.
//! 2. What a unit claimed is given up whatever becomes of it: `threads::Claim`.
//! 3. A unit that fails holds up only what its failure says something of: [`answer_to`],
//!    [`Backoff::refuse`].
//! 4. After [`Schedule::stop`] no unit runs, and none begins: `claims`, `threads::next`.

#![forbid(unsafe_code)]

mod threads; // that choose work and do it
mod claims; // what is in progress
mod backoff; // what failed and may work later
mod failure; // what is done about a failure
mod damaged; // files that are left as they are
mod obsolete; // files that nothing refers to
mod orphans; // files that nothing waits for
mod remote_limits; // how much may be under way elsewhere
mod error; // what storage and jobs said, as the contract says it

pub use backoff::{Backoff, Room};
pub use claims::{Hold, InProgress, Schedule, Wake};
pub use damaged::{Cause, Report, SetAside, is_of_device, unreadable_file};
pub use error::{from_job, from_storage, said_by_storage};
pub use failure::{Answer, answer_to};
pub use obsolete::{ObsoleteGc, RecycledMax};
pub use orphans::{KnownFiles, OrphanGc, Removal, Removed, is_abandoned};
pub use remote_limits::RemoteLimits;
pub use threads::{Work, start_threads, step, wait_until};
