//! Jobs of many databases on a pool of workers.
//!
//! ```text
//!   database: Remote (an Executor) ──submit, follow──► ControlPlane ◄──pull, beat, finish── Worker ─► jobs::run
//!        │                                                 │                                   │
//!        │                                        control::Pool ─► schedule                    ▼
//!        └────────────── reads the outputs ◄── shared storage ◄── inputs by name, outputs under the attempt's stem
//! ```
//!
//! A [`ControlPlane`] knows what databases want and what workers have. It may be lost, doubled or
//! wrong. A database believes a result because of what is in it, and each attempt writes under
//! names of its own.
//!
//! # Not here
//! - What a job is, and whether its result may be believed: crate `firn-jobs`.
//! - Where files are: workers are given something that opens backends by name.
//! - Correctness: a decision may be late, doubled or wrong. It costs time, never data.
//!
//! # Invariants
//! 1. [`control`] has no I/O and no clock.
//! 2. Files do not travel through messages.
//! 3. A worker reads what the spec names and creates files under its attempt's stem; it removes,
//!    renames and lists nothing.

#![forbid(unsafe_code)]

pub mod control; // which worker does what, as functions
mod bounds; // how much of what a peer says is taken
mod wire; // what travels
mod token; // the secret of all that may ask
mod tls; // certificates
mod runtime; // the thread that talks
mod trouble; // why nothing is heard
mod channel; // ways to control planes
mod entrance; // which connections are let in, and by which certificate
mod control_plane; // the pool behind sockets
mod scoped; // what a worker may touch
mod worker; // takes jobs and runs them
mod remote; // the database's side
mod admin_client; // what people ask

pub use admin_client::AdminClient;
pub use bounds::{BOUNDS, Beyond, Bound};
pub use control_plane::{ControlPlane, ControlPlaneOptions, ControlPlaneWatch};
pub use entrance::Connections;
pub use remote::{Remote, RemoteOptions};
pub use scoped::Scoped;
pub use tls::{Authorities, ClientTls, ClientTlsSource, Identity, Pem, ServerTls};
pub use token::SharedToken;
pub use wire::proto;
pub use worker::{
    Attempts, Backends, STAGE_BOUNDS_MS, Times, Worker, WorkerFigures, WorkerOptions, WorkerWatch,
};
