//! Hashes.

use std::collections::BTreeMap;

use firn_format::datatype::{Field, FieldKind, Tag, is_member};
use firn_protocol::command::{CommandId, id_of};
use firn_protocol::number::{self, Extended};
use firn_protocol::resp::Protocol;

use super::call::Call;
use super::scan::ScanOptions;
use super::{counter, members, scan};
use crate::bounds::READ_TOGETHER_MAX;
use crate::failure::{Failure, Result};
use crate::server_thread::Turns;
use crate::transaction::Collection;

pub(super) async fn dispatch(call: &mut Call<'_>) -> Result<()> {
    const HDEL: CommandId = id_of("hdel");
    const HEXISTS: CommandId = id_of("hexists");
    const HGET: CommandId = id_of("hget");
    const HGETALL: CommandId = id_of("hgetall");
    const HINCRBY: CommandId = id_of("hincrby");
    const HINCRBYFLOAT: CommandId = id_of("hincrbyfloat");
    const HKEYS: CommandId = id_of("hkeys");
    const HLEN: CommandId = id_of("hlen");
    const HMGET: CommandId = id_of("hmget");
    const HMSET: CommandId = id_of("hmset");
    const HRANDFIELD: CommandId = id_of("hrandfield");
    const HSCAN: CommandId = id_of("hscan");
    const HSET: CommandId = id_of("hset");
    const HSETNX: CommandId = id_of("hsetnx");
    const HSTRLEN: CommandId = id_of("hstrlen");
    const HVALS: CommandId = id_of("hvals");
    match call.command.id() {
        HGET => get(call).await,
        HSET => set(call, false).await,
        HMSET => set(call, true).await,
        HMGET => multi_get(call).await,
        HGETALL => all(call, Part::Both).await,
        HKEYS => all(call, Part::Names).await,
        HVALS => all(call, Part::Values).await,
        HDEL => del(call).await,
        HLEN => len(call).await,
        HEXISTS => exists(call).await,
        HSTRLEN => strlen(call).await,
        HSETNX => set_nx(call).await,
        HINCRBY => add(call).await,
        HINCRBYFLOAT => add_float(call).await,
        HRANDFIELD => random_field(call).await,
        HSCAN => scan_fields(call).await,
        _ => Err(call.not_offered()),
    }
}

/// The value of the field `name`; `None` if there is no such hash or field.
async fn value(call: &mut Call<'_>, hash: Option<&Collection>, name: &[u8]) -> Result<Option<Vec<u8>>> {
    match hash.filter(|_| is_member(name)) {
        Some(hash) => call.transaction.field(hash, Field::HashField(name)).await,
        None => Ok(None),
    }
}

/// The value of the field that is the third word.
async fn named_value(call: &mut Call<'_>) -> Result<Option<Vec<u8>>> {
    let hash = call.collection(1, Tag::Hash).await?;
    value(call, hash.as_ref(), call.argument(2)).await
}

/// `HGET key field`
async fn get(call: &mut Call<'_>) -> Result<()> {
    let value = named_value(call).await?;
    call.reply(|reply| reply.bulk_or_null(value.as_deref()));
    Ok(())
}

/// `HEXISTS key field`
async fn exists(call: &mut Call<'_>) -> Result<()> {
    let is_there = named_value(call).await?.is_some();
    call.reply(|reply| reply.integer(i64::from(is_there)));
    Ok(())
}

/// `HSTRLEN key field`
async fn strlen(call: &mut Call<'_>) -> Result<()> {
    let bytes = named_value(call).await?.map_or(0, |value| value.len());
    call.reply(|reply| reply.integer(bytes as i64));
    Ok(())
}

/// `HLEN key`
async fn len(call: &mut Call<'_>) -> Result<()> {
    let count = call.collection(1, Tag::Hash).await?.map_or(0, |hash| hash.count());
    call.reply(|reply| reply.integer(count as i64));
    Ok(())
}

