//! Openings: after crashes, for reading, and of what a copy holds.

mod reopened; // what is still known of compactions
mod read_only; // beside other readers, without a trace
mod cuts; // of the log, crash after crash
mod reuse; // recycled files, of which nothing old is found
mod copy_under_load; // copies and closing under load
