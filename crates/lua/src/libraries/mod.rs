//! What scripts may use beside the commands of their host: `cjson`, `cmsgpack`, `struct`, `bit`,
//! `math.random`, and Lua's own functions where those would take a thread for too long.
//!
//! ```text
//!   Sandbox ─ sandbox.lua ─► globals of scripts
//!      │                       ├─ json, msgpack, structs, bits, random: each a table of functions
//!      │                       └─ patterns: find, match, gmatch, gsub, rep
//!      └─ Budget ─ memory, stack, bytes gone over, steps ─► Host: may it have more, must it end
//! ```
//! A library knows no command and no client. What it makes it counts in the [`Budget`], which asks
//! the [`Host`].

mod library;
mod budget;
mod work;
mod decimal;
mod filling;
mod json;
mod msgpack;
mod structs;
mod bits;
mod random;
mod patterns;
mod sandbox;

pub use budget::{Budget, Held, Host};
pub use decimal::general;
pub use library::{Complaint, Cost, number, text_of};
pub use patterns::Search;
pub use sandbox::{SANDBOX_NAME, Sandbox};
