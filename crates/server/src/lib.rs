//! Firn behind the Redis protocol.
//!
//! ```text
//!   listen ─► worker (one a core) ─► serve (one task a connection) ─► execute (a file for each group of commands)
//!                │      ▲                                                   │
//!               net ────┘ readable, writable, woken                        ▼
//!                                                      one session of the engine for each worker
//! ```
//! Start at [`Server`]; a request's way begins in `serve`.
//!
//! A worker is a thread with its own sockets, its own session and its own tasks. A connection stays where it was put, and an
//! operation runs where its connection is. Commands are `async` functions that wait for the engine in few places; who runs
//! them is forty lines in `task`: there is no runtime, no waker and no allocation for a command that does not wait.
//!
//! # Not here
//! - What the bytes mean: crate `firn-protocol`. How types lie on keys: `firn_format::datatype`.
//!
//! # Invariants
//! 1. Replies go out in the order of their requests.
//! 2. Nothing is answered before the engine has acknowledged it.
//! 3. What a connection makes the server hold is bounded: one request, the replies that were not read yet up to a limit.

#![forbid(unsafe_code)]

mod settings;
mod store;
mod net;
mod task;
mod client;
mod observers;
mod purge_queue;
mod subscriptions;
mod worker;
mod serve;
mod failure;
mod transaction;
mod execute;
mod duty;
mod listen;

pub use listen::Server;
pub use settings::ServeSettings;
