//! What a worker knows of one connection.

use std::cell::{Cell, RefCell};

use firn_format::datatype::DatabaseId;
use firn_protocol::resp::{Protocol, Reply};

/// One connection. Its task reads and answers requests; others may add messages to its output.
#[derive(Debug)]
pub(crate) struct Client {
    /// Number of its socket and its task.
    pub(crate) id: u32,
    /// Number told to people; never given twice.
    pub(crate) number: u64,
    /// The version of the protocol it speaks.
    pub(crate) protocol: Cell<Protocol>,
    /// Index and identity of the database it has selected.
    pub(crate) database: Cell<(u32, DatabaseId)>,
    /// What it has not been sent yet.
    pub(crate) output: RefCell<Vec<u8>>,
    /// Output is waiting to be sent at the end of this round.
    pub(crate) is_dirty: Cell<bool>,
    /// Some of the output did not go: the socket says when more does.
    pub(crate) is_blocked: Cell<bool>,
    /// The connection ends once its output is sent.
    pub(crate) is_closing: Cell<bool>,
}

impl Client {
    pub(crate) fn new(id: u32, number: u64) -> Self {
        Self {
            id,
            number,
            protocol: Cell::default(),
            database: Cell::new((0, DatabaseId::FIRST)),
            output: RefCell::default(),
            is_dirty: Cell::new(false),
            is_blocked: Cell::new(false),
            is_closing: Cell::new(false),
        }
    }

    /// Appends a reply.
    #[inline]
    pub(crate) fn reply<T>(&self, write: impl FnOnce(&mut Reply<'_>) -> T) -> T {
        let mut output = self.output.borrow_mut();
        write(&mut Reply::new(&mut output, self.protocol.get()))
    }
}
