//! The members of a range, one after the other.

use std::ops::{Bound, Range};

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
    /// The members have several scores: which of their names are meant, and whether one was met.
    names: Option<Names>,
}

/// A range of names among members that do not lie in the order of their names.
struct Names {
    /// Where the walk begins to count, and where it ends.
    first: Bound<Vec<u8>>,
    last: Bound<Vec<u8>>,
    order: Order,
    is_met: bool,
    /// The member that was met last.
    current: Vec<u8>,
}

impl Names {
    fn new(min: Bound<&[u8]>, max: Bound<&[u8]>, order: Order) -> Self {
        let (first, last) = match order {
            Order::Rising => (min, max),
            Order::Falling => (max, min),
        };
        let owned = |bound: Bound<&[u8]>| bound.map(<[u8]>::to_vec);
        Self { first: owned(first), last: owned(last), order, is_met: false, current: Vec::new() }
    }

    /// Whether there is anything to look for, as Redis decides by the members of the lowest and of
    /// the highest score.
    fn may_meet(&self, lowest: &[u8], highest: &[u8]) -> bool {
        let (first, last) = match self.order {
            Order::Rising => (highest, lowest),
            Order::Falling => (lowest, highest),
        };
        is_within(&self.first, first, self.order) && is_within(&self.last, last, self.order.reversed())
    }

    /// Whether a member is among them (`Some(true)`), comes before them (`Some(false)`), or ends
    /// them (`None`).
    fn meets(&mut self, member: &[u8]) -> Option<bool> {
        let is_past_first = is_within(&self.first, member, self.order);
        let is_before_last = is_within(&self.last, member, self.order.reversed());
        self.is_met |= is_past_first;
        match self.is_met {
            false => Some(false),
            true => is_before_last.then_some(true),
        }
    }
}

/// Whether a member lies on the inner side of the bound at which a walk in this order would begin.
fn is_within(bound: &Bound<Vec<u8>>, member: &[u8], order: Order) -> bool {
    match (bound, order) {
        (Bound::Unbounded, _) => true,
        (Bound::Included(name), Order::Rising) => member >= name.as_slice(),
        (Bound::Included(name), Order::Falling) => member <= name.as_slice(),
        (Bound::Excluded(name), Order::Rising) => member > name.as_slice(),
        (Bound::Excluded(name), Order::Falling) => member < name.as_slice(),
    }
}

/// Which of the members of a range are meant: some are skipped, then some are taken. Negative
/// numbers mean none and all.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limit {
    pub(super) offset: i64,
    pub(super) count: i64,
}

impl Limit {
    pub(super) const NONE: Self = Self { offset: 0, count: -1 };
}

impl Selection {
    const NOTHING: Self = Self { members: None, left: 0, names: None };

    /// Opens the walk. A range of scores or names is found by a seek, and what is skipped of it is
    /// walked over. The first one of ranks is walked to from the nearer end.
    ///
    /// Where members have several scores, their names lie in no order. A range of names is walked
    /// to then. As in Redis, it begins at the first member within its lower end. It ends before the
    /// first one after it beyond its upper end.
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
                    false => Some(from_rank(transaction, set, ranks.clone(), order).await?),
                };
                return Ok(Self { members, left: ranks.end - ranks.start, names: None });
            }
            Extent::Scores(min, max) => set.id().score_range(min, max, &mut start, &mut end),
            Extent::Names(min, max) => {
                let ((lowest, score), (highest, other)) = ends(transaction, set).await?;
                if score != other {
                    let names = Names::new(min, max, order);
                    return match names.may_meet(&lowest, &highest) {
                        true => Self::of_names(transaction, set, names, limit).await,
                        false => Ok(Self::NOTHING),
                    };
                }
                set.id().lex_range(score, min, max, &mut start, &mut end);
            }
            Extent::Nothing => return Ok(Self::NOTHING),
        }
        let Ok(offset) = u64::try_from(limit.offset) else { return Ok(Self::NOTHING) };
        if start >= end {
            return Ok(Self::NOTHING);
        }
        let mut members = Members::between(transaction, set, (&start, &end), order)?;
        if let Ok(count) = u64::try_from(limit.count) {
            members.expect(offset.saturating_add(count));
        }
        members.skip(offset).await?;
        let left = u64::try_from(limit.count).unwrap_or(u64::MAX);
        Ok(Self { members: Some(members), left, names: None })
    }

    /// A walk over members whose names are these.
    async fn of_names(
        transaction: &mut Transaction,
        set: &Collection,
        names: Names,
        limit: Limit,
    ) -> Result<Self> {
        let Ok(offset) = u64::try_from(limit.offset) else { return Ok(Self::NOTHING) };
        let members = Some(Members::all(transaction, set, names.order)?);
        let mut selection = Self { members, left: u64::MAX, names: Some(names) };
        if offset > 0 {
            if selection.next().await?.is_none() {
                return Ok(Self::NOTHING);
            }
            // As in Redis, what is skipped is not asked whether it ends the range.
            if let Some(members) = &mut selection.members {
                members.skip(offset - 1).await?;
            }
        }
        selection.left = u64::try_from(limit.count).unwrap_or(u64::MAX);
        Ok(selection)
    }

    /// The next member and its score.
    pub(super) async fn next(&mut self) -> Result<Option<(&[u8], Score)>> {
        let Some(members) = self.members.as_mut().filter(|_| self.left > 0) else { return Ok(None) };
        self.left -= 1;
        let Some(names) = &mut self.names else { return members.next().await };
        let mut found = None;
        while let Some((member, score)) = members.next().await? {
            match names.meets(member) {
                Some(true) => {
                    names.current.clear();
                    names.current.extend_from_slice(member);
                    found = Some(score);
                    break;
                }
                Some(false) => {}
                None => {
                    self.left = 0;
                    break;
                }
            }
        }
        Ok(found.map(|score| (names.current.as_slice(), score)))
    }
}

/// The member with the lowest score and the one with the highest.
async fn ends(
    transaction: &mut Transaction,
    set: &Collection,
) -> Result<((Vec<u8>, Score), (Vec<u8>, Score))> {
    let mut rising = Members::all(transaction, set, Order::Rising)?;
    rising.expect(1);
    let (lowest, score) = rising.next().await?.ok_or_else(missing)?;
    let mut falling = Members::all(transaction, set, Order::Falling)?;
    falling.expect(1);
    let (highest, other) = falling.next().await?.ok_or_else(missing)?;
    Ok(((lowest.to_vec(), score), (highest.to_vec(), other)))
}

/// A walk that begins at the member with the first of these ranks in its order.
async fn from_rank(
    transaction: &mut Transaction,
    set: &Collection,
    ranks: Range<u64>,
    order: Order,
) -> Result<Members> {
    let rank = ranks.start;
    let behind = set.count().saturating_sub(rank + 1);
    if rank <= behind {
        let mut members = Members::all(transaction, set, order)?;
        members.expect(ranks.end);
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
