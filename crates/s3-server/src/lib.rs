//! An S3 server for tests, in the process of the test, that fails on command.
//!
//! The crates `s3s` and `s3s-fs` speak the protocol and keep objects in a directory. This crate
//! makes their conditional writes atomic, lists uploads that have not ended, counts requests, and
//! holds users to their grants. It lets some requests fail as real stores and networks do: refused
//! before anything was done, or done without an answer.
//!
//! ```text
//!   client ─► accept ─► Faults: refuse? ─► User: grants? ─► s3s ─► directory
//!                            lose the answer? ◄─────────────────┘
//! ```
//!
//! The program `firn-s3-server` is the same in a process of its own. [`Minio`] is a server that
//! others have made, for tests that build it.
//!
//! # Not here
//! - A store for production: nothing is synced.

#![forbid(unsafe_code)]

mod address; // of requests
mod grants; // which user may do what
mod uploads; // uploads in parts
mod faults; // what goes wrong, and what was asked
mod upload_route; // lists of uploads, and their ends
mod server; // listening
mod minio; // a server that others have made

pub use faults::{Counts, Faults};
pub use grants::{Condition, Grant, User};
pub use minio::Minio;
pub use server::{S3Server, ServerOptions};
pub use uploads::Upload;
