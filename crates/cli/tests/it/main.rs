//! The real program, called as a person calls it.

mod program;
mod usage;
mod config;
mod inspect;
mod verify;
mod bench;
mod records;
mod serve;
mod wire;
mod redis_rs;
mod page;
mod operations;
mod linearizability;
mod kill_serve;
