//! Places over an S3 server, and over stores that lie.

mod ambiguous;
mod conformance;
mod lying;
mod refusals;
mod world;
