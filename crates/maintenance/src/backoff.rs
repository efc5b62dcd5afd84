//! What failed and may work later: which units may begin now.
//!
//! ```text
//!   a unit of a kind fails          ─► units of that kind rest, all others go on
//!   a unit finds no room for files  ─► nothing that writes files begins, until a unit does write,
//!                                      or something is removed
//! ```
//! Each rest is 1 s after the first failure, and twice as long after each that follows, up to 30 s.
//!
//! Owned by [`Schedule`](crate::Schedule), and touched under its lock alone.
//!
//! # Invariants
//! 1. A failure of one kind says nothing of another, but for room: established in
//!    [`Backoff::refuse`].
//! 2. A unit with room [kept](Room::Kept) for it is not held up by one without: established in
//!    [`Backoff::may_use_kept_room`].

use std::collections::BTreeMap;
use std::time::Duration;

use firn_engine::Error;

/// The room on the disk that a unit of work needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// It writes no files.
    None,
    /// What others leave.
    Left,
    /// What others leave for it: it makes room in memory, and writers wait for that.
    Kept,
}

/// Units that failed, by kinds `K`.
#[derive(Debug)]
pub struct Backoff<K> {
    /// The last unit with room kept for it found none, and of which kind it was.
    kept: Option<(K, Refusal)>,
    /// The last unit without found none.
    left: Option<(K, Refusal)>,
    /// Kinds of which the last unit failed.
    resting: BTreeMap<K, Refusal>,
}

/// A unit failed, and one like it may come off later.
#[derive(Debug)]
struct Refusal {
    why: Error,
    /// A moment of the engine's clock. What the unit needs may be there by then, though this
    /// process freed nothing.
    until: Duration,
    /// How long after the failure that is.
    rest: Duration,
}

/// A unit that is refused again may write much before it is, all for nothing.
const REST_MIN: Duration = Duration::from_secs(1);
const REST_MAX: Duration = Duration::from_secs(30);

impl Refusal {
    /// `before` is what was refused last, with nothing done since.
    fn new(why: Error, before: Option<&Self>, now: Duration) -> Self {
        let rest = before.map_or(REST_MIN, |before| (before.rest * 2).min(REST_MAX));
        Self { why, until: now + rest, rest }
    }

    fn is_over(&self, now: Duration) -> bool {
        now >= self.until
    }
}

impl<K> Default for Backoff<K> {
    fn default() -> Self {
        Self { kept: None, left: None, resting: BTreeMap::new() }
    }
}

impl<K: Copy + Ord> Backoff<K> {
    /// Whether units that write files may be tried at `now`.
    pub fn may_write(&self, now: Duration) -> bool {
        self.may_use_kept_room(now) && self.left.as_ref().is_none_or(|(_, refusal)| refusal.is_over(now))
    }

    /// Whether units with room kept for them may.
    pub fn may_use_kept_room(&self, now: Duration) -> bool {
        self.kept.as_ref().is_none_or(|(_, refusal)| refusal.is_over(now))
    }

    /// Whether units of `kind` may be tried at `now`.
    pub fn may_try(&self, kind: K, now: Duration) -> bool {
        self.resting_at(kind, now).is_none()
    }

    /// Why units of `kind` may not be tried at `now`.
    pub fn resting_at(&self, kind: K, now: Duration) -> Option<&Error> {
        self.resting.get(&kind).filter(|refusal| !refusal.is_over(now)).map(|refusal| &refusal.why)
    }

    /// Whether the last unit of `kind` failed, so that the next one is to be tried in another form.
    pub fn has_failed(&self, kind: K) -> bool {
        self.resting.contains_key(&kind)
    }

    /// Why the last unit of `kind` failed, if it did.
    pub fn last_failure(&self, kind: K) -> Option<&Error> {
        self.resting.get(&kind).map(|refusal| &refusal.why)
    }

    /// Why the last unit with room kept for it found none, if it did.
    pub fn kept_refusal(&self) -> Option<&Error> {
        self.kept.as_ref().map(|(_, refusal)| &refusal.why)
    }

    /// Whether a unit that writes files found no room, and none has written since.
    pub fn is_refused(&self) -> bool {
        self.kept.is_some() || self.left.is_some()
    }

    /// All that was refused or rests, as far as `counts` says of a kind that it does; room first.
    pub fn refusals(&self, counts: impl Fn(&K) -> bool) -> impl Iterator<Item = &Error> {
        let room = self.kept.iter().chain(&self.left).map(|(kind, refusal)| (kind, refusal));
        room.chain(&self.resting).filter(move |(kind, _)| counts(kind)).map(|(_, refusal)| &refusal.why)
    }

    /// Lets no unit of `kind` begin for a while; for longer if the one before failed too.
    pub fn rest(&mut self, kind: K, why: Error, now: Duration) {
        let refusal = Refusal::new(why, self.resting.get(&kind), now);
        self.resting.insert(kind, refusal);
    }

    /// A unit of `kind`, which needs `room`, failed and may be done later. What one that writes
    /// files failed with is taken to be true of all that do, unless its kind rests by now: then why
    /// says nothing of others.
    pub fn refuse(&mut self, kind: K, room: Room, why: Error, now: Duration) {
        let refusal = match room {
            Room::None => return self.rest(kind, why, now),
            _ if !self.may_try(kind, now) => return,
            Room::Left => &mut self.left,
            Room::Kept => &mut self.kept,
        };
        *refusal = Some((kind, Refusal::new(why, refusal.as_ref().map(|(_, before)| before), now)));
    }

    /// A unit of `kind` came off.
    pub fn note_done(&mut self, kind: K) {
        self.resting.remove(&kind);
    }

    /// There is room: everything that writes files may be tried again.
    pub fn forget_room(&mut self) {
        self.kept = None;
        self.left = None;
    }

    /// Units with room kept for them may be tried again.
    pub fn forget_kept_room(&mut self) {
        self.kept = None;
    }

    /// Kinds of which `is_gone` holds have nothing to be tried any more. What one of them was
    /// refused holds up no other either.
    pub fn forget_gone(&mut self, is_gone: impl Fn(&K) -> bool) {
        for refusal in [&mut self.kept, &mut self.left] {
            refusal.take_if(|(kind, _)| is_gone(kind));
        }
        self.forget(is_gone);
    }

    /// Kinds of which `is_meant` holds may be tried at once.
    pub fn forget(&mut self, is_meant: impl Fn(&K) -> bool) {
        self.resting.retain(|kind, _| !is_meant(kind));
    }
}

#[cfg(test)]
mod tests;
