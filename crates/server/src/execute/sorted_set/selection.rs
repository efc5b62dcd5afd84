//! The members of a range, one after the other.

use firn_format::datatype::{Field, FieldKind};

use super::extent::{Extent, Order};
use super::scored::{Members, missing};
use crate::execute::index::span;
use crate::failure::Result;
use crate::transaction::{Collection, Transaction};
use firn_format::datatype::Score;

/// A walk over some members of a sorted set.
pub(super) struct Selection {
    members: Option<Members>,
    left: u64,
}

/// Which of the members of a range are meant: some are skipped, then some are taken. Negative numbers mean none and all.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limit {
    pub(super) offset: i64,
    pub(super) count: i64,
}

impl Limit {
    pub(super) const NONE: Self = Self { offset: 0, count: -1 };
}

impl Selection {
    const NOTHING: Self = Self { members: None, left: 0 };

    /// Opens the walk. A range of scores or names is found by a seek, and what is skipped of it is walked over; of ranks
    /// the first one is walked to from the nearer end.
    pub(super) async fn open(
        transaction: &mut Transaction,
        set: &Collection,
        extent: Extent<'_>,
        order: Order,
        limit: Limit,
    ) -> Result<Self> {
        let (mut start, mut end) = (Vec::new(), Vec::new());
        match extent {
            Extent::Ranks(first, last) => {
                let ranks = span(set.count(), first, last);
                let members = match ranks.is_empty() {
                    true => None,
                    false => Some(from_rank(transaction, set, ranks.start, order).await?),
                };
                return Ok(Self { members, left: ranks.end - ranks.start });
            }
            Extent::Scores(min, max) => set.id().score_range(min, max, &mut start, &mut end),
            Extent::Names(min, max) => {
                let mut all = Members::all(transaction, set, Order::Rising)?;
                // All members are supposed to have one score.
                let (_, score) = all.next().await?.ok_or_else(missing)?;
                set.id().lex_range(score, min, max, &mut start, &mut end);
            }
            Extent::Nothing => return Ok(Self::NOTHING),
        }
        let Ok(offset) = u64::try_from(limit.offset) else { return Ok(Self::NOTHING) };
        if start >= end {
            return Ok(Self::NOTHING);
        }
        let mut members = Members::between(transaction, set, (&start, &end), order)?;
        members.skip(offset).await?;
        Ok(Self { members: Some(members), left: u64::try_from(limit.count).unwrap_or(u64::MAX) })
    }

    /// The next member and its score.
    pub(super) async fn next(&mut self) -> Result<Option<(&[u8], Score)>> {
        match &mut self.members {
            Some(members) if self.left > 0 => {
                self.left -= 1;
                members.next().await
            }
            _ => Ok(None),
        }
    }
}

/// A walk that begins at the member with this rank in its order.
async fn from_rank(
    transaction: &mut Transaction,
    set: &Collection,
    rank: u64,
    order: Order,
) -> Result<Members> {
    let behind = set.count().saturating_sub(rank + 1);
    if rank <= behind {
        let mut members = Members::all(transaction, set, order)?;
        members.skip(rank).await?;
        return Ok(members);
    }
    let mut members = Members::all(transaction, set, order.reversed())?;
    members.skip(behind).await?;
    let (member, score) = members.next().await?.ok_or_else(missing)?;
    let mut key = set.field_key(Field::ByScore(score, member));
    let (mut start, mut end) = (Vec::new(), Vec::new());
    set.id().kind_range(FieldKind::ByScore, &mut start, &mut end);
    match order {
        Order::Rising => Members::between(transaction, set, (&key, &end), order),
        Order::Falling => {
            // The first key after it.
            key.push(0);
            Members::between(transaction, set, (&start, &key), order)
        }
    }
}
