//! One request, and the client that sent it.

use std::rc::Rc;

use firn_format::datatype::DatabaseId;
use firn_protocol::resp::Arguments;

use crate::client::Client;
use crate::server_thread::ServerThread;

use super::Tools;

/// One request, and the client that sent it.
#[derive(Clone, Copy)]
pub(crate) struct Request<'a> {
    pub(crate) thread: &'a Rc<ServerThread>,
    pub(crate) client: &'a Rc<Client>,
    pub(crate) tools: &'a Rc<Tools>,
    pub(crate) arguments: Arguments<'a>,
}

impl<'a> Request<'a> {
    /// The argument at `index`, empty if there is none: arity was checked.
    #[inline]
    pub(super) fn argument(&self, index: usize) -> &'a [u8] {
        self.arguments.get(index).unwrap_or_default()
    }

    /// The database that the client has selected.
    #[inline]
    pub(super) fn database_id(&self) -> DatabaseId {
        self.thread.shared.store.databases.load().get(self.client.database.get()).id
    }
}
