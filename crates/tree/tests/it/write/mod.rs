//! Writes: order, durability, and what holds them back.

mod deferred; // answered before the kernel has them
mod session_order; // of a session that does not block
mod slow_writers; // that copy for long while others go on
mod group_commit; // of several threads, and crashes between
mod bounds; // of memory, where writers are faster than the backend
mod memory; // one budget of the buffer and the cache
mod refused; // full disks and failed syncs