/// `HSET key field value [field value ...]`, `HMSET …`: all of them; of a field named twice the
/// last value.
async fn set(call: &mut Call<'_>, answers_ok: bool) -> Result<()> {
    if !call.arguments.len().is_multiple_of(2) {
        return Err(call.wrong_arguments());
    }
    let words = call.arguments.from(2);
    let names = words.iter().step_by(2);
    members::check_members(names.clone())?;
    let mut hash = call.collection_or_new(1, Tag::Hash).await?;
    let (mut added, mut turns) = (0, Turns::new(call.thread));
    let mut rest = words;
    while !rest.is_empty() {
        let pairs = rest.iter().step_by(2).zip(rest.iter().skip(1).step_by(2)).take(READ_TOGETHER_MAX);
        let values: BTreeMap<&[u8], &[u8]> = pairs.collect();
        let fields = values.keys().map(|name| Field::HashField(name));
        let known = call.transaction.has_fields(&hash, fields).await?;
        for (name, value) in &values {
            call.transaction.put_field(&hash, Field::HashField(name), value);
            turns.step(value.len()).await;
        }
        added += known.iter().filter(|is_known| !**is_known).count();
        rest = rest.from(2 * READ_TOGETHER_MAX);
    }
    hash.set_count(hash.count() + added as u64);
    call.transaction.save(&mut hash);
    call.reply(|reply| if answers_ok { reply.ok() } else { reply.integer(added as i64) });
    Ok(())
}

/// Writes a field whose value was `old`.
fn put(call: &mut Call<'_>, hash: &mut Collection, name: &[u8], old: Option<&[u8]>, value: &[u8]) {
    call.transaction.put_field(hash, Field::HashField(name), value);
    if old.is_none() {
        hash.add_one();
    }
    call.transaction.save(hash);
}

/// `HSETNX key field value`
async fn set_nx(call: &mut Call<'_>) -> Result<()> {
    let name = call.argument(2);
    members::check_members([name].into_iter())?;
    let is_new = named_value(call).await?.is_none();
    if is_new {
        let mut hash = call.collection_or_new(1, Tag::Hash).await?;
        put(call, &mut hash, name, None, call.argument(3));
    }
    call.reply(|reply| reply.integer(i64::from(is_new)));
    Ok(())
}

/// Fields of `HMGET` that are read together: what they hold is in memory at once.
const FIELDS_AT_ONCE: usize = 128;

/// `HMGET key field [field ...]`
async fn multi_get(call: &mut Call<'_>) -> Result<()> {
    let hash = call.collection(1, Tag::Hash).await?;
    let mut names = call.arguments.from(2);
    call.reply(|reply| reply.array(names.len()));
    let mut turns = Turns::new(call.thread);
    while !names.is_empty() {
        let some = names.iter().take(FIELDS_AT_ONCE);
        let mut found = match &hash {
            None => Vec::new(),
            Some(hash) => {
                let fields = some.clone().filter(|name| is_member(name)).map(Field::HashField);
                call.transaction.some_field_values(hash, fields).await?
            }
        }
        .into_iter();
        let mut answered = 0;
        for name in some {
            let is_possible = hash.is_some() && is_member(name);
            if is_possible && found.len() == 0 {
                // Its turn comes once these are sent.
                break;
            }
            let value = if is_possible { found.next().flatten() } else { None };
            call.reply(|reply| reply.bulk_or_null(value.as_deref()));
            turns.step(value.as_ref().map_or(0, Vec::len)).await;
            call.spill().await?;
            answered += 1;
        }
        names = names.from(answered);
    }
    Ok(())
}

/// `HDEL key field [field ...]`: how many there were.
async fn del(call: &mut Call<'_>) -> Result<()> {
    let mut removed = 0;
    if let Some(mut hash) = call.collection(1, Tag::Hash).await? {
        let (mut words, mut turns) = (call.arguments.from(2), Turns::new(call.thread));
        while !words.is_empty() {
            let some = words.iter().take(READ_TOGETHER_MAX);
            let mut names: Vec<&[u8]> = some.filter(|name| is_member(name)).collect();
            names.sort_unstable();
            names.dedup();
            let fields = names.iter().map(|name| Field::HashField(name));
            let known = call.transaction.has_fields(&hash, fields).await?;
            for (name, _) in names.iter().zip(known).filter(|(_, is_known)| *is_known) {
                call.transaction.delete_field(&hash, Field::HashField(name));
                hash.remove_one();
                removed += 1;
                turns.step(name.len()).await;
            }
            words = words.from(READ_TOGETHER_MAX);
        }
        if removed > 0 {
            call.transaction.save(&mut hash);
        }
    }
    call.reply(|reply| reply.integer(removed));
    Ok(())
}

/// What is answered of each field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Names,
    Values,
    Both,
}

