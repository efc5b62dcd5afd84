//! What clients and servers say to each other, without any I/O.
//!
//! ```text
//!   bytes of a socket ─► resp::Parser ─► arguments ─► command::find ─► the server executes
//!   bytes of a socket ◄─ resp::Reply  ◄──────────────────────────────── what it answers
//! ```
//! Start at [`resp::Parser`] and [`resp::Reply`], which are the two directions of RESP as a server
//! sees it; [`resp::decode`] is the client's side. [`command`] is the one table of commands that
//! everything else is made from.
//!
//! # Not here
//! - Sockets, threads, clocks: the caller passes bytes in.
//! - What commands do: crate `server`.
//!
//! # Invariants
//! 1. No input panics, and none makes memory grow beyond a constant factor of the bytes that came.
//! 2. What is said is a function of the bytes alone, however they are cut into pieces.

#![forbid(unsafe_code)]

pub mod command;
pub mod resp;
pub mod number;
pub mod glob;
