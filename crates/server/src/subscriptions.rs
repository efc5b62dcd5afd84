//! Which clients are subscribed to which channels; shared by all server threads.
//!
//! A message goes from the publisher's server thread to each server thread that has subscribers,
//! once, and is written to their outputs there. Messages of one connection arrive in the order they
//! were published.

mod of_client;

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use firn_protocol::glob;
use firn_protocol::resp::{Protocol, Reply};

use crate::address::ClientAddress;
use crate::output::{Output, SHARED_BYTES_MIN};

pub(crate) use of_client::ClientSubscriptions;

/// What is subscribed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Topic {
    /// A channel.
    Channel,
    /// All channels that match a pattern.
    Pattern,
    /// A sharded channel.
    Shard,
}

/// A message on its way to a server thread's clients.
#[derive(Debug)]
pub(crate) struct Published {
    topic: Topic,
    channel: Vec<u8>,
    payload: Arc<[u8]>,
}

/// A subscriber of a message, and the pattern that it matched.
pub(crate) type Addressee = (ClientAddress, Option<Arc<[u8]>>);

impl Published {
    /// `payload`, published to a channel or a sharded channel.
    pub(crate) fn new(topic: Topic, channel: &[u8], payload: &[u8]) -> Self {
        Self { topic, channel: channel.to_vec(), payload: payload.into() }
    }

    /// The channel.
    pub(crate) fn channel(&self) -> &[u8] {
        &self.channel
    }

    /// By which kind of subscription it is received: by a pattern, or by its channel's name.
    pub(crate) fn topic(&self, is_by_pattern: bool) -> Topic {
        if is_by_pattern { Topic::Pattern } else { self.topic }
    }

    /// Bytes that a subscriber is sent, but for some dozens.
    pub(crate) fn bytes(&self) -> usize {
        self.channel.len() + self.payload.len()
    }

    /// Appends the message as a subscriber gets it. What is large is not copied.
    pub(crate) fn encode(&self, pattern: Option<&[u8]>, protocol: Protocol, out: &mut Output) {
        let mut reply = Reply::new(out.own(), protocol);
        match pattern {
            Some(pattern) => {
                reply.push(4);
                reply.bulk(b"pmessage");
                reply.bulk(pattern);
            }
            None => {
                reply.push(3);
                reply.bulk(if self.topic == Topic::Shard { b"smessage" } else { b"message" });
            }
        }
        reply.bulk(&self.channel);
        if self.payload.len() < SHARED_BYTES_MIN {
            return reply.bulk(&self.payload);
        }
        reply.bulk_head(self.payload.len());
        out.push_shared(&self.payload);
        Reply::new(out.own(), protocol).bulk_end();
    }
}

/// Bytes of patterns and names that are compared under the lock, after which others may have it.
const COMPARED_BYTES_MAX: usize = 64 << 10;

/// What a name costs beside its bytes, in bytes compared.
const NAME_COST_BYTES: usize = 128;

type Subscribers = Vec<ClientAddress>;

/// In an order, so that a pass over all of them can release the lock and find its place again.
type ByName = BTreeMap<Arc<[u8]>, Subscribers>;

#[derive(Debug, Default)]
struct State {
    channels: ByName,
    shards: ByName,
    patterns: ByName,
}

/// The subscriptions of a server's clients.
#[derive(Debug, Default)]
pub(crate) struct Subscriptions {
    state: RwLock<State>,
}

impl Subscriptions {
    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// `client`, which is not yet, is subscribed.
    pub(crate) fn add(&self, topic: Topic, name: &[u8], client: ClientAddress) {
        let mut state = self.write();
        let of_kind = match topic {
            Topic::Channel => &mut state.channels,
            Topic::Shard => &mut state.shards,
            Topic::Pattern => &mut state.patterns,
        };
        of_kind.entry(name.into()).or_default().push(client);
    }

    /// `client` is subscribed no more.
    pub(crate) fn remove(&self, topic: Topic, name: &[u8], client: ClientAddress) {
        let mut state = self.write();
        let of_kind = match topic {
            Topic::Channel => &mut state.channels,
            Topic::Shard => &mut state.shards,
            Topic::Pattern => &mut state.patterns,
        };
        if let Some(subscribers) = of_kind.get_mut(name) {
            subscribers.retain(|subscriber| *subscriber != client);
            if subscribers.is_empty() {
                of_kind.remove(name);
            }
        }
    }

    /// `client` is subscribed no more to what it was.
    pub(crate) fn remove_all(&self, subscriptions: &ClientSubscriptions, client: ClientAddress) {
        for topic in [Topic::Channel, Topic::Pattern, Topic::Shard] {
            subscriptions.names(topic).iter().for_each(|name| self.remove(topic, name, client));
        }
    }

    /// The clients that get a message of `channel` by its name.
    pub(crate) fn addressees(&self, topic: Topic, channel: &[u8]) -> Vec<Addressee> {
        let state = self.read();
        let of_kind = if topic == Topic::Shard { &state.shards } else { &state.channels };
        of_kind.get(channel).into_iter().flatten().map(|client| (*client, None)).collect()
    }

