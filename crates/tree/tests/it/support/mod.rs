//! What tests of all subjects are written with: machines, places, histories.

pub(crate) mod world; // a database whose machine the test owns
pub(crate) mod watched; // a place that shows each operation before it is done
pub(crate) mod unmapped; // a place that gives no file as memory
pub(crate) mod asking; // a place that records what was asked for ahead
pub(crate) mod numbered; // batches that carry their number
pub(crate) mod sample; // a small database with a bit of everything
#[path = "../../../../jobs/tests/it/asked_clock.rs"]
pub(crate) mod asked_clock; // moves on command
