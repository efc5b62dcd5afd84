//! What binds the format to the bytes of earlier releases, and its decoders to whatever bytes there
//! are.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod golden;
mod samples;
mod tables;
mod blobs;
mod combiner;
mod hybrid;
mod datatypes;
mod enums;
mod damage;
mod dumps;
mod faults; // that real use found
