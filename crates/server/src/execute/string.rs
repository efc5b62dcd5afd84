//! Strings.

use firn_engine::{Batch, KeyspaceId};
use firn_protocol::number;

use super::Call;
use super::key::{Record, STRING_BYTES_MAX, decode_string, encode_key, keys, put_string};
use crate::failure::{Failure, Result};

/// `GET key`
pub(super) async fn get(call: &Call<'_>) -> Result<()> {
    let record = Record::read(call, call.argument(1)).await?;
    let string = record.string()?;
    call.client.reply(|reply| reply.bulk_or_null(string));
    Ok(())
}

/// What `SET` is asked for beside the value.
#[derive(Debug, Default)]
struct SetOptions {
    only_new: bool,
    only_existing: bool,
    answers_old: bool,
}

fn set_options(call: &Call<'_>) -> Result<SetOptions> {
    let mut options = SetOptions::default();
    for word in call.arguments.from(3).iter() {
        match word.to_ascii_lowercase().as_slice() {
            b"nx" if !options.only_existing => options.only_new = true,
            b"xx" if !options.only_new => options.only_existing = true,
            b"get" => options.answers_old = true,
            b"ex" | b"px" | b"exat" | b"pxat" | b"keepttl" => {
                return Err(Failure::new("ERR expiry of keys is not offered yet"));
            }
            _ => return Err(Failure::SYNTAX),
        }
    }
    Ok(options)
}

/// `SET key value [NX | XX] [GET]`
pub(super) async fn set(call: &Call<'_>) -> Result<()> {
    let options = set_options(call)?;
    let (record, _locks) = Record::lock(call, call.argument(1)).await?;
    let exists = record.value()?.is_some();
    let old = if options.answers_old { record.string()? } else { None };
    let is_set = !(options.only_new && exists || options.only_existing && !exists);
    if is_set {
        record.write_string(call, call.argument(2)).await?;
    }
    call.client.reply(|reply| match (options.answers_old, is_set) {
        (true, _) => reply.bulk_or_null(old),
        (false, true) => reply.ok(),
        (false, false) => reply.null(),
    });
    Ok(())
}

/// `SETNX key value`
pub(super) async fn set_nx(call: &Call<'_>) -> Result<()> {
    let (record, _locks) = Record::lock(call, call.argument(1)).await?;
    let is_new = record.value()?.is_none();
    if is_new {
        record.write_string(call, call.argument(2)).await?;
    }
    call.client.reply(|reply| reply.integer(i64::from(is_new)));
    Ok(())
}

/// `GETSET key value`
pub(super) async fn get_set(call: &Call<'_>) -> Result<()> {
    let (record, _locks) = Record::lock(call, call.argument(1)).await?;
    let old = record.string()?;
    record.write_string(call, call.argument(2)).await?;
    call.client.reply(|reply| reply.bulk_or_null(old));
    Ok(())
}

/// `GETDEL key`
pub(super) async fn get_del(call: &Call<'_>) -> Result<()> {
    let (record, _locks) = Record::lock(call, call.argument(1)).await?;
    let old = record.string()?;
    if old.is_some() {
        record.delete(call).await?;
    }
    call.client.reply(|reply| reply.bulk_or_null(old));
    Ok(())
}

/// `MGET key [key ...]`: what is no string is as if it were not there. One moment for all keys.
pub(super) async fn multi_get(call: &Call<'_>) -> Result<()> {
    let (mut bytes, mut ends) = (Vec::new(), Vec::new());
    for key in call.arguments.from(1).iter() {
        encode_key(call, key, &mut bytes)?;
        ends.push(bytes.len());
    }
    let mut start = 0;
    let keys_wanted: Vec<&[u8]> = ends
        .iter()
        .map(|end| bytes.get(std::mem::replace(&mut start, *end)..*end).unwrap_or_default())
        .collect();
    let values = call.worker.multi_get(keys(call), &keys_wanted).await?;
    call.client.reply(|reply| {
        reply.array(values.len());
        for value in values.iter() {
            reply.bulk_or_null(value.and_then(|value| decode_string(value).ok()));
        }
    });
    Ok(())
}

/// The pairs of `MSET` as one batch.
fn pairs(call: &Call<'_>) -> Result<Batch> {
    if call.arguments.len().is_multiple_of(2) {
        let name = String::from_utf8_lossy(call.argument(0)).to_lowercase();
        return Err(Failure::of(format!("ERR wrong number of arguments for '{name}' command")));
    }
    let (mut batch, mut key) = (Batch::new(), Vec::new());
    for index in (1..call.arguments.len()).step_by(2) {
        key.clear();
        encode_key(call, call.argument(index), &mut key)?;
        put_string(&mut batch, keys(call), &key, call.argument(index + 1))?;
    }
    Ok(batch)
}

