//! What all threads of a server share.

use std::sync::Arc;

use super::{Message, Threads};
use crate::access::Users;
use crate::diagnostics::Diagnostics;
use crate::large_writes::LargeWrites;
use crate::monitors::Monitors;
use crate::observers::Observers;
use crate::parameters::Parameters;
use crate::pause::Pause;
use crate::purge_queue::PurgeQueue;
use crate::saver::Saver;
use crate::scripts::Scripts;
use crate::settings::ServeSettings;
use crate::store::Store;
use crate::subscriptions::Subscriptions;

/// What all threads of a server share: each field owns what it is about, and this owns nothing but
/// them.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) threads: Threads,
    pub(crate) diagnostics: Diagnostics,
    pub(crate) settings: ServeSettings,
    pub(crate) parameters: Parameters,
    pub(crate) users: Users,
    pub(crate) store: Store,
    pub(crate) purges: PurgeQueue,
    pub(crate) saver: Saver,
    pub(crate) large_writes: LargeWrites,
    pub(crate) observers: Observers,
    pub(crate) subscriptions: Subscriptions,
    pub(crate) monitors: Monitors,
    pub(crate) pause: Pause,
    pub(crate) scripts: Scripts,
}

impl Shared {
    /// Of a server that starts now with these settings, on the port `port`.
    pub(crate) fn new(
        store: Store,
        users: Users,
        settings: ServeSettings,
        threads: Threads,
        diagnostics: Diagnostics,
        port: u16,
    ) -> Arc<Self> {
        let dir = settings.dir.display().to_string();
        let thread_count = threads.mailboxes.len();
        Arc::new(Self {
            parameters: Parameters::new(&settings, port, &dir, store.db.stats().durability),
            saver: Saver::new(&store, &threads.processors),
            large_writes: LargeWrites::new(store.engines.clone(), &threads.processors),
            monitors: Monitors::new(thread_count),
            purges: PurgeQueue::new(),
            observers: Observers::default(),
            subscriptions: Subscriptions::default(),
            pause: Pause::default(),
            scripts: Scripts::default(),
            threads,
            diagnostics,
            settings,
            users,
            store,
        })
    }

    /// Whether what has expired is not to be removed now, since that would be a write.
    pub(crate) fn is_expiry_held(&self) -> bool {
        self.pause.holds_expiry(self.store.clock.now().as_millis() as u64)
    }

    /// Ends every thread.
    pub(crate) fn end(&self) {
        self.diagnostics.log.note_once(&self.threads.is_ending, "stopping");
        self.threads.mailboxes.iter().for_each(|mailbox| mailbox.send(Message::Stop));
    }
}
