//! What a database is told when it is opened, as data: sizes, limits and defaults.
//!
//! [`Settings`] has what every engine is told, and in [`engine`](Settings::engine) the settings of
//! one engine. That engine's crate declares them with [`engine_settings!`](crate::engine_settings).
//! Each setting is one entry of one list: its type, its default, its ranges, its meaning and what
//! to do where it is wrong. The struct, its documentation, its text and its checks are made of
//! that.
//!
//! As [TOML](Settings::from_toml) the settings of every engine come first, and those of one engine
//! are a table of its own:
//!
//! ```toml
//! memory_bytes = "4 GiB"
//!
//! [tree]
//! separate_bytes = "4 KiB"
//! ```

mod declare;
mod every_engine;
mod size;
mod value;
mod text;
mod nearest;
mod page;

pub use declare::{Audience, EngineSettings, Field, TestRange};
pub use every_engine::Settings;
pub use nearest::nearest;
pub use size::{MIB, parse_bytes, show_bytes};
pub use value::Value;

#[cfg(test)]
mod tests;
