//! Backends in object stores: S3 and what speaks its language, Google Cloud Storage, Azure.
//!
//! An [`ObjectBackend`] is a [`Storage`](firn_storage::Storage) in which each file is one object.
//! It is written from its beginning to its end, there as a whole once it is synced, never changed.
//! What a database keeps of that kind lives here as in a directory: tables, sealed blob segments,
//! edits of the manifest. A log does not.
//!
//! ```text
//!   tree, jobs ─► ObjectBackend ─┬─ write: parts, several at once ─► object, whole or not at all
//!                 (blocking)   ├─ read: ranges, and ahead of sequential readers
//!                              ├─ uploads: begun and never ended (S3)
//!                              └─ Runtime: one thread that talks with the store
//! ```
//!
//! Start at [`register`], by which a registry opens `s3://BUCKET/PREFIX` and its like, or at
//! [`ObjectBackend::open`].
//!
//! # Not here
//! - How files of a directory are written and read: `firn_storage::backend::Local`.
//! - Ranges kept on this machine, and limits of requests: `firn_storage::backend::Cached` and
//!   `Throttle`.
//! - Locks: an object store has none. A database is fenced by its manifest, whose edits are created
//!   once each.
//!
//! # Invariants
//! 1. An object is created once and never overwritten. Written in one request, it has a condition
//!    that the store checks. Written in parts, it has a name that no two writers share (on S3 a
//!    condition, too).
//! 2. An answer that did not arrive is neither yes nor no: what is there is read, and compared. Of
//!    what was written in parts, its owner is compared.
//! 3. No name is believed to be free because a list does not have it.
//! 4. Secrets are in no error and in nothing that `Debug` writes.

#![forbid(unsafe_code)]

mod options; // where objects are, and how they are asked for
mod condition; // uploads that end only where the name is free
mod full; // stores that have no room
mod runtime; // the thread that talks with the store
mod error; // what it can fail with
mod uploads; // objects that were begun in parts and not ended
mod store; // requests for objects below one prefix
mod write; // one object being written
mod read; // one object being read
mod backend; // the directory
mod opener; // backends by their URLs

pub use backend::ObjectBackend;
pub use opener::register;
pub use options::{ObjectOptions, PART_BYTES};
pub use runtime::{LazyRuntime, Runtime};
