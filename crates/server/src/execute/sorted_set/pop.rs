//! Taking members with the lowest or the highest scores.

use firn_format::datatype::Tag;
use firn_protocol::resp::Protocol;

use super::extent::Order;
use super::scored::{Members, delete, missing};
use crate::execute::blocking::{first_collection, timeout_ms, wait};
use crate::execute::call::Call;
use crate::execute::multi_pop::{MultiPop, pop_count};
use crate::failure::{Failure, Result};
use crate::transaction::Collection;

/// How members stand in a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// Member, score, member, score …
    Flat,
    /// Each with its score as an array of two.
    Pairs,
}

/// `ZPOPMIN key [count]`, `ZPOPMAX key [count]`
pub(super) async fn pop(call: &mut Call<'_>, order: Order) -> Result<()> {
    let count = match call.arguments.len() {
        2 => None,
        3 => Some(pop_count(call, 2)?),
        _ => return Err(Failure::SYNTAX),
    };
    let shape = match count.is_some() && call.protocol == Protocol::Resp3 {
        true => Shape::Pairs,
        false => Shape::Flat,
    };
    match call.collection(1, Tag::SortedSet).await? {
        Some(mut set) if count != Some(0) => {
            let count = count.unwrap_or(1).min(set.count());
            let values = if shape == Shape::Flat { 2 * count } else { count };
            call.reply(|reply| reply.array(values as usize));
            take(call, &mut set, order, count, shape).await
        }
        _ => {
            call.reply(|reply| reply.array(0));
            Ok(())
        }
    }
}

/// Takes `count` members, which are there, and answers them.
async fn take(
    call: &mut Call<'_>,
    set: &mut Collection,
    order: Order,
    count: u64,
    shape: Shape,
) -> Result<()> {
    let mut members = Members::all(call.transaction, set, order)?;
    members.expect(count);
    for _ in 0..count {
        let (member, score) = members.next().await?.ok_or_else(missing)?;
        delete(call.transaction, set, member, score);
        call.reply(|reply| {
            if shape == Shape::Pairs {
                reply.array(2);
            }
            reply.bulk(member);
            reply.double(score.get());
        });
        call.check_reply()?;
    }
    call.transaction.save(set);
    Ok(())
}

fn order_of(word: &[u8]) -> Option<Order> {
    match word.to_ascii_lowercase().as_slice() {
        b"min" => Some(Order::Rising),
        b"max" => Some(Order::Falling),
        _ => None,
    }
}

/// Answers a key and up to `count` members of the set there.
async fn take_with_key(
    call: &mut Call<'_>,
    index: usize,
    mut set: Collection,
    asked: &MultiPop<Order>,
) -> Result<()> {
    let key = call.argument(index);
    let count = asked.count.min(set.count());
    call.reply(|reply| {
        reply.array(2);
        reply.bulk(key);
        reply.array(count as usize);
    });
    take(call, &mut set, asked.end, count, Shape::Pairs).await
}

/// `ZMPOP numkeys key [key ...] MIN|MAX [COUNT count]`
pub(super) async fn pop_from_first(call: &mut Call<'_>) -> Result<()> {
    let asked = MultiPop::of(call, 1, order_of)?;
    match first_collection(call, asked.keys.clone(), Tag::SortedSet).await? {
        Some((index, set)) => take_with_key(call, index, set, &asked).await,
        None => {
            call.reply(|reply| reply.null_array());
            Ok(())
        }
    }
}

/// `BZMPOP timeout numkeys key [key ...] MIN|MAX [COUNT count]`
pub(super) async fn wait_for_some(call: &mut Call<'_>) -> Result<()> {
    let timeout_ms = timeout_ms(call.argument(1))?;
    let asked = MultiPop::of(call, 2, order_of)?;
    match first_collection(call, asked.keys.clone(), Tag::SortedSet).await? {
        Some((index, set)) => take_with_key(call, index, set, &asked).await,
        None => wait(call, asked.keys, timeout_ms).await,
    }
}

/// `BZPOPMIN key [key ...] timeout`, `BZPOPMAX key [key ...] timeout`
pub(super) async fn wait_for_one(call: &mut Call<'_>, order: Order) -> Result<()> {
    let last = call.arguments.len() - 1;
    let timeout_ms = timeout_ms(call.argument(last))?;
    let Some((index, mut set)) = first_collection(call, 1..last, Tag::SortedSet).await? else {
        return wait(call, 1..last, timeout_ms).await;
    };
    let key = call.argument(index);
    call.reply(|reply| {
        reply.array(3);
        reply.bulk(key);
    });
    take(call, &mut set, order, 1, Shape::Flat).await
}
