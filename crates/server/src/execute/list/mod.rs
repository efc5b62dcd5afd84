//! Lists.
//!
//! Elements lie at rising indexes from head to tail without a gap. So an index is found by a seek,
//! and both ends move freely. A command that removes or inserts in the middle moves the elements on
//! the shorter side: see `shift`.

mod ends;
mod part;
mod position;
mod shift;
mod take;
mod transfer;

use firn_engine::{Direction, ScanRange};
use firn_format::datatype::{Field, Tag};
use firn_protocol::command::{CommandId, id_of};
use std::ops::Range;

use super::call::Call;
use crate::failure::{Failure, Result};
use crate::server_thread::Turns;
use crate::transaction::{Collection, Cursor, Transaction};
use ends::{End, push};

pub(super) async fn dispatch(call: &mut Call<'_>) -> Result<()> {
    const BLMOVE: CommandId = id_of("blmove");
    const BLMPOP: CommandId = id_of("blmpop");
    const BLPOP: CommandId = id_of("blpop");
    const BRPOP: CommandId = id_of("brpop");
    const BRPOPLPUSH: CommandId = id_of("brpoplpush");
    const LINDEX: CommandId = id_of("lindex");
    const LINSERT: CommandId = id_of("linsert");
    const LLEN: CommandId = id_of("llen");
    const LMOVE: CommandId = id_of("lmove");
    const LMPOP: CommandId = id_of("lmpop");
    const LPOP: CommandId = id_of("lpop");
    const LPOS: CommandId = id_of("lpos");
    const LPUSH: CommandId = id_of("lpush");
    const LPUSHX: CommandId = id_of("lpushx");
    const LRANGE: CommandId = id_of("lrange");
    const LREM: CommandId = id_of("lrem");
    const LSET: CommandId = id_of("lset");
    const LTRIM: CommandId = id_of("ltrim");
    const RPOP: CommandId = id_of("rpop");
    const RPOPLPUSH: CommandId = id_of("rpoplpush");
    const RPUSH: CommandId = id_of("rpush");
    const RPUSHX: CommandId = id_of("rpushx");
    match call.command.id() {
        LPUSH => add(call, End::Left).await,
        RPUSH => add(call, End::Right).await,
        LPUSHX => add_to_existing(call, End::Left).await,
        RPUSHX => add_to_existing(call, End::Right).await,
        LPOP => take::take(call, End::Left).await,
        RPOP => take::take(call, End::Right).await,
        LMPOP => take::take_from_first(call).await,
        BLPOP => take::wait_for_one(call, End::Left).await,
        BRPOP => take::wait_for_one(call, End::Right).await,
        BLMPOP => take::wait_for_some(call).await,
        LLEN => len(call).await,
        LINDEX => part::element_at(call).await,
        LRANGE => part::range(call).await,
        LSET => part::set(call).await,
        LTRIM => part::trim(call).await,
        LINSERT => shift::insert(call).await,
        LREM => shift::remove(call).await,
        LPOS => position::find(call).await,
        LMOVE => transfer::between_named_ends(call).await,
        RPOPLPUSH => transfer::from_tail_to_head(call).await,
        BLMOVE => transfer::wait_between_named_ends(call).await,
        BRPOPLPUSH => transfer::wait_from_tail_to_head(call).await,
        _ => Err(call.not_offered()),
    }
}

/// `LPUSH key element [element ...]`, `RPUSH …`
async fn add(call: &mut Call<'_>, end: End) -> Result<()> {
    let mut list = call.collection_or_new(1, Tag::List).await?;
    add_all(call, &mut list, end).await;
    Ok(())
}

/// `LPUSHX key element [element ...]`, `RPUSHX …`
async fn add_to_existing(call: &mut Call<'_>, end: End) -> Result<()> {
    match call.collection(1, Tag::List).await? {
        Some(mut list) => add_all(call, &mut list, end).await,
        None => call.reply(|reply| reply.integer(0)),
    }
    Ok(())
}

/// Adds the arguments one after the other, and answers how many elements there are.
async fn add_all(call: &mut Call<'_>, list: &mut Collection, end: End) {
    let mut turns = Turns::new(call.thread);
    for element in call.arguments.from(2).iter() {
        push(call.transaction, list, end, element);
        turns.step(element.len()).await;
    }
    call.transaction.save(list);
    call.reply(|reply| reply.integer(list.count() as i64));
}

/// `LLEN key`
async fn len(call: &mut Call<'_>) -> Result<()> {
    let list = call.collection(1, Tag::List).await?;
    call.reply(|reply| reply.integer(list.map_or(0, |list| list.count()) as i64));
    Ok(())
}

/// A walk over the elements with these indexes.
fn elements(
    transaction: &mut Transaction,
    list: &Collection,
    indexes: Range<u64>,
    direction: Direction,
) -> Result<Cursor> {
    let (mut start, mut end) = (Vec::new(), Vec::new());
    list.id().element_range(indexes, &mut start, &mut end);
    let range = ScanRange { direction, ..ScanRange::between(&start, &end) };
    transaction.scan(transaction.keyspaces().fields, range)
}

/// The index that the engine's key of an element says.
fn index_of(list: &Collection, key: &[u8]) -> Result<u64> {
    match list.field_of(key)? {
        Field::ListElement(index) => Ok(index),
        _ => Err(missing()),
    }
}

fn missing() -> Failure {
    Failure::new("ERR an element of a list is missing: the list is damaged")
}
