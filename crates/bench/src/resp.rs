//! Loads servers that speak RESP, and tells what that took.
//!
//! ```text
//!   RespArgs ─► phase (a command on a target) ─► a worker a thread ─► connections by epoll ─► server
//!                 │                                │ Requests: what is asked
//!                 │                                │ Schedule, Outstanding: since when it counts
//!                 ▼                                ▼
//!               RespResult ◄─────────────── latencies, errors, processor time of both sides
//!                 └─► compare: medians, spreads, ratios
//! ```
//!
//! Closed loop: a connection sends as many requests as the pipeline is long, and the next ones when
//! all are answered. Open loop (`rate`): requests are due at fixed times and latency counts from
//! then, so that waiting for a slow server shows.

mod args;
mod command;
mod schedule;
mod connection;
mod worker;
mod phase;
mod result;
mod compare;
mod run;
#[cfg(test)]
mod tests;

pub use args::{Contender, RespArgs};
pub use command::{Keys, RespCommand};
pub use compare::{Comparison, Versus};
pub(crate) use compare::{median, order};
pub use result::{RespReport, RespResult};
pub use run::run_resp;
