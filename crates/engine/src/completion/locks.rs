//! Locks on keys, for callers that read before they write.
//!
//! Keys share stripes by their hash; a stripe is one byte:
//!
//! ```text
//!            0 free   1 held   2 held, and others stand in line
//!   acquire  0 -> 1            else, under `lines`: -> 2, and stand in line (hold it, if it was 0)
//!   release  1 -> 0            else, under `lines`: the first in line holds it; 1 if none is left
//! ```
//! Only a thread that has locked `lines` makes a byte 2 or changes one that is 2. So no caller
//! passes the first in line: first come, first served. Stripes are acquired in ascending order, all
//! of a call's before it answers, so that no two callers wait for each other.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::{Completion, CompletionSender};
use crate::sync::{AtomicU8, Mutex, MutexGuard, Ordering};
use crate::{Outcome, Ticket};

const FREE: u8 = 0;
const HELD: u8 = 1;
const WANTED: u8 = 2;

/// Stripes of a table: keys that are locked at the same moment seldom share a stripe.
#[cfg(not(loom))]
const STRIPE_COUNT: u32 = 1 << 14;
#[cfg(loom)]
const STRIPE_COUNT: u32 = 2;

/// The locks of one database, for engines to embed.
#[derive(Debug)]
pub struct LockTable {
    stripes: Box<[AtomicU8]>,
    lines: Mutex<BTreeMap<u32, VecDeque<Waiter>>>,
}

/// Exclusive locks on the keys of one [`crate::Session::lock`], until dropped.
///
/// What a session got for the keys it named, owned by the code that reads and writes them next. May
/// be dropped on any thread. They keep out other calls that lock one of their keys; reads and
/// writes do not look at locks.
#[derive(Debug)]
#[must_use = "locks that are dropped are open"]
pub struct KeyLocks {
    table: Arc<LockTable>,
    stripes: Stripes,
}

/// Stripes in ascending order, each once. One key, the common case, takes no allocation.
#[derive(Debug)]
enum Stripes {
    One(u32),
    Many(Vec<u32>),
    All,
}

impl Stripes {
    fn get(&self, index: usize) -> Option<u32> {
        match self {
            Stripes::One(stripe) => (index == 0).then_some(*stripe),
            Stripes::Many(stripes) => stripes.get(index).copied(),
            Stripes::All => u32::try_from(index).ok().filter(|stripe| *stripe < STRIPE_COUNT),
        }
    }
}

/// A call that stands in line, and the stripes it needs.
#[derive(Debug)]
struct Waiter {
    stripes: Stripes,
    /// How many of them are held already.
    held: usize,
    ticket: Ticket,
    session: CompletionSender,
}

impl LockTable {
    /// Locks, all of them free.
    pub fn new() -> Arc<Self> {
        let stripes = (0..STRIPE_COUNT).map(|_| AtomicU8::new(FREE)).collect();
        Arc::new(Self { stripes, lines: Mutex::new(BTreeMap::new()) })
    }

    /// Locks the keys with these hashes: at once, or later as [`Completion::Locked`] at `session`
    /// under a ticket that `ticket` draws. Hashes must be evenly spread in all bits. Never blocks.
    pub fn lock(
        self: &Arc<Self>,
        hashes: impl ExactSizeIterator<Item = u64>,
        session: &CompletionSender,
        ticket: impl FnOnce() -> Ticket,
    ) -> Outcome<KeyLocks> {
        self.lock_stripes(stripes_of(hashes), session, ticket)
    }

    /// Locks every key there is or could be; otherwise as [`lock`](Self::lock). Takes each stripe
    /// once.
    pub fn lock_all(
        self: &Arc<Self>,
        session: &CompletionSender,
        ticket: impl FnOnce() -> Ticket,
    ) -> Outcome<KeyLocks> {
        self.lock_stripes(Stripes::All, session, ticket)
    }

    fn lock_stripes(
        self: &Arc<Self>,
        stripes: Stripes,
        session: &CompletionSender,
        ticket: impl FnOnce() -> Ticket,
    ) -> Outcome<KeyLocks> {
        let mut held = 0;
        while let Some(stripe) = stripes.get(held) {
            if self.stripe(stripe).compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_err()
            {
                let ticket = ticket();
                let waiter = Waiter { stripes, held, ticket, session: session.clone() };
                let granted = self.stand_in_line(waiter, &mut self.lock_lines());
                return match granted {
                    Some((_, locks)) => {
                        // It became free in between. The ticket is drawn: it must complete.
                        session.send(ticket, Completion::Locked(locks));
                        Outcome::Pending(ticket)
                    }
                    None => Outcome::Pending(ticket),
                };
            }
            held += 1;
        }
        Outcome::Done(KeyLocks { table: Arc::clone(self), stripes })
    }

    /// Acquires what `waiter` still needs, or lets it stand in line. Answers its locks once it has
    /// all.
    fn stand_in_line(
        self: &Arc<Self>,
        mut waiter: Waiter,
        lines: &mut MutexGuard<'_, BTreeMap<u32, VecDeque<Waiter>>>,
    ) -> Option<(Waiter, KeyLocks)> {
        while let Some(stripe) = waiter.stripes.get(waiter.held) {
            if self.stripe(stripe).swap(WANTED, Ordering::Acquire) != FREE {
                lines.entry(stripe).or_default().push_back(waiter);
                return None;
            }
            // A stripe that was free has no line.
            self.stripe(stripe).store(HELD, Ordering::Relaxed);
            waiter.held += 1;
        }
        let stripes = std::mem::replace(&mut waiter.stripes, Stripes::Many(Vec::new()));
        Some((waiter, KeyLocks { table: Arc::clone(self), stripes }))
    }

    fn release(self: &Arc<Self>, stripe: u32) {
        let word = self.stripe(stripe);
        if word.compare_exchange(HELD, FREE, Ordering::Release, Ordering::Relaxed).is_ok() {
            return;
        }
        let granted = {
            let mut lines = self.lock_lines();
            let line = lines.entry(stripe).or_default();
            let first = line.pop_front();
            if line.is_empty() {
                lines.remove(&stripe);
                word.store(if first.is_some() { HELD } else { FREE }, Ordering::Release);
            }
            first.and_then(|mut waiter| {
                waiter.held += 1;
                self.stand_in_line(waiter, &mut lines)
            })
        };
        // Outside of the lock: a queue whose session is gone drops the locks as they arrive.
        if let Some((waiter, locks)) = granted {
            waiter.session.send(waiter.ticket, Completion::Locked(locks));
        }
    }

    fn stripe(&self, stripe: u32) -> &AtomicU8 {
        &self.stripes[stripe as usize]
    }

    fn lock_lines(&self) -> MutexGuard<'_, BTreeMap<u32, VecDeque<Waiter>>> {
        self.lines.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

fn stripes_of(mut hashes: impl ExactSizeIterator<Item = u64>) -> Stripes {
    let stripe_of = |hash: u64| (hash % u64::from(STRIPE_COUNT)) as u32;
    if hashes.len() == 1
        && let Some(hash) = hashes.next()
    {
        return Stripes::One(stripe_of(hash));
    }
    let mut stripes: Vec<u32> = hashes.map(stripe_of).collect();
    stripes.sort_unstable();
    stripes.dedup();
    Stripes::Many(stripes)
}

impl Drop for KeyLocks {
    fn drop(&mut self) {
        let mut index = 0;
        while let Some(stripe) = self.stripes.get(index) {
            self.table.release(stripe);
            index += 1;
        }
    }
}
