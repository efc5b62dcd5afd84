//! Writers that cannot write now: they wait for room ([`Admission`]).
//!
//! All that wait for room try again when some was made, each in its own order. A database holds
//! each session once, and a blocked thread not at all.
//!
//! For engines to embed: nothing here is part of the contract with callers.

mod admission;

pub use admission::Admission;
