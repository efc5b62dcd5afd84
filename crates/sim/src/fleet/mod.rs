//! Many databases on a few workers: how long writers stand still, by what decides which job goes
//! where.
//!
//! ```text
//!   databases: bursts of writes ─► level 0 fills ─► jobs ─┐
//!   workers: near and far, fast and slow ◄── decisions ◄──┴─ schedule | random | fifo | least loaded | ideal | oracle
//! ```
//! Time goes in steps. The ideal decides with every step anew, moves jobs between workers without
//! losing anything, opens nothing and finds every file near. No scheduler of jobs that stay where
//! they are can be expected to do better. The oracle is held to the same rules as all others, and
//! knows what will happen. Databases wait for ever, or have processors of their own and the
//! patience that real ones have. Workers may be killed, and of two tenants that want everything one
//! may have more weight. What is simulated is the placement; the decisions are the ones that the
//! control plane makes.

mod database; // what fills up
mod workers; // what does jobs
mod crashes; // which of them are killed, and come back
mod run; // one run
mod home; // what databases take back
mod oracle; // a decider that knows what will be written
mod report; // several runs, side by side

pub use report::{Report, Row, compare};
pub use run::{Decider, Outcome, Plan, run};
