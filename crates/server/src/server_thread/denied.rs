//! Clients that are shown or sent what they may not see any more, since their user's rights have
//! changed.

use std::ops::ControlFlow;
use std::rc::Rc;

use super::ServerThread;
use crate::access::User;
use crate::client::Client;
use crate::subscriptions::Topic;

/// Bytes of names and patterns that are compared before others have a turn.
const COMPARED_BYTES_MAX: usize = 256 << 10;

/// Where a check of a thread's clients goes on.
#[derive(Debug, Default)]
pub(crate) struct DeniedStorage {
    /// Number of the client's task.
    id: usize,
    /// The last of its subscriptions that was looked at.
    after: Option<(Topic, Vec<u8>)>,
}

impl ServerThread {
    /// Closes clients of this thread, from `place` on, that are of the user called `name` and
    /// receive what it may not see any more. Looks at so few subscriptions that it takes a short
    /// time. Answers where to go on, or `None` if that was all.
    ///
    /// Clients that come meanwhile have the rights of now, and what is subscribed to now is looked
    /// at by itself.
    pub(crate) fn close_denied(&self, name: &[u8], place: DeniedStorage) -> Option<DeniedStorage> {
        let (users, mut after) = (&self.shared.users, place.after);
        let mut budget = COMPARED_BYTES_MAX;
        for id in place.id..self.clients.len() {
            let after = after.take();
            let Some(client) = self.clients.get(id as u32).filter(|client| !client.is_closing.get()) else {
                continue;
            };
            let is_observer = client.is_subscriber() || client.is_monitor.get();
            if !is_observer || client.user_name() != name || client.login.is_unlimited(users) {
                continue;
            }
            let Some(user) = client.login.user(users) else {
                self.close_soon(&client);
                continue;
            };
            match check(&client, &user, after, &mut budget) {
                Verdict::Allowed => {}
                Verdict::Denied => self.close_soon(&client),
                Verdict::Unfinished(topic, name) => {
                    return Some(DeniedStorage { id, after: Some((topic, name)) });
                }
            }
        }
        None
    }
}

enum Verdict {
    Allowed,
    Denied,
    /// Up to this subscription everything is allowed.
    Unfinished(Topic, Vec<u8>),
}

/// Whether the client may be shown and sent what it is, from the subscription behind `after` on.
fn check(client: &Rc<Client>, user: &User, after: Option<(Topic, Vec<u8>)>, budget: &mut usize) -> Verdict {
    if client.is_monitor.get() && !user.may_monitor() {
        return Verdict::Denied;
    }
    let subscriptions = client.subscriptions.borrow();
    let looked = subscriptions.try_each_after(after, |topic, name| {
        if !user.allows_channel(topic == Topic::Pattern, name) {
            return ControlFlow::Break(Verdict::Denied);
        }
        let bytes = NAME_COST_BYTES + user.compared_bytes(name.len());
        *budget = budget.saturating_sub(bytes);
        match *budget {
            0 => ControlFlow::Break(Verdict::Unfinished(topic, name.to_vec())),
            _ => ControlFlow::Continue(()),
        }
    });
    looked.break_value().unwrap_or(Verdict::Allowed)
}

/// What a name costs beside its bytes, in bytes compared.
const NAME_COST_BYTES: usize = 128;
