//! Answers: one key ([`get`]) or keys in order ([`scan`]), as of one point in the order of writes.

pub(crate) mod get;
pub(crate) mod resolve;
pub(crate) mod scan;
mod source;
mod tombstones;

pub(crate) use get::{Found, Lookup, cut};