/// `HGETALL key`, `HKEYS key`, `HVALS key`
async fn all(call: &mut Call<'_>, part: Part) -> Result<()> {
    let hash = call.collection(1, Tag::Hash).await?;
    let count = hash.as_ref().map_or(0, Collection::count) as usize;
    call.reply(|reply| match part {
        Part::Both => reply.map(count),
        Part::Names | Part::Values => reply.array(count),
    });
    let Some(hash) = hash else { return Ok(()) };
    let mut walk = members::Walk::new(call, &hash, FieldKind::HashField)?;
    while let Some((name, value)) = walk.next().await? {
        call.reply(|reply| {
            if part != Part::Values {
                reply.bulk(name);
            }
            if part != Part::Names {
                reply.bulk(value);
            }
        });
        call.spill().await?;
    }
    Ok(())
}

/// `HINCRBY key field increment`: what is not there is 0.
async fn add(call: &mut Call<'_>) -> Result<()> {
    let amount = call.integer(3)?;
    let name = call.argument(2);
    members::check_members([name].into_iter())?;
    let old = named_value(call).await?;
    let number = match &old {
        None => 0,
        Some(text) => number::parse_integer(text).ok_or(Failure::new("ERR hash value is not an integer"))?,
    };
    let new = number.checked_add(amount).ok_or(Failure::OVERFLOW)?;
    let mut digits = Vec::with_capacity(20);
    number::append_integer(&mut digits, new);
    let mut hash = call.collection_or_new(1, Tag::Hash).await?;
    put(call, &mut hash, name, old.as_deref(), &digits);
    call.reply(|reply| reply.integer(new));
    Ok(())
}

/// `HINCRBYFLOAT key field increment`: what is not there is 0.
async fn add_float(call: &mut Call<'_>) -> Result<()> {
    let amount = Extended::parse(call.argument(3)).ok_or(Failure::NOT_A_FLOAT)?;
    if !amount.is_finite() {
        return Err(Failure::new("ERR value is NaN or Infinity"));
    }
    let name = call.argument(2);
    members::check_members([name].into_iter())?;
    let old = named_value(call).await?;
    let number = match &old {
        None => Extended::ZERO,
        Some(text) => Extended::parse(text).ok_or(Failure::new("ERR hash value is not a float"))?,
    };
    let digits = counter::float_sum(&number, &amount)?;
    let mut hash = call.collection_or_new(1, Tag::Hash).await?;
    put(call, &mut hash, name, old.as_deref(), &digits);
    call.reply(|reply| reply.bulk(&digits));
    Ok(())
}

/// `HRANDFIELD key [count [WITHVALUES]]`
async fn random_field(call: &mut Call<'_>) -> Result<()> {
    if call.arguments.len() == 2 {
        let hash = call.collection(1, Tag::Hash).await?;
        let picked = match &hash {
            None => None,
            Some(hash) => members::one(call, hash, FieldKind::HashField).await?,
        };
        call.reply(|reply| reply.bulk_or_null(picked.as_ref().map(|(name, _)| name.as_slice())));
        return Ok(());
    }
    let count = members::signed_count(call.integer(2)?)?;
    let has_values = call.is_word(3, "withvalues");
    if call.arguments.len() > 4 || call.arguments.len() == 4 && !has_values {
        return Err(Failure::SYNTAX);
    }
    if has_values && count.unsigned_abs() > i64::MAX as u64 / 2 {
        return Err(Failure::OUT_OF_RANGE);
    }
    let hash = call.collection(1, Tag::Hash).await?;
    let total = hash.as_ref().map_or(0, Collection::count);
    let answered = members::answered_count(count, total);
    let has_pairs = has_values && call.protocol == Protocol::Resp3;
    call.reply(|reply| reply.array(answered as usize * if has_values && !has_pairs { 2 } else { 1 }));
    let Some(hash) = hash else { return Ok(()) };
    let answer = |call: &mut Call<'_>, name: &[u8], value: &[u8]| {
        call.reply(|reply| {
            if has_pairs {
                reply.array(2);
            }
            reply.bulk(name);
            if has_values {
                reply.bulk(value);
            }
        });
    };
    members::random(call, &hash, FieldKind::HashField, count, answer).await
}

/// `HSCAN key cursor [MATCH pattern] [COUNT count]`
async fn scan_fields(call: &mut Call<'_>) -> Result<()> {
    scan::cursor(call.argument(2))?;
    let hash = call.collection(1, Tag::Hash).await?;
    let options = match hash {
        Some(_) => ScanOptions::of(call, 3, false)?,
        None => ScanOptions::default(),
    };
    let step = members::step(call, hash.as_ref(), &options, FieldKind::HashField).await?;
    let found: Vec<Vec<u8>> = step.found.into_iter().flat_map(|(name, value)| [name, value]).collect();
    scan::reply_step(call, step.next, &found);
    Ok(())
}
