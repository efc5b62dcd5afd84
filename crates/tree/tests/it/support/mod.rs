//! What tests of all subjects are written with: machines, backends, histories.

pub(crate) mod world; // a database whose machine the test owns
pub(crate) mod machine; // one of several that share a backend
pub(crate) mod scene; // separated values, collected when a test wants
pub(crate) mod on_disk; // a database in a real directory
pub(crate) mod watched; // a backend that shows each operation before it is done
pub(crate) mod unmapped; // a backend that gives no file as memory
pub(crate) mod asking; // a backend that records what was asked for ahead
pub(crate) mod numbered; // batches that carry their number
pub(crate) mod inspect; // findings, edits and tables of a database's files
pub(crate) mod sample; // a small database with a bit of everything
#[path = "../../../../jobs/tests/it/asked_clock.rs"]
pub(crate) mod asked_clock; // moves on command
pub(crate) mod in_time; // or a test fails
