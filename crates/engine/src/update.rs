//! Atomic updates: a function from the current value to a change.

/// What an update does to its key.
///
/// ```
/// use firn_engine::Change;
///
/// // A function for an update: takes one from a stock, and answers whether there was one.
/// let take = |stock: Option<&[u8]>| match stock {
///     Some([left @ 2..=u8::MAX]) => (Change::Put(vec![left - 1]), true),
///     Some([1]) => (Change::Delete, true),
///     _ => (Change::Keep, false),
/// };
/// assert_eq!(take(Some(&[1])), (Change::Delete, true));
/// ```
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
