//! The facade as an embedder meets it.

mod examples;
mod opening;
mod settings;
mod handles;
mod keyspaces;
mod scans;
mod both_ends;
mod threads;
mod transactions;
mod components;
mod small_disk; // a file system that is soon full
mod full_disk;
