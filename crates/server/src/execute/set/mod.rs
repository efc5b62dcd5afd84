//! Sets.

mod algebra;
mod combined;
mod ordered;

use std::collections::BTreeSet;

use firn_format::datatype::{Field, FieldKind, Tag, is_member};
use firn_protocol::command::{CommandId, id_of};
use firn_protocol::number;
use firn_protocol::resp::Arguments;

use super::call::Call;
use super::scan::ScanOptions;
use super::{members, scan};
use crate::bounds::READ_TOGETHER_MAX;
use crate::failure::{Failure, Result};
use crate::server_thread::Turns;
use crate::transaction::Collection;

const KIND: FieldKind = FieldKind::SetMember;

pub(super) async fn dispatch(call: &mut Call<'_>) -> Result<()> {
    const SADD: CommandId = id_of("sadd");
    const SCARD: CommandId = id_of("scard");
    const SISMEMBER: CommandId = id_of("sismember");
    const SMEMBERS: CommandId = id_of("smembers");
    const SMISMEMBER: CommandId = id_of("smismember");
    const SMOVE: CommandId = id_of("smove");
    const SPOP: CommandId = id_of("spop");
    const SRANDMEMBER: CommandId = id_of("srandmember");
    const SREM: CommandId = id_of("srem");
    const SSCAN: CommandId = id_of("sscan");
    match call.command.id() {
        SADD => add(call).await,
        SREM => remove(call).await,
        SISMEMBER => is_in(call).await,
        SMISMEMBER => are_in(call).await,
        SMEMBERS => all(call).await,
        SCARD => count(call).await,
        SMOVE => move_member(call).await,
        SPOP => pop(call).await,
        SRANDMEMBER => random_member(call).await,
        SSCAN => scan_members(call).await,
        _ => algebra::dispatch(call).await,
    }
}

/// Which of `wanted` the set has.
async fn has<'m>(
    call: &mut Call<'_>,
    set: &Collection,
    wanted: impl Iterator<Item = &'m [u8]>,
) -> Result<Vec<bool>> {
    call.transaction.has_fields(set, wanted.map(Field::SetMember)).await
}

/// The members that the first of `words` name, each once.
fn some_named(words: Arguments<'_>) -> BTreeSet<&[u8]> {
    words.iter().take(READ_TOGETHER_MAX).collect()
}

/// `SADD key member [member ...]`: how many are new.
async fn add(call: &mut Call<'_>) -> Result<()> {
    let mut words = call.arguments.from(2);
    members::check_members(words.iter())?;
    let mut set = call.collection_or_new(1, Tag::Set).await?;
    let (mut added, mut turns) = (0, Turns::new(call.thread));
    while !words.is_empty() {
        // A member that was named before is known when it is named again.
        let named = some_named(words);
        let known = has(call, &set, named.iter().copied()).await?;
        for (member, _) in named.iter().zip(known).filter(|(_, is_known)| !is_known) {
            call.transaction.put_field(&set, Field::SetMember(member), &[]);
            set.add_one();
            added += 1;
            turns.step(member.len()).await;
        }
        words = words.from(READ_TOGETHER_MAX);
    }
    if added > 0 {
        call.transaction.save(&mut set);
    }
    call.reply(|reply| reply.integer(added));
    Ok(())
}

/// `SREM key member [member ...]`: how many there were.
async fn remove(call: &mut Call<'_>) -> Result<()> {
    let mut removed = 0;
    if let Some(mut set) = call.collection(1, Tag::Set).await? {
        let (mut words, mut turns) = (call.arguments.from(2), Turns::new(call.thread));
        while !words.is_empty() {
            let mut named = some_named(words);
            named.retain(|member| is_member(member));
            let known = has(call, &set, named.iter().copied()).await?;
            for (member, _) in named.iter().zip(known).filter(|(_, is_known)| *is_known) {
                call.transaction.delete_field(&set, Field::SetMember(member));
                set.remove_one();
                removed += 1;
                turns.step(member.len()).await;
            }
            words = words.from(READ_TOGETHER_MAX);
        }
        if removed > 0 {
            call.transaction.save(&mut set);
        }
    }
    call.reply(|reply| reply.integer(removed));
    Ok(())
}

/// Whether there is a set and it has `member`.
async fn is_member_of(call: &mut Call<'_>, set: Option<&Collection>, member: &[u8]) -> Result<bool> {
    match set.filter(|_| is_member(member)) {
        Some(set) => Ok(call.transaction.field(set, Field::SetMember(member)).await?.is_some()),
        None => Ok(false),
    }
}

/// `SISMEMBER key member`
async fn is_in(call: &mut Call<'_>) -> Result<()> {
    let set = call.collection(1, Tag::Set).await?;
    let is_in = is_member_of(call, set.as_ref(), call.argument(2)).await?;
    call.reply(|reply| reply.integer(i64::from(is_in)));
    Ok(())
}

/// `SMISMEMBER key member [member ...]`
async fn are_in(call: &mut Call<'_>) -> Result<()> {
    let set = call.collection(1, Tag::Set).await?;
    let (mut words, mut turns) = (call.arguments.from(2), Turns::new(call.thread));
    call.reply(|reply| reply.array(words.len()));
    while !words.is_empty() {
        let some = words.iter().take(READ_TOGETHER_MAX);
        let mut known = match &set {
            None => Vec::new(),
            Some(set) => has(call, set, some.clone().filter(|member| is_member(member))).await?,
        }
        .into_iter();
        for member in some {
            let is_in = is_member(member) && known.next().unwrap_or(false);
            call.reply(|reply| reply.integer(i64::from(is_in)));
        }
        turns.step(READ_TOGETHER_MAX * size_of::<&[u8]>()).await;
        words = words.from(READ_TOGETHER_MAX);
    }
    Ok(())
}

