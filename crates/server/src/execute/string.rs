//! Strings.

use std::borrow::Cow;
use std::ops::Range;

use firn_protocol::command::{CommandId, id_of};

use super::call::Call;
use super::expiry::{Deadline, deadline};
use super::request::Request;
use super::{counter, lcs};
use crate::bounds::READ_TOGETHER_MAX;
use crate::failure::{Failure, Result};
use crate::server_thread::Turns;
use crate::statistics::Measure;
use crate::transaction::{Entry, Key, encode_key};
use firn_engine::ReadAt;
use firn_format::datatype::Value;

pub(super) async fn dispatch(call: &mut Call<'_>) -> Result<()> {
    const APPEND: CommandId = id_of("append");
    const DECR: CommandId = id_of("decr");
    const DECRBY: CommandId = id_of("decrby");
    const GET: CommandId = id_of("get");
    const GETDEL: CommandId = id_of("getdel");
    const GETEX: CommandId = id_of("getex");
    const GETRANGE: CommandId = id_of("getrange");
    const GETSET: CommandId = id_of("getset");
    const INCR: CommandId = id_of("incr");
    const INCRBY: CommandId = id_of("incrby");
    const INCRBYFLOAT: CommandId = id_of("incrbyfloat");
    const LCS: CommandId = id_of("lcs");
    const MGET: CommandId = id_of("mget");
    const MSET: CommandId = id_of("mset");
    const MSETNX: CommandId = id_of("msetnx");
    const PSETEX: CommandId = id_of("psetex");
    const SET: CommandId = id_of("set");
    const SETEX: CommandId = id_of("setex");
    const SETNX: CommandId = id_of("setnx");
    const SETRANGE: CommandId = id_of("setrange");
    const STRLEN: CommandId = id_of("strlen");
    const SUBSTR: CommandId = id_of("substr");
    match call.command.id() {
        GET => get(call).await,
        SET => set(call).await,
        SETEX | PSETEX => set_ex(call).await,
        GETSET => get_set(call).await,
        GETDEL => get_del(call).await,
        GETEX => get_ex(call).await,
        SETNX => set_nx(call).await,
        MGET => multi_get(call).await,
        MSET => multi_set(call).await,
        MSETNX => multi_set_nx(call).await,
        STRLEN => strlen(call).await,
        APPEND => append(call).await,
        GETRANGE | SUBSTR => get_range(call).await,
        SETRANGE => set_range(call).await,
        LCS => lcs::lcs(call).await,
        INCR => counter::add(call, 1).await,
        DECR => counter::add(call, -1).await,
        INCRBY => counter::add(call, call.integer(2)?).await,
        DECRBY => counter::add(call, counter::negated(call.integer(2)?)?).await,
        INCRBYFLOAT => counter::add_float(call).await,
        _ => Err(call.not_offered()),
    }
}

/// `GET key`, where the string is all in one record or there is none: `false` if there is more to
/// it.
///
/// The most frequent command: no transaction, no allocation once the buffers have grown.
pub(super) async fn get_at_once(request: &Request<'_>) -> bool {
    let thread = request.thread;
    let (mut key, mut value) = thread.take_buffers();
    let is_done = 'done: {
        if encode_key(request.database_id(), request.argument(1), &mut key).is_err() {
            break 'done false;
        }
        let keyspace = thread.shared.store.keyspaces.keys;
        match thread.engine.get_at(ReadAt::Latest, keyspace, &key, &mut value).await {
            Err(failure) => {
                thread.counters().failed(Some(super::GET), true, failure.code());
                request.client.reply(|reply| reply.error(failure.line()));
            }
            Ok(false) => {
                thread.counters().add(Measure::Misses, 1);
                request.client.reply(|reply| reply.null());
            }
            Ok(true) => match Value::decode(&value) {
                Ok(Value::String { bytes, expires_at_ms }) => {
                    let is_live = expires_at_ms == 0 || thread.now_ms() < expires_at_ms;
                    if !is_live {
                        thread.note_expired(&key, expires_at_ms);
                    }
                    thread.counters().add(if is_live { Measure::Hits } else { Measure::Misses }, 1);
                    request.client.reply(|reply| reply.bulk_or_null(is_live.then_some(bytes)));
                }
                _ => break 'done false,
            },
        }
        true
    };
    thread.give_buffers(key, value);
    is_done
}

/// Bytes of a string that are read and answered at once.
const PIECE_BYTES: usize = 1 << 20;

