//! Which worker does which job, as functions without I/O.
//!
//! ```text
//!   Pressure (crate firn-jobs) ─► stalls_in: when a database stops its writers if nothing is done
//!   View ─► lines of jobs ─► rank: owed first, then least slack, ahead last ─► placement: earliest estimated finish ─► Decision
//!   Ledger: what each tenant was given, hence what it is owed
//!   Pool: jobs in lines, workers, which has what ─► Decision ─► leases, stops
//! ```

mod view; // what a decision is made of
mod placement; // how long a job takes where
mod ledger; // what tenants were given
mod line; // jobs that wait, so that the first are found soon
mod rank; // which comes first
mod schedule; // the decision
mod baseline; // other decisions, to compare with
mod scheduler; // one of these
pub mod pool; // everything that a control plane knows, and what becomes of decisions

pub use baseline::{fifo, least_loaded, random};
pub use firn_jobs::Pressure;
pub use ledger::Ledger;
pub use placement::estimate;
pub use schedule::schedule;
pub use scheduler::Scheduler;
pub use view::{
    Decision, Elsewhere, JobId, Lane, Running, Speed, TenantId, View, Waiting, Worker, WorkerId, Zone,
};
