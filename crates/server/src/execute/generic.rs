//! Keys, whatever stands there.

use firn_engine::{Batch, KeyspaceId};
use firn_format::datatype::Value;

use super::Call;
use super::key::{Record, encode_key, keys};
use crate::failure::Result;

/// The engine's keys of the command's keys from argument 1 on.
fn encoded(call: &Call<'_>) -> Result<Vec<Vec<u8>>> {
    let encode = |key| {
        let mut out = Vec::new();
        encode_key(call, key, &mut out).map(|()| out)
    };
    call.arguments.from(1).iter().map(encode).collect()
}

/// `DEL key [key ...]`, `UNLINK key [key ...]`: how many there were.
pub(super) async fn del(call: &Call<'_>) -> Result<()> {
    let mut wanted = encoded(call)?;
    wanted.sort_unstable();
    wanted.dedup();
    let named: Vec<(KeyspaceId, &[u8])> = wanted.iter().map(|key| (keys(call), &key[..])).collect();
    let _locks = call.worker.lock(&named).await?;
    let slices: Vec<&[u8]> = wanted.iter().map(Vec::as_slice).collect();
    let values = call.worker.multi_get(keys(call), &slices).await?;
    let mut batch = Batch::new();
    for (key, value) in slices.iter().zip(values.iter()) {
        if value.is_some() {
            batch.delete(keys(call), key);
        }
    }
    call.worker.write(&batch).await?;
    call.client.reply(|reply| reply.integer(batch.len() as i64));
    Ok(())
}

/// `EXISTS key [key ...]`, `TOUCH key [key ...]`: how many of the names are those of keys; one named twice counts twice.
pub(super) async fn exists(call: &Call<'_>) -> Result<()> {
    let wanted = encoded(call)?;
    let slices: Vec<&[u8]> = wanted.iter().map(Vec::as_slice).collect();
    let values = call.worker.multi_get(keys(call), &slices).await?;
    let count = values.iter().filter(Option::is_some).count();
    call.client.reply(|reply| reply.integer(count as i64));
    Ok(())
}

/// `TYPE key`
pub(super) async fn type_of(call: &Call<'_>) -> Result<()> {
    let record = Record::read(call, call.argument(1)).await?;
    let name = match record.value()? {
        None => "none",
        Some(Value::String { .. } | Value::LongString { .. }) => "string",
        Some(Value::Hash(_)) => "hash",
        Some(Value::List { .. }) => "list",
        Some(Value::Set(_)) => "set",
        Some(Value::SortedSet(_)) => "zset",
    };
    call.client.reply(|reply| reply.simple(name));
    Ok(())
}
