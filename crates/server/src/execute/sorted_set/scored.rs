//! Members of a sorted set: written, found by name, and walked over in the order of their scores.

use firn_engine::{Direction, ScanRange};
use firn_format::datatype::{Field, Score, Tag, is_member};
use firn_protocol::resp::{Protocol, Reply};

use super::extent::Order;
use crate::execute::call::Call;
use crate::failure::{Failure, Result};
use crate::server_thread::Turns;
use crate::transaction::{Collection, Cursor, Transaction};

/// The score of a member; `None` if the set has no such member.
pub(super) async fn score_of(
    transaction: &mut Transaction,
    set: &Collection,
    member: &[u8],
) -> Result<Option<Score>> {
    if !is_member(member) {
        return Ok(None);
    }
    let score = transaction.field(set, Field::ScoredMember(member)).await?;
    score.as_deref().map(decode_score).transpose()
}

/// A score as it is stored.
pub(super) fn decode_score(bytes: &[u8]) -> Result<Score> {
    Score::decode(bytes).map_err(|error| Failure::of(format!("ERR a score is damaged: {error}")))
}

/// Gives `member`, which had the score `old` (`None` = it was not there), the score `new`.
pub(super) fn put(
    transaction: &mut Transaction,
    set: &mut Collection,
    member: &[u8],
    old: Option<Score>,
    new: Score,
) {
    match old {
        Some(old) if old == new => return,
        Some(old) => transaction.delete_field(set, Field::ByScore(old, member)),
        None => set.add_one(),
    }
    transaction.put_field(set, Field::ScoredMember(member), &new.to_bytes());
    transaction.put_field(set, Field::ByScore(new, member), &[]);
}

/// Removes a member that has this score.
pub(super) fn delete(transaction: &mut Transaction, set: &mut Collection, member: &[u8], score: Score) {
    transaction.delete_field(set, Field::ScoredMember(member));
    transaction.delete_field(set, Field::ByScore(score, member));
    set.remove_one();
}

/// Lets these members stand at the key that is the argument at `index`, instead of what there was;
/// nothing if there are none. Each is named once.
pub(super) async fn replace(call: &mut Call<'_>, index: usize, members: &[(Vec<u8>, Score)]) -> Result<()> {
    let entry = call.entry(index).await?;
    if members.is_empty() {
        return call.transaction.remove(&entry).await;
    }
    let mut set = call.transaction.create(&entry, Tag::SortedSet).await?;
    let mut turns = Turns::new(call.thread);
    for (member, score) in members {
        put(call.transaction, &mut set, member, None, *score);
        turns.step(member.len()).await;
    }
    call.transaction.save(&mut set);
    Ok(())
}

/// A walk over members in the order of their scores. It sees what was there when it was opened.
pub(super) struct Members {
    cursor: Cursor,
    set: Collection,
}

impl Members {
    /// The walk over the engine's keys from `start` to before `end`, rising or falling.
    pub(super) fn between(
        transaction: &mut Transaction,
        set: &Collection,
        (start, end): (&[u8], &[u8]),
        order: Order,
    ) -> Result<Self> {
        let direction = match order {
            Order::Rising => Direction::Forward,
            Order::Falling => Direction::Backward,
        };
        let range = ScanRange { direction, ..ScanRange::between(start, end) };
        let cursor = transaction.scan(transaction.keyspaces().fields, range)?;
        Ok(Self { cursor, set: set.clone() })
    }

    /// The walk over all members.
    pub(super) fn all(transaction: &mut Transaction, set: &Collection, order: Order) -> Result<Self> {
        let (mut start, mut end) = (Vec::new(), Vec::new());
        set.id().kind_range(firn_format::datatype::FieldKind::ByScore, &mut start, &mut end);
        Self::between(transaction, set, (&start, &end), order)
    }

    /// Says before the first one that so many will be asked for.
    pub(super) fn expect(&mut self, count: u64) {
        self.cursor.expect(count);
    }

    /// The next member and its score.
    pub(super) async fn next(&mut self) -> Result<Option<(&[u8], Score)>> {
        let Some((key, _)) = self.cursor.next().await? else { return Ok(None) };
        match self.set.field_of(key)? {
            Field::ByScore(score, member) => Ok(Some((member, score))),
            _ => Err(missing()),
        }
    }

    /// Goes past `count` members.
    pub(super) async fn skip(&mut self, count: u64) -> Result<()> {
        for _ in 0..count {
            if self.cursor.next().await?.is_none() {
                break;
            }
        }
        Ok(())
    }
}

pub(super) fn missing() -> Failure {
    Failure::new("ERR a member of a sorted set is missing: the set is damaged")
}

/// Begins a reply of `count` members, each with its score or without.
pub(super) fn begin_members(reply: &mut Reply<'_>, count: usize, has_scores: bool) {
    let is_flat = has_scores && reply.protocol() == Protocol::Resp2;
    reply.array(if is_flat { 2 * count } else { count });
}

/// A member of such a reply: with its score that is a pair, or two values in version 2.
pub(super) fn reply_member(reply: &mut Reply<'_>, member: &[u8], score: Option<Score>) {
    if score.is_some() && reply.protocol() == Protocol::Resp3 {
        reply.array(2);
    }
    reply.bulk(member);
    if let Some(score) = score {
        reply.double(score.get());
    }
}