fn locked(batch: &Batch) -> Vec<(KeyspaceId, &[u8])> {
    batch.ops().map(|op| (op.keyspace, op.key)).collect()
}

/// `MSET key value [key value ...]`: all of them or none.
pub(super) async fn multi_set(call: &Call<'_>) -> Result<()> {
    let batch = pairs(call)?;
    let _locks = call.worker.lock(&locked(&batch)).await?;
    call.worker.write(&batch).await?;
    call.client.reply(|reply| reply.ok());
    Ok(())
}

/// `MSETNX key value [key value ...]`: all of them if none of the keys exists.
pub(super) async fn multi_set_nx(call: &Call<'_>) -> Result<()> {
    let batch = pairs(call)?;
    let _locks = call.worker.lock(&locked(&batch)).await?;
    let wanted: Vec<&[u8]> = batch.ops().map(|op| op.key).collect();
    let values = call.worker.multi_get(keys(call), &wanted).await?;
    let are_new = values.iter().all(|value| value.is_none());
    if are_new {
        call.worker.write(&batch).await?;
    }
    call.client.reply(|reply| reply.integer(i64::from(are_new)));
    Ok(())
}

/// `STRLEN key`
pub(super) async fn strlen(call: &Call<'_>) -> Result<()> {
    let record = Record::read(call, call.argument(1)).await?;
    let bytes = record.string()?.map_or(0, <[u8]>::len);
    call.client.reply(|reply| reply.integer(bytes as i64));
    Ok(())
}

/// `APPEND key value`
pub(super) async fn append(call: &Call<'_>) -> Result<()> {
    let (record, _locks) = Record::lock(call, call.argument(1)).await?;
    let string = [record.string()?.unwrap_or_default(), call.argument(2)].concat();
    if string.len() > STRING_BYTES_MAX {
        return Err(Failure::TOO_LONG_STRING);
    }
    record.write_string(call, &string).await?;
    call.client.reply(|reply| reply.integer(string.len() as i64));
    Ok(())
}

/// `GETRANGE key start end`: both ends included, negative ones counted from the end.
pub(super) async fn get_range(call: &Call<'_>) -> Result<()> {
    let start = number::parse_integer(call.argument(2)).ok_or(Failure::NOT_AN_INTEGER)?;
    let end = number::parse_integer(call.argument(3)).ok_or(Failure::NOT_AN_INTEGER)?;
    let record = Record::read(call, call.argument(1)).await?;
    let string = record.string()?.unwrap_or_default();
    let part = string.get(range(string.len(), start, end)).unwrap_or_default();
    call.client.reply(|reply| reply.bulk(part));
    Ok(())
}

/// The part of `len` bytes from `start` to `end`, as clients count.
fn range(len: usize, start: i64, end: i64) -> std::ops::Range<usize> {
    let len = len as i64;
    if start < 0 && end < 0 && start > end {
        return 0..0;
    }
    let from_end = |index: i64| if index < 0 { index.saturating_add(len).max(0) } else { index };
    let (start, end) = (from_end(start), from_end(end).min(len - 1));
    if start > end || len == 0 { 0..0 } else { start as usize..end as usize + 1 }
}

/// `SETRANGE key offset value`: zeros where there was nothing.
pub(super) async fn set_range(call: &Call<'_>) -> Result<()> {
    let offset = number::parse_integer(call.argument(2)).ok_or(Failure::NOT_AN_INTEGER)?;
    let offset = usize::try_from(offset).map_err(|_| Failure::OFFSET)?;
    let part = call.argument(3);
    let (record, _locks) = Record::lock(call, call.argument(1)).await?;
    let old = record.string()?.unwrap_or_default();
    if part.is_empty() {
        let bytes = old.len() as i64;
        call.client.reply(|reply| reply.integer(bytes));
        return Ok(());
    }
    let end = offset.checked_add(part.len()).filter(|end| *end <= STRING_BYTES_MAX);
    let end = end.ok_or(Failure::TOO_LONG_STRING)?;
    let mut string = old.to_vec();
    string.resize(string.len().max(end), 0);
    string[offset..end].copy_from_slice(part);
    record.write_string(call, &string).await?;
    call.client.reply(|reply| reply.integer(string.len() as i64));
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
