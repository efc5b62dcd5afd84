//! Experiments: one question each, answered by several runs and beside what theory says.

mod space;
mod value_log;

pub use space::{Scale, SpacePoint, run_space};
