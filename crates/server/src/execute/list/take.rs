//! Taking elements from the ends.

use firn_format::datatype::{Field, Tag};

use super::ends::{End, pop, shorten};
use super::{elements, index_of, missing};
use crate::execute::blocking::{first_collection, timeout_ms, wait};
use crate::execute::call::Call;
use crate::execute::multi_pop::{MultiPop, pop_count};
use crate::failure::Result;
use crate::server_thread::Turns;
use crate::transaction::Collection;

/// `LPOP key [count]`, `RPOP key [count]`
pub(super) async fn take(call: &mut Call<'_>, end: End) -> Result<()> {
    let count = match call.arguments.len() {
        2 => None,
        3 => Some(pop_count(call, 2)?),
        _ => return Err(call.wrong_arguments()),
    };
    let Some(mut list) = call.collection(1, Tag::List).await? else {
        call.reply(|reply| match count {
            None => reply.null(),
            Some(_) => reply.null_array(),
        });
        return Ok(());
    };
    match count {
        None => {
            let element = pop(call.transaction, &mut list, end).await?;
            call.transaction.save(&mut list);
            call.reply(|reply| reply.bulk(&element));
        }
        Some(0) => call.reply(|reply| reply.array(0)),
        Some(count) => take_some(call, &mut list, end, count).await?,
    }
    Ok(())
}

/// Takes up to `count` elements one after the other, and answers them.
async fn take_some(call: &mut Call<'_>, list: &mut Collection, end: End, count: u64) -> Result<()> {
    let (head, tail) = list.ends();
    let count = count.min(list.count());
    let indexes = match end {
        End::Left => head..head + count,
        End::Right => tail - count..tail,
    };
    call.reply(|reply| reply.array(count as usize));
    let (mut taken, mut turns) = (0, Turns::new(call.thread));
    let mut walk = elements(call.transaction, list, indexes, end.inward())?;
    while let Some((key, element)) = walk.next().await? {
        let index = index_of(list, key)?;
        call.transaction.delete_field(list, Field::ListElement(index));
        call.reply(|reply| reply.bulk(element));
        call.check_reply()?;
        taken += 1;
        turns.step(element.len()).await;
    }
    if taken != count {
        return Err(missing());
    }
    shorten(list, end, count);
    call.transaction.save(list);
    Ok(())
}

/// Answers a key and up to `count` elements of the list there.
async fn take_with_key(
    call: &mut Call<'_>,
    index: usize,
    mut list: Collection,
    asked: &MultiPop<End>,
) -> Result<()> {
    let key = call.argument(index);
    call.reply(|reply| {
        reply.array(2);
        reply.bulk(key);
    });
    take_some(call, &mut list, asked.end, asked.count).await
}

/// `LMPOP numkeys key [key ...] LEFT|RIGHT [COUNT count]`
pub(super) async fn take_from_first(call: &mut Call<'_>) -> Result<()> {
    let asked = MultiPop::of(call, 1, End::of)?;
    match first_collection(call, asked.keys.clone(), Tag::List).await? {
        Some((index, list)) => take_with_key(call, index, list, &asked).await,
        None => {
            call.reply(|reply| reply.null_array());
            Ok(())
        }
    }
}

/// `BLMPOP timeout numkeys key [key ...] LEFT|RIGHT [COUNT count]`
pub(super) async fn wait_for_some(call: &mut Call<'_>) -> Result<()> {
    let timeout_ms = timeout_ms(call.argument(1))?;
    let asked = MultiPop::of(call, 2, End::of)?;
    match first_collection(call, asked.keys.clone(), Tag::List).await? {
        Some((index, list)) => take_with_key(call, index, list, &asked).await,
        None => wait(call, asked.keys, timeout_ms).await,
    }
}

/// `BLPOP key [key ...] timeout`, `BRPOP key [key ...] timeout`
pub(super) async fn wait_for_one(call: &mut Call<'_>, end: End) -> Result<()> {
    let last = call.arguments.len() - 1;
    let timeout_ms = timeout_ms(call.argument(last))?;
    let Some((index, mut list)) = first_collection(call, 1..last, Tag::List).await? else {
        return wait(call, 1..last, timeout_ms).await;
    };
    let element = pop(call.transaction, &mut list, end).await?;
    call.transaction.save(&mut list);
    let key = call.argument(index);
    call.reply(|reply| {
        reply.array(2);
        reply.bulk(key);
        reply.bulk(&element);
    });
    Ok(())
}
