//! The facade as an embedder meets it.

mod examples;
mod opening;
mod engines;
mod settings;
mod handles;
mod keyspaces;
mod scans;
mod both_ends;
mod ttl;
mod threads;
mod transactions;
mod asynchronous;
mod components;
mod small_disk; // a file system that is soon full
mod full_disk;
