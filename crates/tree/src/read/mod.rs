//! Answers: one key ([`get`]) or keys in order ([`scan`]), as of one point in the order of writes. Of many single keys,
//! [`prefetch`] has the memory ready; of scans, [`ahead`] has the device fetch several values at once.

pub(crate) mod get;
pub(crate) mod resolve;
pub(crate) mod scan;
pub(crate) mod prefetch;
mod ahead;
mod source;
mod tombstones;

pub(crate) use get::{Found, Lookup, note_lookup};
pub(crate) use resolve::Wants;
