//! A server in this process, spoken to through its socket.

mod client;
mod connections;
mod strings;
mod pipelines;
mod reference;