/// Answers the string at `entry`, or that there is none.
async fn reply_string(call: &mut Call<'_>, entry: &Entry) -> Result<()> {
    match call.transaction.string_len(entry)? {
        None => call.reply(|reply| reply.null()),
        Some(len) => reply_part(call, entry, 0..len).await?,
    }
    Ok(())
}

/// The string at `entry`, of which all will be answered.
async fn whole<'e>(call: &mut Call<'_>, entry: &'e Entry) -> Result<Option<Cow<'e, [u8]>>> {
    call.check_reply_with(call.transaction.string_len(entry)?.unwrap_or(0))?;
    call.transaction.string(entry).await
}

/// Answers a part of the string at `entry`, which has it: a long one piece by piece.
async fn reply_part(call: &mut Call<'_>, entry: &Entry, part: Range<usize>) -> Result<()> {
    if part.len() <= PIECE_BYTES {
        let string = call.transaction.string_range(entry, part).await?;
        call.reply(|reply| reply.bulk(&string));
        return Ok(());
    }
    call.reply(|reply| reply.bulk_head(part.len()));
    let mut turns = Turns::new(call.thread);
    for start in part.clone().step_by(PIECE_BYTES) {
        let piece = start..part.end.min(start + PIECE_BYTES);
        let string = call.transaction.string_range(entry, piece).await?;
        call.reply(|reply| reply.raw(&string));
        turns.step(string.len()).await;
        call.spill().await?;
    }
    call.reply(|reply| reply.bulk_end());
    Ok(())
}

async fn get(call: &mut Call<'_>) -> Result<()> {
    let entry = call.entry(1).await?;
    reply_string(call, &entry).await
}

/// What `SET` is asked for beside the value.
#[derive(Debug, Default)]
struct SetOptions {
    only_new: bool,
    only_existing: bool,
    answers_old: bool,
    keeps_expiry: bool,
    /// 0 = never.
    expires_at_ms: u64,
}

fn set_options(call: &Call<'_>) -> Result<SetOptions> {
    let mut options = SetOptions::default();
    let mut expiry = None;
    let mut index = 3;
    while index < call.arguments.len() {
        match call.argument(index).to_ascii_lowercase().as_slice() {
            b"nx" if !options.only_existing => options.only_new = true,
            b"xx" if !options.only_new => options.only_existing = true,
            b"get" => options.answers_old = true,
            b"keepttl" if expiry.is_none() => options.keeps_expiry = true,
            word if !options.keeps_expiry => index = expiry_option(call, index, word, &mut expiry)?,
            _ => return Err(Failure::SYNTAX),
        }
        index += 1;
    }
    if let Some((index, kind)) = expiry {
        options.expires_at_ms = deadline(call, index, kind)?;
    }
    Ok(options)
}

/// Takes the option `word` at `index`, which says when the key expires; where its number is. Of one
/// word the last holds, and it is looked at once all options are known.
fn expiry_option(
    call: &Call<'_>,
    index: usize,
    word: &[u8],
    expiry: &mut Option<(usize, Deadline)>,
) -> Result<usize> {
    let kind = Deadline::of_word(word).ok_or(Failure::SYNTAX)?;
    let is_first = expiry.is_none_or(|(_, known)| known == kind);
    if !is_first || index + 1 >= call.arguments.len() {
        return Err(Failure::SYNTAX);
    }
    *expiry = Some((index + 1, kind));
    Ok(index + 1)
}

/// `SET key value [NX | XX] [GET] [EX s | PX ms | EXAT s | PXAT ms | KEEPTTL]`
async fn set(call: &mut Call<'_>) -> Result<()> {
    let options = set_options(call)?;
    let entry = call.entry(1).await?;
    let exists = entry.exists();
    let old = match options.answers_old {
        true => whole(call, &entry).await?,
        false => None,
    };
    let is_set = !(options.only_new && exists || options.only_existing && !exists);
    if is_set {
        let expires_at_ms = if options.keeps_expiry { entry.expires_at_ms()? } else { options.expires_at_ms };
        let value = call.argument(2);
        call.transaction.set_string(&entry, value, expires_at_ms).await?;
    }
    call.reply(|reply| match (options.answers_old, is_set) {
        (true, _) => reply.bulk_or_null(old.as_deref()),
        (false, true) => reply.ok(),
        (false, false) => reply.null(),
    });
    Ok(())
}