/// `SCARD key`
async fn count(call: &mut Call<'_>) -> Result<()> {
    let count = call.collection(1, Tag::Set).await?.map_or(0, |set| set.count());
    call.reply(|reply| reply.integer(count as i64));
    Ok(())
}

/// `SMEMBERS key`
async fn all(call: &mut Call<'_>) -> Result<()> {
    let set = call.collection(1, Tag::Set).await?;
    call.reply(|reply| reply.set(set.as_ref().map_or(0, Collection::count) as usize));
    let Some(set) = set else { return Ok(()) };
    let mut walk = members::Walk::new(call, &set, KIND)?;
    while let Some((member, _)) = walk.next().await? {
        call.reply(|reply| reply.bulk(member));
        call.spill().await?;
    }
    Ok(())
}

/// `SMOVE source destination member`
async fn move_member(call: &mut Call<'_>) -> Result<()> {
    let (from, to) = (call.entry(1).await?, call.entry(2).await?);
    let member = call.argument(3);
    let mut is_moved = false;
    if let Some(mut source) = from.collection(Tag::Set)? {
        let target = to.collection(Tag::Set)?;
        is_moved = is_member_of(call, Some(&source), member).await?;
        if is_moved && from.key != to.key {
            let is_known = is_member_of(call, target.as_ref(), member).await?;
            let mut target = match target {
                Some(target) => target,
                None => call.transaction.create(&to, Tag::Set).await?,
            };
            call.transaction.delete_field(&source, Field::SetMember(member));
            source.remove_one();
            call.transaction.save(&mut source);
            if !is_known {
                call.transaction.put_field(&target, Field::SetMember(member), &[]);
                target.add_one();
                call.transaction.save(&mut target);
            }
        }
    }
    call.reply(|reply| reply.integer(i64::from(is_moved)));
    Ok(())
}

/// `SPOP key [count]`
async fn pop(call: &mut Call<'_>) -> Result<()> {
    let count = match call.arguments.len() {
        2 => None,
        3 => Some(pop_count(call)?),
        _ => return Err(Failure::SYNTAX),
    };
    let set = call.collection(1, Tag::Set).await?;
    let Some(mut set) = set else {
        call.reply(|reply| if count.is_some() { reply.set(0) } else { reply.null() });
        return Ok(());
    };
    let Some(count) = count else {
        if let Some((member, _)) = members::one(call, &set, KIND).await? {
            call.transaction.delete_field(&set, Field::SetMember(&member));
            set.remove_one();
            call.transaction.save(&mut set);
            call.reply(|reply| reply.bulk(&member));
        }
        return Ok(());
    };
    let taken = set.count().min(count);
    call.reply(|reply| reply.set(taken as usize));
    if taken == set.count() {
        return pop_all(call, &set).await;
    }
    members::distinct(call, &set, KIND, taken, |call, member, _| {
        call.transaction.delete_field(&set, Field::SetMember(member));
        call.reply(|reply| reply.bulk(member));
    })
    .await?;
    if taken > 0 {
        set.set_count(set.count() - taken);
        call.transaction.save(&mut set);
    }
    Ok(())
}

fn pop_count(call: &Call<'_>) -> Result<u64> {
    number::parse_integer(call.argument(2))
        .and_then(|count| u64::try_from(count).ok())
        .ok_or(Failure::NOT_POSITIVE)
}

/// Answers all members and removes the key: one write, however many there are.
async fn pop_all(call: &mut Call<'_>, set: &Collection) -> Result<()> {
    let mut walk = members::Walk::new(call, set, KIND)?;
    while let Some((member, _)) = walk.next().await? {
        call.reply(|reply| reply.bulk(member));
        call.check_reply()?;
    }
    let entry = call.entry(1).await?;
    call.transaction.remove(&entry).await
}

/// `SRANDMEMBER key [count]`
async fn random_member(call: &mut Call<'_>) -> Result<()> {
    if call.arguments.len() > 3 {
        return Err(Failure::SYNTAX);
    }
    if call.arguments.len() == 2 {
        let set = call.collection(1, Tag::Set).await?;
        let picked = match &set {
            None => None,
            Some(set) => members::one(call, set, KIND).await?,
        };
        call.reply(|reply| reply.bulk_or_null(picked.as_ref().map(|(member, _)| member.as_slice())));
        return Ok(());
    }
    let count = members::signed_count(call.integer(2)?)?;
    let set = call.collection(1, Tag::Set).await?;
    let total = set.as_ref().map_or(0, Collection::count);
    call.reply(|reply| reply.array(members::answered_count(count, total) as usize));
    let Some(set) = set else { return Ok(()) };
    let answer = |call: &mut Call<'_>, member: &[u8], _: &[u8]| call.reply(|reply| reply.bulk(member));
    members::random(call, &set, KIND, count, answer).await
}

/// `SSCAN key cursor [MATCH pattern] [COUNT count]`
async fn scan_members(call: &mut Call<'_>) -> Result<()> {
    scan::cursor(call.argument(2))?;
    let set = call.collection(1, Tag::Set).await?;
    let options = match set {
        Some(_) => ScanOptions::of(call, 3, false)?,
        None => ScanOptions::default(),
    };
    let step = members::step(call, set.as_ref(), &options, KIND).await?;
    let found: Vec<Vec<u8>> = step.found.into_iter().map(|(member, _)| member).collect();
    scan::reply_step(call, step.next, &found);
    Ok(())
}
