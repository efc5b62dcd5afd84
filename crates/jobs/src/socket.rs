//! Jobs in another process, over a local socket.
//!
//! ```text
//!   database: Socket ── hello: the directory ──►  worker: serve ─► Local, one for each connection
//!                    ── job, cancel ──►                 │
//!                    ◄── done, failed ──────────────────┘
//! ```
//! The worker opens the directory itself: what travels is specs and results. A worker that is not there, goes, or cannot work for the
//! database is one that refused: a [`Fallback`](crate::Fallback) around the executor does its jobs here.

mod client;
mod wire;
mod worker;

pub use client::Socket;
pub use worker::{Tell, serve};