/// `SETEX key seconds value`, `PSETEX key milliseconds value`
async fn set_ex(call: &mut Call<'_>) -> Result<()> {
    let kind = if call.is_word(0, "setex") { Deadline::InSeconds } else { Deadline::InMs };
    let expires_at_ms = deadline(call, 2, kind)?;
    let entry = call.entry(1).await?;
    let value = call.argument(3);
    call.transaction.set_string(&entry, value, expires_at_ms).await?;
    call.reply(|reply| reply.ok());
    Ok(())
}

/// `SETNX key value`
async fn set_nx(call: &mut Call<'_>) -> Result<()> {
    let entry = call.entry(1).await?;
    let is_new = !entry.exists();
    if is_new {
        let value = call.argument(2);
        call.transaction.set_string(&entry, value, 0).await?;
    }
    call.reply(|reply| reply.integer(i64::from(is_new)));
    Ok(())
}

/// `GETSET key value`
async fn get_set(call: &mut Call<'_>) -> Result<()> {
    let entry = call.entry(1).await?;
    reply_string(call, &entry).await?;
    let value = call.argument(2);
    call.transaction.set_string(&entry, value, 0).await
}

/// `GETDEL key`
async fn get_del(call: &mut Call<'_>) -> Result<()> {
    let entry = call.entry(1).await?;
    reply_string(call, &entry).await?;
    call.transaction.remove(&entry).await
}

/// `GETEX key [EX s | PX ms | EXAT s | PXAT ms | PERSIST]`
async fn get_ex(call: &mut Call<'_>) -> Result<()> {
    let (mut expiry, mut is_persistent) = (None, false);
    let mut index = 2;
    while index < call.arguments.len() {
        match call.argument(index).to_ascii_lowercase().as_slice() {
            b"persist" if expiry.is_none() => is_persistent = true,
            word if !is_persistent => index = expiry_option(call, index, word, &mut expiry)?,
            _ => return Err(Failure::SYNTAX),
        }
        index += 1;
    }
    let entry = call.entry(1).await?;
    let string = whole(call, &entry).await?;
    if string.is_some() {
        // Refused only where there is something that could expire.
        let expires_at_ms = expiry.map(|(index, kind)| deadline(call, index, kind)).transpose()?;
        match expires_at_ms.or(is_persistent.then_some(0)) {
            Some(at_ms) if at_ms != 0 && at_ms <= call.transaction.now_ms() => {
                call.transaction.remove(&entry).await?;
            }
            // What does not expire stays as it is.
            Some(0) if entry.expires_at_ms()? == 0 => {}
            Some(at_ms) => call.transaction.set_expiry(&entry, at_ms)?,
            None => {}
        }
    }
    call.reply(|reply| reply.bulk_or_null(string.as_deref()));
    Ok(())
}

/// Keys of `MGET` that are read together: what they hold is in memory at once.
const KEYS_AT_ONCE: usize = 128;

/// `MGET key [key ...]`: what is no string is as if it were not there. One moment for all keys.
async fn multi_get(call: &mut Call<'_>) -> Result<()> {
    let mut words = call.arguments.from(1);
    words.iter().try_for_each(Key::check)?;
    call.reply(|reply| reply.array(words.len()));
    let (database, mut turns) = (call.database().id, Turns::new(call.thread));
    while !words.is_empty() {
        let some = words.iter().take(KEYS_AT_ONCE).map(|user| Key::new(database, user));
        let mut some = some.collect::<Result<Vec<Key>>>()?.into_iter();
        while some.len() > 0 {
            for entry in call.transaction.some_entries(&mut some).await? {
                match call.transaction.string_len(&entry) {
                    Ok(_) => reply_string(call, &entry).await?,
                    Err(_) => call.reply(|reply| reply.null()),
                }
                turns.step(entry.record_bytes()).await;
                call.spill().await?;
            }
        }
        words = words.from(KEYS_AT_ONCE);
    }
    Ok(())
}

/// Sets every pair of the arguments, of which the last of a key holds.
async fn set_pairs(call: &mut Call<'_>) -> Result<()> {
    let mut turns = Turns::new(call.thread);
    for index in (1..call.arguments.len()).step_by(2) {
        let key = call.key(index)?;
        let entry = call.transaction.entry_to_replace(key).await?;
        let value = call.argument(index + 1);
        call.transaction.set_string(&entry, value, 0).await?;
        turns.step(value.len()).await;
    }
    Ok(())
}

fn check_pairs(call: &Call<'_>) -> Result<()> {
    if call.arguments.len().is_multiple_of(2) { Err(call.wrong_arguments()) } else { Ok(()) }
}

