//! Jobs of many databases on a pool of workers.
//!
//! What is here decides which job goes to which worker, and when one is stopped for another: [`control`], functions of what waits,
//! of who works and of the time, without sockets, clocks or threads of their own.
//!
//! ```text
//!   jobs that wait ──┐
//!   workers ─────────┼─► schedule ─► leases, pre-emptions
//!   what is owed ────┘
//! ```
//!
//! # Not here
//! - What a job is, and whether its result may be believed: crate `firn-jobs`.
//! - Correctness: a decision may be late, doubled or wrong. It costs time, never data.

#![forbid(unsafe_code)]

pub mod control;
