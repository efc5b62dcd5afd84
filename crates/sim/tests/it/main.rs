//! What `cargo test` runs of the proof: a short version of every mode, on the ordered engine.

mod conformance;
mod experiment;
mod fleet;
mod gate;
