//! Experiments: one question each, answered by several runs and beside what theory says.

mod space;
mod value_log;
mod caas;

pub use caas::{CaasPart, CaasReport, CaasScale, Finding, RunCost, Verdict, run_caas};
pub use space::{Scale, SpacePoint, run_space};
