//! The database for tasks: the same calls as futures, for any runtime and without one.
//!
//! ```text
//!   Db::futures() ─► AsyncDb ─► AsyncKeyspace, AsyncTransaction ─► AsyncScan
//!                      └─ sessions: one for each operation under way, kept for the next one
//! ```
//! A session that has to wait answers with a ticket; its completion wakes the task. Reads that need
//! a device wait on threads of the database, writes on its log. No thread is held meanwhile.

mod sessions;
mod db;
mod keyspace;
mod scan;
mod transaction;

pub use db::AsyncDb;
pub use keyspace::AsyncKeyspace;
pub use scan::AsyncScan;
pub use transaction::{AsyncTransaction, AsyncTransactionKeyspace};
