//! What one client is subscribed to.

use std::collections::BTreeSet;
use std::ops::{Bound, ControlFlow};

use super::Topic;
use crate::bounds::name_memory_bytes;

/// What a client is subscribed to.
#[derive(Debug, Default)]
pub(crate) struct ClientSubscriptions {
    pub(crate) channels: BTreeSet<Vec<u8>>,
    pub(crate) patterns: BTreeSet<Vec<u8>>,
    pub(crate) shards: BTreeSet<Vec<u8>>,
    /// Memory that the names take, here and in the table of all subscriptions.
    memory_bytes: usize,
}

impl ClientSubscriptions {
    /// The names of a kind.
    pub(crate) fn names(&self, topic: Topic) -> &BTreeSet<Vec<u8>> {
        match topic {
            Topic::Channel => &self.channels,
            Topic::Pattern => &self.patterns,
            Topic::Shard => &self.shards,
        }
    }

    fn names_mut(&mut self, topic: Topic) -> &mut BTreeSet<Vec<u8>> {
        match topic {
            Topic::Channel => &mut self.channels,
            Topic::Pattern => &mut self.patterns,
            Topic::Shard => &mut self.shards,
        }
    }

    /// Adds a name; whether it is new.
    pub(crate) fn add(&mut self, topic: Topic, name: &[u8]) -> bool {
        let is_new = self.names_mut(topic).insert(name.to_vec());
        self.memory_bytes += if is_new { name_memory_bytes(name) } else { 0 };
        is_new
    }

    /// Takes a name out; whether it was there.
    pub(crate) fn remove(&mut self, topic: Topic, name: &[u8]) -> bool {
        let was_there = self.names_mut(topic).remove(name);
        self.memory_bytes -= if was_there { name_memory_bytes(name) } else { 0 };
        was_there
    }

    /// Whether a name is among them.
    pub(crate) fn has(&self, topic: Topic, name: &[u8]) -> bool {
        self.names(topic).contains(name)
    }

    /// Shows `look` each of them behind `after`, in order, until it has seen enough.
    pub(crate) fn try_each_after<B>(
        &self,
        after: Option<(Topic, Vec<u8>)>,
        mut look: impl FnMut(Topic, &[u8]) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        let topics = [Topic::Channel, Topic::Pattern, Topic::Shard];
        for topic in topics.into_iter().filter(|topic| after.as_ref().is_none_or(|(first, _)| first <= topic))
        {
            let start = match &after {
                Some((first, name)) if *first == topic => Bound::Excluded(name.as_slice()),
                _ => Bound::Unbounded,
            };
            let names = self.names(topic).range::<[u8], _>((start, Bound::Unbounded));
            names
                .map(|name| look(topic, name))
                .find(ControlFlow::is_break)
                .map_or(ControlFlow::Continue(()), |it| it)?;
        }
        ControlFlow::Continue(())
    }

    /// Memory that the names take.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.memory_bytes
    }

    /// Subscriptions that count together: those of sharded channels apart from the others.
    pub(crate) fn count(&self, topic: Topic) -> usize {
        match topic {
            Topic::Channel | Topic::Pattern => self.channels.len() + self.patterns.len(),
            Topic::Shard => self.shards.len(),
        }
    }

    /// How many of a kind.
    pub(crate) fn count_of(&self, topic: Topic) -> usize {
        self.names(topic).len()
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.channels.is_empty() && self.patterns.is_empty() && self.shards.is_empty()
    }
}
