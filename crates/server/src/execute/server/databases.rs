//! Commands on whole databases.

use crate::execute::call::Call;
use crate::execute::single::database_index;
use crate::failure::{Failure, Result};
use crate::store::DATABASE_COUNT;
use crate::transaction::decode_value;

/// `DBSIZE`: counts, for nothing that is known while keys are written without being read says how
/// many there are. Exact where keys are in order, as of one moment, with others' turns in between;
/// else keys that come or go meanwhile are counted or not.
pub(super) async fn size(call: &mut Call<'_>) -> Result<()> {
    let database = call.database().id;
    let now_ms = call.transaction.now_ms();
    let mut cursor = call.transaction.keys_of(database)?.in_short_turns();
    let mut count = 0;
    while let Some((_, record)) = cursor.next().await? {
        count += i64::from(decode_value(record)?.is_live(now_ms));
    }
    call.reply(|reply| reply.integer(count));
    Ok(())
}

/// `FLUSHDB [ASYNC | SYNC]`, `FLUSHALL [ASYNC | SYNC]`
pub(super) fn flush(call: &mut Call<'_>, is_all: bool) -> Result<()> {
    match call.arguments.len() {
        1 => {}
        2 if call.is_word(1, "async") || call.is_word(1, "sync") => {}
        _ => return Err(Failure::SYNTAX),
    }
    let selected = call.client.database.get();
    for index in if is_all { 0..DATABASE_COUNT } else { selected..selected + 1 } {
        call.transaction.flush_database(index)?;
    }
    call.reply(|reply| reply.ok());
    Ok(())
}

/// `SWAPDB index1 index2`
pub(super) fn swap(call: &mut Call<'_>) -> Result<()> {
    let index = |argument, which: &str| {
        database_index(argument).map_err(|failure| match failure == Failure::NOT_AN_INTEGER {
            true => Failure::of(format!("ERR invalid {which} DB index")),
            false => failure,
        })
    };
    let first = index(call.argument(1), "first")?;
    let second = index(call.argument(2), "second")?;
    call.transaction.swap_databases(first, second);
    call.reply(|reply| reply.ok());
    Ok(())
}
