//! Writers that cannot write now: for room ([`Admission`]), and behind one another ([`Line`]).
//!
//! ```text
//!   a write that finds no room ─► stopped: wait_released ◄─ release ─ what makes room
//!   of a session ─► Line, in call order ─► wait_in ◄─ nudge ──┘
//! ```
//! Fair: a session's writes keep their order, and all that wait for room try again when some was
//! made. Bounded: a database holds each session once, and a blocked thread not at all. How long a
//! line is, its session decides.
//!
//! For engines to embed: nothing here is part of the contract with callers.

mod held_time;
mod admission;
mod line;

pub use admission::Admission;
pub use held_time::HeldTime;
pub use line::{Hold, Line};
