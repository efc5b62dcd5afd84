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

/// How far a check of a thread's clients has come.
#[derive(Debug, Default)]
pub(crate) struct DeniedScan {
    /// Number of the client's task.
    id: usize,
    /// The last of its subscriptions that was looked at.
    after: Option<(Topic, Vec<u8>)>,
}

impl ServerThread {
    /// Closes clients of the user `name` that receive what the user may not see any more. Goes on
    /// where `scan` ended, and looks at so few subscriptions that it takes a short time. Returns
    /// where to go on, or `None` once all clients of this thread were checked.
    ///
    /// Clients that connect meanwhile have the new rights, and each new subscription is checked as
    /// it is made.
    pub(crate) fn close_denied(&self, name: &[u8], scan: DeniedScan) -> Option<DeniedScan> {
        let (users, mut after) = (&self.shared.users, scan.after);
        let mut budget = COMPARED_BYTES_MAX;
        for id in scan.id..self.clients.len() {
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
                    return Some(DeniedScan { id, after: Some((topic, name)) });
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
