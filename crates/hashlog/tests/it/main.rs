//! Tests of the hashed engine from outside.

mod support;
mod conformance;
mod exact_sums;
mod compaction;
mod checkpoints;
