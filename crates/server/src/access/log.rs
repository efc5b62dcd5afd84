//! Requests that were refused lately: the list of ACL LOG.

use std::collections::VecDeque;

use crate::bounds::{ACL_LOG_ENTRIES_MAX, cut};

/// Within how many milliseconds the same refusal counts as the same entry.
const SAME_MS: u64 = 60_000;

/// Why something was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    Password,
    Command,
    Key,
    Channel,
}

impl Reason {
    /// The word clients know.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Reason::Password => "auth",
            Reason::Command => "command",
            Reason::Key => "key",
            Reason::Channel => "channel",
        }
    }
}

/// Where a command came from that was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Context {
    /// A client, by itself.
    Alone,
    /// Between MULTI and EXEC, or by EXEC.
    Transaction,
    /// A script.
    Script,
}

impl Context {
    /// The word clients know.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Context::Alone => "toplevel",
            Context::Transaction => "multi",
            Context::Script => "lua",
        }
    }
}

/// A refusal, and others like it.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) count: u64,
    pub(crate) reason: Reason,
    pub(crate) context: Context,
    /// What was refused.
    pub(crate) object: Vec<u8>,
    /// The user that was refused.
    pub(crate) user: Vec<u8>,
    /// When it was refused last, in milliseconds since the Unix epoch.
    pub(crate) at_ms: u64,
    /// The connection, as CLIENT LIST describes it.
    pub(crate) client: String,
}

/// Refusals, the latest first.
#[derive(Debug, Default)]
pub(crate) struct AccessLog {
    entries: VecDeque<Entry>,
}

impl AccessLog {
    /// Notes a refusal, of which long parts are cut; one that is like a recent one is counted with
    /// it.
    pub(crate) fn add(&mut self, mut entry: Entry) {
        entry.object = cut(&entry.object);
        entry.user = cut(&entry.user);
        let is_same = |known: &Entry| {
            known.reason == entry.reason
                && known.context == entry.context
                && known.object == entry.object
                && known.user == entry.user
                && entry.at_ms.saturating_sub(known.at_ms) <= SAME_MS
        };
        if let Some(place) = self.entries.iter().position(is_same)
            && let Some(known) = self.entries.remove(place)
        {
            entry.count += known.count;
        }
        self.entries.push_front(entry);
        self.entries.truncate(ACL_LOG_ENTRIES_MAX);
    }

    pub(crate) fn entries(&self) -> impl ExactSizeIterator<Item = &Entry> {
        self.entries.iter()
    }

    pub(crate) fn clear(&mut self) {
        self.entries.clear();
    }
}
