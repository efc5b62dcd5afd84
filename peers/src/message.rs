//! What a child tells its parent: one JSON object per line on standard output.

use firn_bench::report::PhaseResult;
use serde::{Deserialize, Serialize};

/// A line from a child.
#[derive(Debug, Serialize, Deserialize)]
pub enum Message {
    /// The child is ready for commands.
    Ready,
    /// A phase is over.
    Result(Box<PhaseResult>),
    /// The store is closed.
    Closed,
    /// The child can do no more.
    Failed(String),
}
