//! How the threads of a server name a client.

/// How the threads of a server name a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ClientAddress {
    /// Index of its server thread.
    pub(crate) thread: usize,
    /// Its number there, given again when it is gone.
    pub(crate) id: u32,
    /// Its number for people, never given again.
    pub(crate) number: u64,
}
