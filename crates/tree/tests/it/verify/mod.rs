//! Damage that `verify` and reads find, and calls that cannot succeed.

mod findings; // in sound and in damaged databases
mod edits; // manifests that are well formed and wrong
mod flip; // one thing wrong with a closed database
mod bad_input; // refused, with a message to act on
