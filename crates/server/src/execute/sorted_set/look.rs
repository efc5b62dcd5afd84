//! What a sorted set says of its members.

use firn_format::datatype::{Field, Tag};

use super::extent::Order;
use super::scored::{Members, missing, score_of};
use crate::execute::call::Call;
use crate::failure::Result;
use crate::server_thread::Turns;

/// `ZCARD key`
pub(super) async fn count(call: &mut Call<'_>) -> Result<()> {
    let set = call.collection(1, Tag::SortedSet).await?;
    call.reply(|reply| reply.integer(set.map_or(0, |set| set.count()) as i64));
    Ok(())
}

/// `ZSCORE key member`
pub(super) async fn score(call: &mut Call<'_>) -> Result<()> {
    let member = call.argument(2);
    let score = match call.collection(1, Tag::SortedSet).await? {
        Some(set) => score_of(call.transaction, &set, member).await?,
        None => None,
    };
    call.reply(|reply| match score {
        Some(score) => reply.double(score.get()),
        None => reply.null(),
    });
    Ok(())
}

/// `ZMSCORE key member [member ...]`
pub(super) async fn scores(call: &mut Call<'_>) -> Result<()> {
    let set = call.collection(1, Tag::SortedSet).await?;
    let members = call.arguments.from(2);
    call.reply(|reply| reply.array(members.len()));
    let mut turns = Turns::new(call.thread);
    for member in members.iter() {
        turns.step(member.len()).await;
        let score = match &set {
            Some(set) => score_of(call.transaction, set, member).await?,
            None => None,
        };
        call.reply(|reply| match score {
            Some(score) => reply.double(score.get()),
            None => reply.null(),
        });
    }
    Ok(())
}

/// `ZRANK key member`, `ZREVRANK key member`: walks from the member to both ends at once, until it
/// is at one. Costs twice as many steps as the member is away from the nearer end.
pub(super) async fn rank(call: &mut Call<'_>, order: Order) -> Result<()> {
    let member = call.argument(2);
    let mut rank = None;
    if let Some(set) = call.collection(1, Tag::SortedSet).await?
        && let Some(score) = score_of(call.transaction, &set, member).await?
    {
        let (mut first, mut after) = (Vec::new(), Vec::new());
        set.id().kind_range(firn_format::datatype::FieldKind::ByScore, &mut first, &mut after);
        let own = set.field_key(Field::ByScore(score, member));
        let mut below = Members::between(call.transaction, &set, (&first, &own), Order::Falling)?;
        let mut above = Members::between(call.transaction, &set, (&own, &after), Order::Rising)?;
        // The member itself.
        above.skip(1).await?;
        let mut steps = 0;
        let from_below = loop {
            if below.next().await?.is_none() {
                break Some(steps);
            }
            if above.next().await?.is_none() {
                break set.count().checked_sub(steps + 1);
            }
            steps += 1;
        };
        let from_below = from_below.ok_or_else(missing)?;
        rank = match order {
            Order::Rising => Some(from_below),
            Order::Falling => Some(set.count().checked_sub(from_below + 1).ok_or_else(missing)?),
        };
    }
    call.reply(|reply| match rank {
        Some(rank) => reply.integer(rank as i64),
        None => reply.null(),
    });
    Ok(())
}
