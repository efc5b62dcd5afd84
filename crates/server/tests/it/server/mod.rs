//! What operators and libraries ask.

mod command;
mod config;
mod debug;
mod info;
mod slow;
mod monitor;
mod memory;
mod saving;
mod small;
mod tools;
