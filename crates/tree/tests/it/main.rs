//! The tree from outside: files on a real directory and in memory, threads and none.

mod world;
mod smoke;
mod slow_writers;
mod verify_sample;
mod verify;
mod flip;
mod read_only;
mod bad_input;
