//! Commands on several sets.

use std::collections::BTreeSet;

use firn_format::datatype::{Field, Tag};
use firn_protocol::command::{CommandId, id_of};
use firn_protocol::number;

use super::super::call::Call;
use super::combined::{Combined, Operation};
use crate::failure::{Failure, Result};
use crate::server_thread::Turns;
use crate::transaction::Collection;

pub(super) async fn dispatch(call: &mut Call<'_>) -> Result<()> {
    const SDIFF: CommandId = id_of("sdiff");
    const SDIFFSTORE: CommandId = id_of("sdiffstore");
    const SINTER: CommandId = id_of("sinter");
    const SINTERCARD: CommandId = id_of("sintercard");
    const SINTERSTORE: CommandId = id_of("sinterstore");
    const SUNION: CommandId = id_of("sunion");
    const SUNIONSTORE: CommandId = id_of("sunionstore");
    match call.command.id() {
        SINTER => answer(call, Operation::Intersection).await,
        SUNION => answer(call, Operation::Union).await,
        SDIFF => answer(call, Operation::Difference).await,
        SINTERSTORE => store(call, Operation::Intersection).await,
        SUNIONSTORE => store(call, Operation::Union).await,
        SDIFFSTORE => store(call, Operation::Difference).await,
        SINTERCARD => count(call).await,
        _ => Err(call.not_offered()),
    }
}

/// The sets at `count` keys from the word `first` on, all of which are checked to be sets. Each is
/// there once, but for the first of a difference, which may be among the others too.
async fn sets(
    call: &mut Call<'_>,
    operation: Operation,
    first: usize,
    count: usize,
) -> Result<Vec<Option<Collection>>> {
    let is_named_first = |place: usize| operation == Operation::Difference && place == 0;
    let (mut keys, mut named) = (Vec::new(), BTreeSet::new());
    let mut turns = Turns::new(call.thread);
    for (place, user) in call.arguments.from(first).iter().take(count).enumerate() {
        if is_named_first(place) || named.insert(user) {
            keys.push(call.key_of(user)?);
        }
        turns.step(user.len()).await;
    }
    let entries = call.transaction.entries(keys).await?;
    let mut sets = Vec::with_capacity(entries.len());
    for entry in &entries {
        sets.push(entry.collection(Tag::Set)?);
        turns.step(0).await;
    }
    Ok(sets)
}

/// `SINTER key [key ...]`, `SUNION …`, `SDIFF …`
///
/// A reply begins with its length. One that is too long to keep is found twice: to be counted, and
/// to be sent as it is found.
async fn answer(call: &mut Call<'_>, operation: Operation) -> Result<()> {
    let sets = sets(call, operation, 1, usize::MAX).await?;
    let mut found = Combined::open(call, operation, &sets).await?;
    let mark = call.reply(|reply| reply.mark());
    let mut count = 0;
    while !call.is_to_spill() {
        let Some(member) = found.next(call).await? else {
            call.reply(|reply| reply.finish_set(mark, count));
            return Ok(());
        };
        count += 1;
        call.reply(|reply| reply.bulk(&member));
        call.check_reply()?;
    }
    call.reply(|reply| reply.rewind(mark));
    while found.next(call).await?.is_some() {
        count += 1;
    }
    call.reply(|reply| reply.set(count));
    let mut found = Combined::open(call, operation, &sets).await?;
    while let Some(member) = found.next(call).await? {
        call.reply(|reply| reply.bulk(&member));
        call.spill().await?;
    }
    Ok(())
}

/// `SINTERSTORE destination key [key ...]`, `SUNIONSTORE …`, `SDIFFSTORE …`: how many members it
/// has then.
///
/// What is stored is in memory until it is written, since all of it is written at once.
async fn store(call: &mut Call<'_>, operation: Operation) -> Result<()> {
    let sets = sets(call, operation, 2, usize::MAX).await?;
    let mut found = Combined::open(call, operation, &sets).await?;
    let mut stored = Vec::new();
    while let Some(member) = found.next(call).await? {
        stored.push(member);
    }
    let entry = call.entry(1).await?;
    if stored.is_empty() {
        call.transaction.remove(&entry).await?;
    } else {
        let mut set = call.transaction.create(&entry, Tag::Set).await?;
        let mut turns = Turns::new(call.thread);
        for member in &stored {
            call.transaction.put_field(&set, Field::SetMember(member), &[]);
            turns.step(member.len()).await;
        }
        set.set_count(stored.len() as u64);
        call.transaction.save(&mut set);
    }
    call.reply(|reply| reply.integer(stored.len() as i64));
    Ok(())
}

/// `SINTERCARD numkeys key [key ...] [LIMIT limit]`
async fn count(call: &mut Call<'_>) -> Result<()> {
    const COUNT: Failure = Failure::new("ERR numkeys should be greater than 0");
    let key_count = number::parse_integer(call.argument(1)).filter(|count| *count > 0).ok_or(COUNT)?;
    let rest = call.arguments.len() - 2;
    let key_count = usize::try_from(key_count)
        .ok()
        .filter(|count| *count <= rest)
        .ok_or(Failure::new("ERR Number of keys can't be greater than number of args"))?;
    let mut limit = 0;
    for index in (2 + key_count..call.arguments.len()).step_by(2) {
        if !call.is_word(index, "limit") || index + 1 == call.arguments.len() {
            return Err(Failure::SYNTAX);
        }
        let number = number::parse_integer(call.argument(index + 1));
        limit = number.filter(|limit| *limit >= 0).ok_or(Failure::new("ERR LIMIT can't be negative"))?;
    }
    let sets = sets(call, Operation::Intersection, 2, key_count).await?;
    let mut found = Combined::open(call, Operation::Intersection, &sets).await?;
    let mut count = 0;
    while (limit == 0 || count < limit) && found.next(call).await?.is_some() {
        count += 1;
    }
    call.reply(|reply| reply.integer(count));
    Ok(())
}
