//! Workloads, measures and reports.

#![forbid(unsafe_code)]

pub mod args;
pub mod run;
pub mod suite;
pub mod workload;
pub mod distribution;
pub mod target;
pub mod driver;
pub mod measure;
pub mod report;
pub mod progress;

pub use run::{run_db, run_ycsb};