/// `MSET key value [key value ...]`: all of them or none.
async fn multi_set(call: &mut Call<'_>) -> Result<()> {
    check_pairs(call)?;
    set_pairs(call).await?;
    call.reply(|reply| reply.ok());
    Ok(())
}

/// `MSETNX key value [key value ...]`: all of them if none of the keys exists.
async fn multi_set_nx(call: &mut Call<'_>) -> Result<()> {
    check_pairs(call)?;
    let (mut are_new, mut words) = (true, call.arguments.from(1));
    let mut turns = Turns::new(call.thread);
    while are_new && !words.is_empty() {
        let keys = words.iter().step_by(2).take(READ_TOGETHER_MAX).map(|user| call.key_of(user));
        let entries = call.transaction.entries(keys.collect::<Result<_>>()?).await?;
        are_new = !entries.iter().any(Entry::exists);
        turns.step(READ_TOGETHER_MAX * size_of::<Entry>()).await;
        words = words.from(2 * READ_TOGETHER_MAX);
    }
    if are_new {
        set_pairs(call).await?;
    }
    call.reply(|reply| reply.integer(i64::from(are_new)));
    Ok(())
}

/// `STRLEN key`
async fn strlen(call: &mut Call<'_>) -> Result<()> {
    let entry = call.entry(1).await?;
    let bytes = call.transaction.string_len(&entry)?.unwrap_or(0);
    call.reply(|reply| reply.integer(bytes as i64));
    Ok(())
}

/// `APPEND key value`
async fn append(call: &mut Call<'_>) -> Result<()> {
    let entry = call.entry(1).await?;
    let end = call.transaction.string_len(&entry)?.unwrap_or(0);
    let value = call.argument(2);
    let bytes = match value.is_empty() && entry.exists() {
        true => {
            // As in Redis, clients that watch the string are told that it was written, even if
            // nothing was.
            call.transaction.touch(&entry.key);
            end
        }
        false => call.transaction.write_string(&entry, end, value).await?,
    };
    call.reply(|reply| reply.integer(bytes as i64));
    Ok(())
}

/// `GETRANGE key start end`: both ends included, negative ones counted from the end.
async fn get_range(call: &mut Call<'_>) -> Result<()> {
    let (start, end) = (call.integer(2)?, call.integer(3)?);
    let entry = call.entry(1).await?;
    let len = call.transaction.string_len(&entry)?.unwrap_or(0);
    match call.transaction.string_len(&entry)? {
        None => call.reply(|reply| reply.bulk(b"")),
        Some(_) => reply_part(call, &entry, range(len, start, end)).await?,
    }
    Ok(())
}

/// The part of `len` bytes from `start` to `end`, as clients count.
fn range(len: usize, start: i64, end: i64) -> Range<usize> {
    let len = len as i64;
    if start < 0 && end < 0 && start > end {
        return 0..0;
    }
    let from_end = |index: i64| if index < 0 { index.saturating_add(len).max(0) } else { index };
    let (start, end) = (from_end(start), from_end(end).min(len - 1));
    if start > end || len == 0 { 0..0 } else { start as usize..end as usize + 1 }
}

/// `SETRANGE key offset value`: zeros where there was nothing.
async fn set_range(call: &mut Call<'_>) -> Result<()> {
    let offset = usize::try_from(call.integer(2)?).map_err(|_| Failure::OFFSET)?;
    let part = call.argument(3);
    let entry = call.entry(1).await?;
    let old_len = call.transaction.string_len(&entry)?.unwrap_or(0);
    let len = match part.is_empty() {
        true => old_len,
        false
            if offset.checked_add(part.len()).is_none_or(|end| end > call.transaction.string_bytes_max()) =>
        {
            return Err(Failure::TOO_LONG_STRING);
        }
        false => call.transaction.write_string(&entry, offset, part).await?,
    };
    call.reply(|reply| reply.integer(len as i64));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_counted_as_clients_do() {
        let cases = [
            (5, 0, 2, "hel"),
            (5, 0, -1, "hello"),
            (5, -3, -1, "llo"),
            (5, -3, -4, ""),
            (5, 3, 1, ""),
            (5, 10, 20, ""),
            (5, -100, 100, "hello"),
            (0, 0, -1, ""),
            (5, 4, 4, "o"),
            (5, -1, 0, ""),
            (5, i64::MIN, i64::MAX, "hello"),
        ];
        for (len, start, end, expected) in cases {
            assert_eq!(&"hello"[range(len, start, end)], expected, "{start} {end} of {len}");
        }
    }
}
