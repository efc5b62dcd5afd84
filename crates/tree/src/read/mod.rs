//! Answers: one key ([`get`]), several ([`many`]) or keys in order ([`scan`]), as of one point in
//! the order of writes. For several keys, [`prefetch`] loads the memory ahead. For these and for
//! scans, [`ahead`] has the device fetch several values at once. Transactions ask whether what they
//! read is still `unwritten`.

pub(crate) mod get;
pub(crate) mod resolve;
pub(crate) mod scan;
mod bounds;
mod current;
pub(crate) mod prefetch;
mod many;
pub(crate) mod ahead;
mod beside;
mod source;
mod dead;
mod tombstones;
mod unwritten;

pub(crate) use beside::BesideReads;
pub(crate) use get::{Found, Lookup, note_lookup};
pub(crate) use resolve::Wants;
