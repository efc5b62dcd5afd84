//! Firn behind the Redis protocol.
//!
//! ```text
//!   listen ─► server_thread (one a core) ─► serve (one task a connection) ─► execute (a file a group)
//!                │      ▲                                                │
//!               net ────┘ readable, writable, woken                      ▼
//!                                                      one session of the engine for each server thread
//! ```
//! Start at [`Server`]; a request's way begins in `serve`.
//!
//! A server thread has its own sockets, its own session and its own tasks. A connection stays
//! where it was put, and an operation runs where its connection is. Commands are `async` functions
//! that wait for the engine in few places. `task` runs them in forty lines: there is no runtime, no
//! waker and no allocation for a command that does not wait.
//!
//! [`http`] reports what is counted to operators, on a thread and a port of its own; other programs
//! use it for their counters.
//!
//! # Not here
//! - What the bytes mean: crate `firn-protocol`. How types lie on keys: `firn_format::datatype`.
//!
//! # Invariants
//! 1. Replies go out in the order of their requests.
//! 2. Nothing is answered before the engine has acknowledged it.
//! 3. What the server holds for a connection is bounded. One request has a limit. So have, each the
//!    same one, the requests since MULTI, the names that they leave here and the replies of EXEC.
//!    Unread replies have a limit of their own.
//!
//! # Safety model
//! Unsafe code is in `net/ring` alone, where the kernel reads and writes this process's memory
//! between system calls. Its notes rely on these, by number:
//! 1. *What is sent stands still.* Bytes that a send in flight reads belong to its seat. The seat
//!    neither changes nor frees them before the send's answer, and sends once at a time. The time
//!    of a pause is written once.
//! 2. *A buffer has one owner.* The kernel owns a buffer of the ring from its release until an
//!    answer names it. It is read between that answer and its next release, and by one borrow that
//!    cannot outlive this.
//! 3. *Everything else names no memory*: cancelling, polling, accepting without an address.
//! 4. *A descriptor in an answer is new*: the kernel opened it for this process and names it once.
//! 5. *Nothing is in flight when memory goes.* A ring that is dropped ends its operations and waits
//!    for the last answers. Where the kernel does not let it, the memory is leaked.

// Each module imports only modules above it.
mod log;
mod failure;
mod bounds;
mod settings;
mod process;
mod descriptors; // of the process, shared out
mod processors;
mod net;
mod wake;
mod task;
mod access;
mod store;
pub mod served; // for tools, without a server
mod purge_queue;
mod saver;
mod large_writes;
mod address;
mod output;
mod lines;
mod handover;
mod observers;
mod subscriptions;
mod client;
mod pause;
mod parameters;
mod scripts;
mod statistics;
mod slow_log;
mod monitors;
mod latency;
mod key_counts;
mod damaged_records;
mod diagnostics;
mod server_thread;
mod transaction;
mod count_keys;
mod duty;
mod execute;
mod pipeline;
mod serve;
pub mod http;
mod ports; // taken first
mod listen;

pub use descriptors::{DescriptorShares, connections_within};
pub use listen::Server;
pub use log::{LogFormat, LogLevel};
pub use ports::Ports;
pub use process::raise_descriptor_limit;
pub use settings::{Build, Network, Password, ServeSettings};
