//! Work in the background, and the executors that do it.

mod executors; // that refuse, wait, vanish, or lie
mod held_deep; // jobs that wait for an executor which is away
mod urgency; // the forecast that an executor is given
mod panics; // of operators and backends
mod damaged; // inputs, beside which all else goes on
mod reuse_elsewhere; // recycled files that an executor may still read
mod orphans; // of outputs that no job waits for
mod orphan_uploads; // of outputs that were sent in part
