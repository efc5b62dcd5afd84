//! Elements by their indexes: each command seeks to the first one.

use firn_engine::Direction;
use firn_format::datatype::{Field, Tag};

use super::{elements, missing};
use crate::execute::call::Call;
use crate::execute::index::{place, span};
use crate::failure::{Failure, Result};
use crate::server_thread::Turns;

/// `LINDEX key index`
pub(super) async fn element_at(call: &mut Call<'_>) -> Result<()> {
    let mut element = None;
    if let Some(list) = call.collection(1, Tag::List).await?
        && let Some(place) = place(list.count(), call.integer(2)?)
    {
        let index = list.ends().0 + place;
        element = Some(call.transaction.field(&list, Field::ListElement(index)).await?.ok_or_else(missing)?);
    }
    call.reply(|reply| reply.bulk_or_null(element.as_deref()));
    Ok(())
}

/// `LSET key index element`
pub(super) async fn set(call: &mut Call<'_>) -> Result<()> {
    let mut list = call.collection(1, Tag::List).await?.ok_or(Failure::NO_SUCH_KEY)?;
    let place = place(list.count(), call.integer(2)?).ok_or(Failure::new("ERR index out of range"))?;
    let element = call.argument(3);
    call.transaction.put_field(&list, Field::ListElement(list.ends().0 + place), element);
    call.transaction.save(&mut list);
    call.reply(|reply| reply.ok());
    Ok(())
}

/// `LRANGE key start stop`
pub(super) async fn range(call: &mut Call<'_>) -> Result<()> {
    let (start, stop) = (call.integer(2)?, call.integer(3)?);
    let Some(list) = call.collection(1, Tag::List).await? else {
        call.reply(|reply| reply.array(0));
        return Ok(());
    };
    let places = span(list.count(), start, stop);
    let count = places.end - places.start;
    call.reply(|reply| reply.array(count as usize));
    if count == 0 {
        return Ok(());
    }
    let head = list.ends().0;
    let indexes = head + places.start..head + places.end;
    let mut walk = elements(call.transaction, &list, indexes, Direction::Forward)?;
    let mut answered = 0;
    while let Some((_, element)) = walk.next().await? {
        call.reply(|reply| reply.bulk(element));
        call.spill().await?;
        answered += 1;
    }
    if answered == count { Ok(()) } else { Err(missing()) }
}

/// `LTRIM key start stop`: costs as many deletes as there are elements outside, but nothing where
/// none stays.
pub(super) async fn trim(call: &mut Call<'_>) -> Result<()> {
    let (start, stop) = (call.integer(2)?, call.integer(3)?);
    let entry = call.entry(1).await?;
    if let Some(mut list) = entry.collection(Tag::List)? {
        let places = span(list.count(), start, stop);
        if places.is_empty() {
            call.transaction.remove(&entry).await?;
        } else if places.end - places.start < list.count() {
            let (head, tail) = list.ends();
            let (new_head, new_tail) = (head + places.start, head + places.end);
            let mut turns = Turns::new(call.thread);
            for index in (head..new_head).chain(new_tail..tail) {
                call.transaction.delete_field(&list, Field::ListElement(index));
                turns.step(0).await;
            }
            list.set_ends((new_head, new_tail), new_tail - new_head);
            call.transaction.save(&mut list);
        } else {
            // As in Redis, clients that watch the list are told that it was trimmed, even if
            // nothing was cut off.
            call.transaction.touch(&entry.key);
        }
    }
    call.reply(|reply| reply.ok());
    Ok(())
}
