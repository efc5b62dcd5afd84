//! Plain requests, which are done in front of the dispatcher.
//!
//! ```text
//!   SET key value ─► plain_set ─► one batch with its neighbours, answered once it is written
//!   GET key       ─► plain_get ─► read and answered at once
//! ```
//! Neither needs a transaction. A request that turns out not to be plain after all, since it is too
//! long or something else stands at its key, is left to the dispatcher. Nothing was done with it
//! then.

use std::rc::Rc;

use firn_engine::Ticket;
use firn_protocol::command::Command;

use super::set_batch::SetBatch;
use super::timer::Timer;
use super::{GET, Request, SET, metrics, string};
use crate::client::{Client, Silence};
use crate::server_thread::ServerThread;

/// Of `SET key value`.
const PLAIN_SET_ARGUMENTS: usize = 3;

/// Which plain request one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Plain {
    Set,
    Get,
}

impl Plain {
    /// Which one a request is, if it is one.
    #[inline]
    pub(super) fn of(request: &Request<'_>, command: &'static Command) -> Option<Self> {
        let plain = match command.id() {
            GET => Self::Get,
            SET if request.arguments.len() == PLAIN_SET_ARGUMENTS => Self::Set,
            _ => return None,
        };
        let shared = &request.thread.shared;
        // Monitors and exact measurement need each command by itself. Of a silent client each reply
        // is dropped as it is made.
        let is_by_itself = shared.parameters.is_exact() || shared.monitors.is_any();
        (!is_by_itself && request.client.silence.get() == Silence::None).then_some(plain)
    }
}

/// The plain requests of one connection: writes that are not answered yet, and how long all of its
/// commands take.
#[derive(Debug, Default)]
pub(crate) struct FastPath {
    set_batch: SetBatch,
    pub(super) timer: Timer,
    /// What the next command reads was waited for.
    has_waited: bool,
}

impl FastPath {
    /// Takes in a `SET`; `false` if it cannot be done here.
    pub(super) async fn plain_set(&mut self, request: &Request<'_>) -> bool {
        let (thread, client) = (request.thread, request.client);
        if self.set_batch.is_full() {
            self.finish(thread, client).await;
        }
        self.timer.begin_plain(thread, SET);
        if self.set_batch.take_set(request) {
            return true;
        }
        self.timer.take_back();
        false
    }

    /// Waits until what the next commands read is there. The first of them is said to have taken
    /// that time.
    pub(crate) async fn load(&mut self, thread: &Rc<ServerThread>, client: &Rc<Client>, ticket: Ticket) {
        self.finish(thread, client).await;
        self.timer.begin(thread);
        thread.engine.loaded(ticket).await;
        self.has_waited = true;
    }

    /// Answers a `GET`; `false` if it cannot be done here. All before it must be answered.
    pub(super) async fn plain_get(&mut self, request: &Request<'_>, command: &'static Command) -> bool {
        let (thread, client) = (request.thread, request.client);
        let waits = thread.engine.waits();
        self.timer.begin_plain(thread, GET);
        if !string::get_at_once(request).await {
            self.timer.take_back();
            return false;
        }
        if std::mem::take(&mut self.has_waited) || thread.engine.waits() != waits {
            let ns = self.timer.settle(thread);
            metrics::took(thread, client, command, request.arguments, ns);
        }
        true
    }

    /// Whether something was taken in that is not answered.
    #[inline]
    pub(super) fn is_behind(&self) -> bool {
        !self.set_batch.is_empty()
    }

    /// Writes and answers what was taken in.
    pub(crate) fn finish(
        &mut self,
        thread: &Rc<ServerThread>,
        client: &Rc<Client>,
    ) -> impl Future<Output = ()> {
        self.set_batch.finish(thread, client, &mut self.timer)
    }

    /// The connection waits for more: all was answered, and what is between is no command's.
    pub(crate) fn stop(&mut self, thread: &ServerThread) {
        debug_assert!(!self.is_behind(), "a write is not answered");
        self.timer.stop(thread);
    }
}
