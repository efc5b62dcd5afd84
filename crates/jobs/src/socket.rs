//! Jobs in another process, over a local socket.
//!
//! ```text
//!   database: Socket ── hello: the directory ──►  worker: serve ─► Local, one for each connection
//!                    ── job, cancel ──►                 │
//!                    ◄── done, failed ──────────────────┘
//! ```
//! The worker opens the directory itself: what travels is specs and results. A worker that is not
//! there, goes away, or cannot work for the database counts as a refusal. An
//! [`ExecutorChain`](crate::ExecutorChain) around the executor then does its jobs here.

mod client;
mod wire;
mod worker;

pub use client::Socket;
pub use worker::{Report, serve};
