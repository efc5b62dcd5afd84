//! Clients that wait are served within the command that gives them something, before its client's
//! next one.
//!
//! After a command has written, it still holds its locks. The clients that wait for the keys it has
//! changed look at them in turn. The longest waiting is first; that ends when nothing or no client
//! is left. What a served client changes itself (BLMOVE) is handed on in the same way. So no other
//! command, of the pusher or of other clients, sees what belongs to a waiting client.

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use firn_engine::KeyLocks;

use crate::address::ClientAddress;
use crate::handover::{Cover, Handover, Taken};
use crate::lines::LineKey;
use crate::server_thread::{Message, ServerThread};

/// Lets the clients that wait for the keys `ready` look at them, and returns when all have. `locks`
/// are those of `cover`.
pub(super) async fn hand_over(
    thread: &Rc<ServerThread>,
    ready: Vec<LineKey>,
    locks: Option<KeyLocks>,
    cover: impl FnOnce() -> Cover,
) {
    if ready.is_empty() {
        return;
    }
    let uncovered = hand_keys(thread, ready, Some(Arc::new(cover()))).await;
    drop(locks);
    // Clients whose keys or destinations were not locked: they lock for themselves, still before
    // the next command of this client.
    let left = hand_keys(thread, uncovered, None).await;
    debug_assert!(left.is_empty(), "what locks for itself is covered");
}

/// Hands each key to the clients in line for it. Answers the keys whose locks are not held, and
/// those where a client needs locks that are not.
async fn hand_keys(
    thread: &Rc<ServerThread>,
    ready: Vec<LineKey>,
    cover: Option<Arc<Cover>>,
) -> Vec<LineKey> {
    let mut ready = VecDeque::from(ready);
    let mut uncovered = Vec::new();
    let (lines, keyspace) = (&thread.shared.observers.lines, thread.shared.store.keyspaces.keys);
    while let Some(key) = ready.pop_front() {
        if cover.as_ref().is_some_and(|cover| !cover.has(keyspace, &key.engine_key(&cover.databases()))) {
            uncovered.push(key);
            continue;
        }
        let mut next = lines.first(&key);
        // Behind one that was passed or served: whether it has left the line makes no difference.
        while let Some((place, waiter)) = next {
            match hand(thread, waiter, cover.clone()).await {
                Taken::Some(changed) => {
                    let is_new = |changed: &LineKey| *changed != key && !ready.contains(changed);
                    let changed: Vec<LineKey> = changed.into_iter().filter(is_new).collect();
                    ready.extend(changed);
                }
                Taken::Nothing => break,
                Taken::Passed => {}
                Taken::Uncovered => {
                    uncovered.push(key);
                    break;
                }
            }
            next = lines.behind(&key, place);
        }
    }
    uncovered
}

/// Lets one client look, and waits until it has.
async fn hand(thread: &Rc<ServerThread>, waiter: ClientAddress, cover: Option<Arc<Cover>>) -> Taken {
    let (handover, handed) = Handover::new(thread.waker(), cover);
    let message = Message::Hand { id: waiter.id, number: waiter.number, handed };
    thread.shared.threads.mailboxes[waiter.thread].send(message);
    thread.until(|| handover.is_answered()).await;
    handover.take_answer().unwrap_or(Taken::Passed)
}
