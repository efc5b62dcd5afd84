//! Elements into the middle of a list, and out of it.
//!
//! Indexes have no gaps, so what stands on one side of the place moves: those on the side where
//! fewer stand. Both commands compare up to N elements and write up to N/2 again, one by one.

use std::ops::Range;

use firn_engine::Direction;
use firn_format::datatype::{Field, Tag};

use super::ends::End;
use super::{elements, index_of};
use crate::execute::call::Call;
use crate::failure::{Failure, Result};
use crate::server_thread::Turns;
use crate::transaction::Collection;

/// `LINSERT key BEFORE|AFTER pivot element`
pub(super) async fn insert(call: &mut Call<'_>) -> Result<()> {
    let is_after = match call.argument(2).to_ascii_lowercase().as_slice() {
        b"before" => false,
        b"after" => true,
        _ => return Err(Failure::SYNTAX),
    };
    let Some(mut list) = call.collection(1, Tag::List).await? else {
        call.reply(|reply| reply.integer(0));
        return Ok(());
    };
    let pivot = call.argument(3);
    let len = match indexes_of(call, &list, pivot, End::Left, 1).await?.first() {
        None => -1,
        Some(index) => {
            put_before(call, &mut list, index + u64::from(is_after)).await?;
            list.count() as i64
        }
    };
    call.reply(|reply| reply.integer(len));
    Ok(())
}

/// `LREM key count element`
pub(super) async fn remove(call: &mut Call<'_>) -> Result<()> {
    let count = call.integer(2)?;
    let Some(mut list) = call.collection(1, Tag::List).await? else {
        call.reply(|reply| reply.integer(0));
        return Ok(());
    };
    let from = if count < 0 { End::Right } else { End::Left };
    let most = if count == 0 { u64::MAX } else { count.unsigned_abs() };
    let mut removed = indexes_of(call, &list, call.argument(3), from, most).await?;
    removed.sort_unstable();
    close_holes(call, &mut list, &removed).await?;
    call.reply(|reply| reply.integer(removed.len() as i64));
    Ok(())
}

/// Indexes of up to `most` elements that equal `wanted`, in the order in which they are met from an
/// end.
async fn indexes_of(
    call: &mut Call<'_>,
    list: &Collection,
    wanted: &[u8],
    from: End,
    most: u64,
) -> Result<Vec<u64>> {
    let (head, tail) = list.ends();
    let mut walk = elements(call.transaction, list, head..tail, from.inward())?;
    let mut found = Vec::new();
    while (found.len() as u64) < most
        && let Some((key, element)) = walk.next().await?
    {
        if element == wanted {
            found.push(index_of(list, key)?);
        }
    }
    Ok(found)
}

/// Puts the fourth argument before the element at `index`, which may be the tail.
async fn put_before(call: &mut Call<'_>, list: &mut Collection, index: u64) -> Result<()> {
    let (mut head, mut tail) = list.ends();
    let (before, after) = (head..index, index..tail);
    let place = if before.end - before.start < after.end - after.start {
        shift(call, list, before, Direction::Forward, head - 1, &[]).await?;
        head -= 1;
        index - 1
    } else {
        shift(call, list, after, Direction::Backward, tail, &[]).await?;
        tail += 1;
        index
    };
    let element = call.argument(4);
    call.transaction.put_field(list, Field::ListElement(place), element);
    list.set_ends((head, tail), tail - head);
    call.transaction.save(list);
    Ok(())
}

/// Takes the elements at the rising indexes `removed` out.
async fn close_holes(call: &mut Call<'_>, list: &mut Collection, removed: &[u64]) -> Result<()> {
    let (Some(first), Some(last)) = (removed.first(), removed.last()) else { return Ok(()) };
    let (head, tail) = list.ends();
    let count = removed.len() as u64;
    let (ends, left_over) = if last - head < tail - first {
        shift(call, list, head..last + 1, Direction::Backward, *last, removed).await?;
        ((head + count, tail), head..head + count)
    } else {
        shift(call, list, *first..tail, Direction::Forward, *first, removed).await?;
        ((head, tail - count), tail - count..tail)
    };
    for index in left_over {
        call.transaction.delete_field(list, Field::ListElement(index));
    }
    list.set_ends(ends, list.count() - count);
    call.transaction.save(list);
    Ok(())
}

/// Writes the elements with these indexes again, in this direction from the index `to` on, those
/// `left_out` (rising) excepted. The walk sees what was there before.
async fn shift(
    call: &mut Call<'_>,
    list: &Collection,
    indexes: Range<u64>,
    direction: Direction,
    mut to: u64,
    left_out: &[u64],
) -> Result<()> {
    let mut walk = elements(call.transaction, list, indexes, direction)?;
    let mut turns = Turns::new(call.thread);
    while let Some((key, element)) = walk.next().await? {
        turns.step(element.len()).await;
        if left_out.binary_search(&index_of(list, key)?).is_err() {
            call.transaction.put_field(list, Field::ListElement(to), element);
            to = if direction == Direction::Forward { to + 1 } else { to - 1 };
        }
    }
    Ok(())
}
