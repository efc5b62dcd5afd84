//! What leaves a thread at the end of a round.
//!
//! Writes of a round are visible as they are made. They are given to the kernel together, in one
//! call, before any client is told of anything. So no reply, to whichever client, tells of what a
//! kill could take back.

use std::rc::Rc;

use firn_engine::Error;
use firn_protocol::resp::Reply;

use super::ServerThread;
use crate::client::Client;
use crate::net::Sent;
use crate::statistics::Measure;

/// Memory that an empty output keeps.
const OUTPUT_BYTES_KEPT: usize = 64 << 10;

impl ServerThread {
    /// Sends what clients wait for, once it is settled.
    pub(super) fn flush(&self) {
        let dirty = std::mem::take(&mut *self.dirty.borrow_mut());
        let settled = if dirty.is_empty() { Ok(()) } else { self.engine.settle() };
        for client in dirty {
            client.outbox.is_dirty.set(false);
            if let Err(error) = &settled {
                lose(&client, error.clone());
            }
            self.send(&client);
        }
    }

    fn send(&self, client: &Rc<Client>) {
        let mut output = client.outbox.output.borrow_mut();
        let bytes = output.len();
        self.peaks.note_output(output.own_capacity());
        let sent = output.send(&mut self.sockets.borrow_mut(), client.id);
        self.counters().add(Measure::OutputBytes, (bytes - output.len()) as u64);
        self.counters().add(Measure::Writes, 1);
        if sent == Sent::All {
            output.shrink_to(OUTPUT_BYTES_KEPT);
        }
        drop(output);
        if sent == Sent::End || client.outbox.is_cut_off.get() {
            // The client reads no more; the task that waits for that ends.
            client.cut_off();
            self.tasks.wake(client.id);
        }
        // Its task may have waited for the output to become less.
        if client.outbox.is_blocked.replace(sent == Sent::Some) {
            self.tasks.wake(client.id);
        }
    }
}

/// Cuts `client` off: its replies would acknowledge writes that may be lost. An error is sent in
/// place of them, unless a part of a reply has been sent already.
pub(super) fn lose(client: &Client, error: Error) {
    let is_between_replies = !client.outbox.is_blocked.get()
        && !client.outbox.is_replying.get()
        && !client.outbox.is_cut_off.get();
    client.cut_off();
    if is_between_replies {
        let line = format!("MISCONF what was written last may be lost, so that no reply is sent: {error}");
        Reply::new(client.outbox.output.borrow_mut().own(), client.protocol.get()).error(&line);
    }
}
