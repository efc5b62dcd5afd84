//! Workloads, measures and reports: how fast a store is, and at what cost.
//!
//! ```text
//!   args ─► suite (YcsbSuite, DbSuite) ─► phase ─► driver ─► Client ─► store
//!              │ workload: what to do                │ latencies, gauges
//!              │ distribution: to which record       ▼
//!              └──────────────► report ◄──────── Measured, with what `measure` saw of the process
//! ```
//!
//! Start at [`run_ycsb`] and [`run_db`] ([`run_reopen`], [`run_keyspaces`] and [`run_points`] stand
//! by themselves, and so do the [`experiment`]s and [`run_resp`] and [`run_queues`], which load
//! servers). A store joins by implementing [`target::Target`], [`target::Client`] and
//! [`target::TargetFactory`].
//! Every program that compares stores uses this crate, so that all are driven by the same code.
//!
//! # Not here
//! - Other people's stores: the workspace `peers` brings them.
//! - Running several stores side by side: `peers` does that too.
//!
//! # Invariants
//! 1. Key numbers, keys and mixes are those of YCSB and db_bench; tests hold them to published
//!    values.
//! 2. What a phase draws is a function of its seed and the number of threads.
//! 3. A phase that writes ends drained, and its bytes, processor time and stalls include the drain.
//!    Not so on a server, which does not tell that here; reports say so.
//! 4. With a rate, latency counts from the intended start of each operation.

#![forbid(unsafe_code)]

pub mod args;
mod run;
mod reopen;
mod keyspaces;
pub mod points;
pub mod queues;
pub mod experiment;
pub mod suite;
pub mod workload;
pub mod distribution;
pub mod target;
pub mod driver;
pub mod server;
pub mod resp;
pub mod measure;
pub mod report;
pub mod progress;
pub mod process;

pub use args::command_line;
pub use experiment::{run_caas, run_space};
pub use keyspaces::{KeyspacesResult, run_keyspaces};
pub use points::{process_ycsb, run_points};
pub use queues::run_queues;
pub use reopen::{ReopenResult, run_reopen};
pub use resp::run_resp;
pub use run::{run_db, run_ycsb};
