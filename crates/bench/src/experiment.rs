//! Experiments: one question each, answered by several runs and beside what theory says.

mod space;
mod value_log;
mod caas;

pub use caas::{CaasArgs, CaasPart, CaasReport, CaasScale, RunCost, run_caas};
pub use space::{Scale, SpaceArgs, SpacePoint, run_space};
