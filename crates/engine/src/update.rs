//! Atomic updates: a function from the current value to a change.

/// What an update does to its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The key gets this value.
    Put(Vec<u8>),
    /// The key is removed.
    Delete,
    /// Nothing is written.
    Keep,
}

/// The function of an atomic update: from the current value to a change. May be called more than
/// once.
pub type UpdateFn = Box<dyn FnMut(Option<&[u8]>) -> Change + Send>;
