//! The manifest: numbered edits that say what a database is made of.
//!
//! ```text
//!   changes ─► edit n, a file of its own ─► published under its number ─► the state has them
//!                every `edits_max` edits: restates everything (a base) ─► edits before it go
//!   another machine: load ─► fence = edit n, which changes the owner alone
//!                    ─► nothing of the process before counts any more
//! ```
//! [`Manifest`] is the writing end: a state, and the number of the next edit. An open database owns
//! one and uses it under one lock, which the owner declares; nothing in it is for several threads
//! but [`written_bytes`](Manifest::written_bytes). It waits for devices and for requests. [`load`]
//! is the reading end and needs no owner. What edits mean is the [`Content`]'s concern.
//!
//! # Invariants
//! 1. *An edit is created whole and never changed* (`apply_and_publish`, by `Storage::publish`). So
//!    what is read under a number decides whether a publication succeeded (`look`).
//! 2. *Numbers have no gap* from the newest base to the last edit: an edit is removed only once a
//!    base above it is published (`remove_older`). A missing one is damage (`load_edits`).
//! 3. *The state is the sum of the edits that count*: an edit that comes to nothing is taken back
//!    (`commit`).
//! 4. *An edit counts if the one before it is still there*, where other machines write too
//!    (`follows_on`, asked by `believe` after each publication). A process that was overtaken so
//!    finds out, and its edit goes.
//! 5. *After a failure of unknown outcome nothing is committed*: every later call says the first
//!    cause (`failed`).
//! 6. *From the first removal on it is known that there was a first edit* (`CREATED`), so that the
//!    number 1 never looks free again.

mod content; // what a manifest carries
mod asking;
mod load; // reading the edits that are there
mod edits;

pub use self::asking::publish_until_answered;
pub use self::content::{Content, Edit};
pub use self::edits::Manifest;
pub use self::load::{Loaded, load};

#[cfg(test)]
mod tests;
