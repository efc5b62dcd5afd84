//! Models, scripts and crashes: how Firn is proved.
//!
//! A script (text, drawn from a seed) runs on an engine and on a model of it side by side. The
//! first answer that differs is a violation. The machine under the engine is a directory in memory
//! that can be stopped at any operation. What is left after a kill or a loss of power must be a
//! prefix of what was written: whole batches, nothing acknowledged missing.
//!
//! ```text
//!   seed ─► generate ─► ops ──┬─► runner ─► engine (world) ─► storage that stops ─► recover ─► promise kept?
//!                             └───────────► model ──────────────────────────────────────────────▲
//!   metamorphic: one script, many settings      crash: many scripts, cut at some or all of their operations
//!   elsewhere: workers in another process, which fail in every way
//!   batches: all or nothing, prefix always      kill: real processes, kill -9
//!   fleet: many databases on a few workers, by what decides
//!   linear: what clients of a server saw at the same time, put into an order
//! ```
//!
//! Start at [`ops`] and [`runner`]. The program `firn-sim` (`cargo x sim`) runs all of it at any
//! length.
//!
//! # Invariants
//! 1. A run is a function of its seed (engines without threads), and a failure prints the line that
//!    repeats it.
//! 2. What failed is made small and kept in `corpus/`, and the tests run it for ever.
//! 3. The harness is proved alive by canaries: [`reference::Fault`] breaks each promise, and each
//!    is noticed.

#![forbid(unsafe_code)]

pub mod model;
pub mod reference;
pub mod world;
mod sessions;
mod interleaved;
mod panicked;
mod aside;
pub mod elsewhere;
pub mod lying;
pub mod ops;
pub mod text;
pub mod generate;
pub mod gc_counts;
pub mod runner;
pub mod shrink;
pub mod corpus;
pub mod metamorphic;
pub mod crash;
pub mod replay;
pub mod batches;
pub mod kill;
pub mod linear;
pub mod fleet;
