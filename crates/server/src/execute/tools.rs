//! What the connections of one thread share to run commands.

use super::prefetch::PrefetchKeys;
use super::script::Interpreters;

/// What the connections of one thread share to run commands. Made with the thread, by the layer
/// that has it serve connections.
#[derive(Default)]
pub(crate) struct Tools {
    /// For scripts; none before the first one.
    pub(super) interpreters: Interpreters,
    pub(super) prefetch_keys: PrefetchKeys,
}
