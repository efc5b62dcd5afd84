//! What operators and libraries ask.

mod command;
mod config;
mod debug;
pub(crate) mod info;
mod held;
mod slow;
mod monitor;
mod memory;
mod saving;
mod small;
mod tools;
