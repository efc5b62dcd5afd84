//! Workloads, measures and reports.
