//! What a manifest carries.

/// A state, the changes that edits make of it, and their bytes.
///
/// The manifest numbers edits and publishes them; what they mean is its content's concern. Bytes of
/// an edit MUST tell it from every edit that another opening writes: from what is read under a
/// number it is concluded whether a publication succeeded.
pub trait Content: Default {
    /// One change; an edit has any number of them.
    type Change;

    /// The parts of a state that an edit changes, as they were before it.
    type Before;

    /// Adds one change.
    ///
    /// # Errors
    /// Says what does not fit what went before.
    fn apply(&mut self, change: &Self::Change) -> Result<(), String>;

    /// What `changes` are about to change, whether they fit or not.
    fn before(&self, changes: &[Self::Change]) -> Self::Before;

    /// Makes it what it was `before` any number of the changes were applied.
    fn restore(&mut self, before: Self::Before);

    /// The bytes of the edit `number`, which makes `changes`.
    fn encode(&self, number: u64, changes: &[Self::Change]) -> Vec<u8>;

    /// The bytes of the edit `number`, which restates everything.
    fn encode_base(&self, number: u64) -> Vec<u8>;

    /// The edit that has these bytes.
    ///
    /// # Errors
    /// What is wrong with them.
    fn decode(bytes: &[u8]) -> Result<Edit<Self::Change>, firn_format::Error>;

    /// A change of nothing but the owner: the process whose log lies in the directory `home` takes
    /// the database over.
    fn take_over(home: u128) -> Self::Change;

    /// Whether `change` is a [`take_over`](Self::take_over).
    fn is_take_over(change: &Self::Change) -> bool;

    /// The change that says which database it is.
    fn identity(&self) -> Self::Change;
}

/// An edit as it was read.
#[derive(Debug)]
pub struct Edit<C> {
    /// One more than that of the edit before.
    pub number: u64,
    /// Whether it restates everything.
    pub is_base: bool,
    /// In the order in which they apply.
    pub changes: Vec<C>,
}
