//! Connections that come, and which thread serves them. Every thread takes them, so that none
//! depends on one thread.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::rc::Rc;

use super::{Message, ServerThread};
use crate::scripts::Running;
use crate::statistics::Measure;

/// How long a script keeps its thread when no more connections are given to that: some turns.
const KEPT_NS: u64 = 10_000_000;

impl ServerThread {
    /// The script that this thread runs, as others see it.
    pub(crate) fn script(&self) -> &Running {
        &self.shared.threads.mailboxes[self.index].script
    }

    pub(super) fn accept(&self) -> Option<TcpStream> {
        self.sockets.borrow_mut().accept()
    }

    /// Gives a new connection to the thread with the fewest, of those whose threads are not kept by
    /// a script.
    pub(super) fn place(self: &Rc<Self>, stream: TcpStream) {
        let threads = &self.shared.threads;
        if !threads.take_room(self.shared.parameters.clients_max()) {
            self.counters().add(Measure::RejectedConnections, 1);
            self.note_refused(&stream, "too many clients");
            // Best effort: a client that does not read it sees the end of the connection.
            let _ = stream.set_nonblocking(true);
            let _ = io::Write::write(&mut &stream, b"-ERR max number of clients reached\r\n");
            return;
        }
        if self.is_shut_out(&stream) {
            self.note_refused(&stream, "protected mode");
            threads.give_room();
            let _ = stream.set_nonblocking(true);
            let _ = io::Write::write(&mut &stream, PROTECTED);
            return;
        }
        let kept_ns = self.monotonic_ns().saturating_sub(KEPT_NS);
        let Some((mailbox, number)) = threads.place(kept_ns) else { return };
        match std::ptr::eq(mailbox, &threads.mailboxes[self.index]) {
            true => self.begin(stream, number),
            false => mailbox.send(Message::Serve { stream, number }),
        }
    }

    /// Whether protected mode refuses the connection: it comes from another machine, and no
    /// password is asked for.
    fn is_shut_out(&self, stream: &TcpStream) -> bool {
        let is_local = |address: SocketAddr| address.ip().to_canonical().is_loopback();
        self.shared.parameters.is_protected()
            && self.shared.users.is_open_to_all()
            && !stream.peer_addr().is_ok_and(is_local)
    }
}

/// What a connection is told that protected mode refuses.
const PROTECTED: &[u8] = b"-DENIED Firn is in protected mode: it asks for no password, so that only this machine may \
connect. Either start it with a password (--password-file FILE, or FIRN_PASSWORD in the environment), or give the default \
user one from this machine (ACL SETUSER default >...), or, where no other machine reaches this port, start it with \
--protected-mode no.\r\n";
