//! Backends over an S3 server, and over stores that lie.

#![expect(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

mod ambiguous;
mod cache;
mod clouds;
mod conformance;
mod content;
mod fakes;
mod hashed;
mod latency;
mod lying;
mod opening;
mod refusals;
mod rights;
mod uploads;
mod world;