    /// Adds the clients that get a message of `channel` by patterns that come after the pattern
    /// `after`, once each. Answers the last pattern looked at, or `None` if that was all. Looks at
    /// so few that the lock is held for a short time.
    pub(crate) fn pattern_addressees(
        &self,
        channel: &[u8],
        after: Option<&Arc<[u8]>>,
        addressees: &mut Vec<Addressee>,
    ) -> Option<Arc<[u8]>> {
        let state = self.read();
        let rest = (after.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
        let mut compared_bytes = 0;
        for (pattern, clients) in state.patterns.range::<Arc<[u8]>, _>(rest) {
            if glob::matches(pattern, channel) {
                addressees.extend(clients.iter().map(|client| (*client, Some(Arc::clone(pattern)))));
            }
            compared_bytes += pattern.len() + channel.len();
            if compared_bytes > COMPARED_BYTES_MAX {
                return Some(Arc::clone(pattern));
            }
        }
        None
    }

    /// Adds the names with subscribers that come after `after` and match `pattern`; the last name
    /// looked at, or `None` if that was all. Looks at so few that the lock is held for a short
    /// time.
    pub(crate) fn names(
        &self,
        topic: Topic,
        pattern: Option<&[u8]>,
        after: Option<&Arc<[u8]>>,
        found: &mut Vec<Arc<[u8]>>,
    ) -> Option<Arc<[u8]>> {
        let state = self.read();
        let of_kind = if topic == Topic::Shard { &state.shards } else { &state.channels };
        let rest = (after.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
        let mut compared_bytes = 0;
        for (name, _) in of_kind.range::<Arc<[u8]>, _>(rest) {
            if pattern.is_none_or(|pattern| glob::matches(pattern, name)) {
                found.push(Arc::clone(name));
            }
            compared_bytes += NAME_COST_BYTES + pattern.map_or(0, <[u8]>::len) + name.len();
            if compared_bytes > COMPARED_BYTES_MAX {
                return Some(Arc::clone(name));
            }
        }
        None
    }

    /// How many clients are subscribed to a channel, by its name alone.
    pub(crate) fn count(&self, topic: Topic, channel: &[u8]) -> usize {
        let state = self.read();
        let of_kind = if topic == Topic::Shard { &state.shards } else { &state.channels };
        of_kind.get(channel).map_or(0, Vec::len)
    }

    /// How many channels, or sharded ones, have subscribers.
    pub(crate) fn channel_count(&self, topic: Topic) -> usize {
        let state = self.read();
        if topic == Topic::Shard { state.shards.len() } else { state.channels.len() }
    }

    /// How many patterns have subscribers.
    pub(crate) fn pattern_count(&self) -> usize {
        self.read().patterns.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn client(number: u64) -> ClientAddress {
        ClientAddress { thread: 0, id: 1, number }
    }

    #[test]
    fn a_message_goes_once_to_each_subscription() {
        let subscriptions = Subscriptions::default();
        subscriptions.add(Topic::Channel, b"news", client(1));
        subscriptions.add(Topic::Pattern, b"n*", client(1));
        subscriptions.add(Topic::Pattern, b"*", client(2));
        subscriptions.add(Topic::Shard, b"news", client(3));
        let numbers = |topic, channel: &[u8]| -> Vec<(u64, bool)> {
            let mut addressees = subscriptions.addressees(topic, channel);
            if topic != Topic::Shard {
                assert!(subscriptions.pattern_addressees(channel, None, &mut addressees).is_none());
            }
            addressees.iter().map(|(client, pattern)| (client.number, pattern.is_some())).collect()
        };
        assert_eq!(numbers(Topic::Channel, b"news"), [(1, false), (2, true), (1, true)]);
        assert_eq!(numbers(Topic::Channel, b"other"), [(2, true)]);
        assert_eq!(numbers(Topic::Shard, b"news"), [(3, false)]);
        assert_eq!(subscriptions.pattern_count(), 2);
        subscriptions.remove(Topic::Pattern, b"n*", client(1));
        subscriptions.remove(Topic::Channel, b"news", client(1));
        assert_eq!(numbers(Topic::Channel, b"news"), [(2, true)]);
        assert_eq!(all_names(&subscriptions, Topic::Channel, None), Vec::<Vec<u8>>::new());
        assert_eq!(all_names(&subscriptions, Topic::Shard, Some(b"n?ws")), [b"news".to_vec()]);
    }

    fn all_names(subscriptions: &Subscriptions, topic: Topic, pattern: Option<&[u8]>) -> Vec<Vec<u8>> {
        let (mut found, mut last) = (Vec::new(), None);
        loop {
            last = subscriptions.names(topic, pattern, last.as_ref(), &mut found);
            if last.is_none() {
                return found.iter().map(|name| name.to_vec()).collect();
            }
        }
    }

    #[test]
    fn many_names_are_found_in_pieces_each_once() {
        let subscriptions = Subscriptions::default();
        let names: Vec<Vec<u8>> = (0..2000).map(|number| format!("c{number:04}").into_bytes()).collect();
        names.iter().for_each(|name| subscriptions.add(Topic::Channel, name, client(1)));
        let mut found = Vec::new();
        assert!(subscriptions.names(Topic::Channel, None, None, &mut found).is_some(), "a piece");
        assert!(found.len() < names.len());
        assert_eq!(all_names(&subscriptions, Topic::Channel, None), names);
        let expected: Vec<Vec<u8>> = names.into_iter().filter(|name| name.ends_with(b"7")).collect();
        assert_eq!(all_names(&subscriptions, Topic::Channel, Some(b"*7")), expected);
    }
}
