//! What a client has not been sent yet.
//!
//! ```text
//!   ahead: own ─ shared ─ own ─ shared        last: own bytes, appended to
//!   ▲ sent from here
//! ```
//! Replies and small messages are bytes of the client's own. A large message is one for all clients
//! that are sent it: each output only refers to it, between bytes of its own.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::net::{Sent, Sockets};

/// Bytes from which on a message is shared: below, a copy costs less than a send of its own.
pub(crate) const SHARED_BYTES_MIN: usize = 16 << 10;

/// The unsent bytes of one client, in order.
#[derive(Debug, Default)]
pub(crate) struct Output {
    ahead: VecDeque<Part>,
    /// Bytes of `ahead` that were not sent.
    ahead_bytes: usize,
    last: Vec<u8>,
}

#[derive(Debug)]
enum Part {
    Own(Vec<u8>),
    /// Sent up to `sent`.
    Shared {
        bytes: Arc<[u8]>,
        sent: usize,
    },
}

impl Part {
    fn len(&self) -> usize {
        match self {
            Self::Own(bytes) => bytes.len(),
            Self::Shared { bytes, sent } => bytes.len() - sent,
        }
    }
}

impl Output {
    /// Unsent bytes, shared ones included.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.ahead_bytes + self.last.len()
    }

    /// Whether everything was sent.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Memory of the client's own bytes, with the room behind them; what is shared is not in it.
    pub(crate) fn own_capacity(&self) -> usize {
        let of_part = |part: &Part| match part {
            Part::Own(bytes) => bytes.capacity(),
            Part::Shared { .. } => 0,
        };
        self.ahead.iter().map(of_part).sum::<usize>() + self.last.capacity()
    }

    /// Shared bytes that were not sent.
    pub(crate) fn shared_bytes(&self) -> usize {
        self.ahead.iter().filter(|part| matches!(part, Part::Shared { .. })).map(Part::len).sum()
    }

    /// Where the client's own bytes are appended.
    #[inline]
    pub(crate) fn own(&mut self) -> &mut Vec<u8> {
        &mut self.last
    }

    /// Appends bytes that others are sent too, without copying them.
    pub(crate) fn push_shared(&mut self, bytes: &Arc<[u8]>) {
        if bytes.is_empty() {
            return;
        }
        self.end_part();
        self.ahead_bytes += bytes.len();
        self.ahead.push_back(Part::Shared { bytes: Arc::clone(bytes), sent: 0 });
    }

    /// Appends all of `other`, which is empty then.
    pub(crate) fn append(&mut self, other: &mut Self) {
        if !other.ahead.is_empty() {
            self.end_part();
            self.ahead.append(&mut other.ahead);
            self.ahead_bytes += std::mem::take(&mut other.ahead_bytes);
        }
        self.last.append(&mut other.last);
    }

    /// Appends bytes of the client's own, without a copy where none of its own stand right
    /// before them.
    pub(crate) fn append_own(&mut self, bytes: &mut Vec<u8>) {
        if self.last.is_empty() {
            std::mem::swap(&mut self.last, bytes);
        } else {
            self.last.extend_from_slice(bytes);
        }
    }

    /// Drops everything.
    pub(crate) fn clear(&mut self) {
        self.ahead.clear();
        self.ahead_bytes = 0;
        self.last.clear();
    }

    /// Gives back memory that nothing is in, but for so many bytes.
    pub(crate) fn shrink_to(&mut self, bytes: usize) {
        if self.last.capacity() > bytes {
            self.last.shrink_to(bytes);
        }
    }

    /// Gives the socket `id` what it takes, from the front.
    #[inline]
    pub(crate) fn send(&mut self, sockets: &mut Sockets, id: u32) -> Sent {
        if !self.ahead.is_empty() {
            let sent = self.send_ahead(sockets, id);
            if sent != Sent::All {
                return sent;
            }
        }
        sockets.send(id, &mut self.last)
    }

    fn send_ahead(&mut self, sockets: &mut Sockets, id: u32) -> Sent {
        while let Some(part) = self.ahead.front_mut() {
            let before = part.len();
            let outcome = match part {
                Part::Own(bytes) => sockets.send_more(id, bytes),
                Part::Shared { bytes, sent } => sockets.send_shared(id, bytes, sent),
            };
            let left = part.len();
            self.ahead_bytes -= before - left;
            if outcome != Sent::All {
                return outcome;
            }
            if left == 0 {
                self.ahead.pop_front();
            }
        }
        Sent::All
    }

    /// What was appended stands before what comes next.
    fn end_part(&mut self) {
        if !self.last.is_empty() {
            self.ahead_bytes += self.last.len();
            self.ahead.push_back(Part::Own(std::mem::take(&mut self.last)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(output: &Output) -> Vec<u8> {
        let part = |part: &Part| match part {
            Part::Own(bytes) => bytes.clone(),
            Part::Shared { bytes, sent } => bytes[*sent..].to_vec(),
        };
        output
            .ahead
            .iter()
            .map(part)
            .collect::<Vec<_>>()
            .concat()
            .into_iter()
            .chain(output.last.clone())
            .collect()
    }

    #[test]
    fn parts_stand_in_the_order_they_came() {
        let (mut output, mut held) = (Output::default(), Output::default());
        let shared: Arc<[u8]> = b"<shared>"[..].into();
        output.own().extend_from_slice(b"a");
        output.push_shared(&shared);
        output.own().extend_from_slice(b"b");
        held.own().extend_from_slice(b"c");
        held.push_shared(&shared);
        held.push_shared(&shared);
        held.own().extend_from_slice(b"d");
        output.append(&mut held);
        output.append_own(&mut b"e".to_vec());
        assert_eq!(all(&output), b"a<shared>bc<shared><shared>de");
        assert_eq!((output.len(), output.shared_bytes()), (all(&output).len(), 3 * shared.len()));
        assert_eq!((held.len(), Arc::strong_count(&shared)), (0, 4));
        output.clear();
        assert!(output.is_empty());
        assert_eq!(Arc::strong_count(&shared), 1, "nothing refers to it");
    }
}
