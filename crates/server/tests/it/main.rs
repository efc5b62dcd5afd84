//! A server in this process, spoken to through its socket.

mod client;
mod connections;
mod strings;
mod databases;
mod transactions;
mod pub_sub;
mod members;
mod pipelines;
mod reference;
