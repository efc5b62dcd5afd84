//! What leaves a worker at the end of a round.
//!
//! Writes of a round are visible as they are made, and are given to the kernel together before anybody is told of anything: one
//! call for all of them. So no reply, to whichever client, tells of what a kill could take back.

use super::Worker;
use crate::net::Sent;
use crate::statistics::Measure;

/// Memory that an empty output keeps.
const OUTPUT_BYTES_KEPT: usize = 64 << 10;

impl Worker {
    /// Lets what clients are about to hear of survive the process; `false` if that failed. Until it succeeds again, each
    /// write waits for itself.
    pub(super) fn settle(&self) -> bool {
        if !self.is_deferred.get() {
            return true;
        }
        let is_settled = self.session.borrow_mut().settle().is_ok();
        if !is_settled {
            self.set_deferred(false);
        }
        is_settled
    }

    /// Whether writes are answered before they would survive the process, since all of a round are settled together.
    pub(super) fn set_deferred(&self, is_deferred: bool) {
        self.is_deferred.set(is_deferred);
        self.session.borrow_mut().set_deferred(is_deferred);
    }

    /// Sends what clients wait for, once it is settled.
    pub(super) fn flush(&self) {
        let dirty = std::mem::take(&mut *self.dirty.borrow_mut());
        let is_settled = dirty.is_empty() || self.settle();
        for client in dirty {
            client.is_dirty.set(false);
            let mut output = client.output.borrow_mut();
            if !is_settled {
                // Nobody may hear of what could be lost; who has asked learns that nobody knows.
                output.clear();
                client.is_closing.set(true);
            }
            let bytes = output.len();
            let sent = self.sockets.borrow_mut().send(client.id, &mut output);
            self.counters().add(Measure::OutputBytes, (bytes - output.len()) as u64);
            self.counters().add(Measure::Writes, 1);
            if sent == Sent::All && output.capacity() > OUTPUT_BYTES_KEPT {
                output.shrink_to(OUTPUT_BYTES_KEPT);
            }
            if sent == Sent::End || !is_settled {
                // Nobody reads it any more; who waits for that ends.
                output.clear();
                client.is_closing.set(true);
                self.tasks.wake(client.id);
            }
            drop(output);
            // Its task may have waited for the output to become less.
            if client.is_blocked.replace(sent == Sent::Some) {
                self.tasks.wake(client.id);
            }
        }
    }
}
