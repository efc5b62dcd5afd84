//! Keys and values between users and the engine.

use firn_engine::{Batch, KeyLocks, KeyspaceId, Op, OpKind};
use firn_format::datatype::key::USER_KEY_BYTES_MAX;
use firn_format::datatype::{UserKey, Value};

use super::Call;
use crate::failure::{Failure, Result};

/// Longest string, as clients know it.
pub(super) const STRING_BYTES_MAX: usize = 512 << 20;

/// Appends the engine's key for the user's key `key` in the client's database.
#[inline]
pub(super) fn encode_key(call: &Call<'_>, key: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let (_, database) = call.client.database.get();
    match UserKey::of(database, key) {
        Some(key) => {
            key.encode(out);
            Ok(())
        }
        None => Err(Failure::of(format!(
            "ERR a key of {} bytes is longer than the longest, {USER_KEY_BYTES_MAX} bytes",
            key.len()
        ))),
    }
}

/// The value of a record, or what is wrong with it.
pub(super) fn decode_value(bytes: &[u8]) -> Result<Value<'_>> {
    Value::decode(bytes).map_err(|error| Failure::of(format!("ERR the record is damaged: {error}")))
}

/// The string that a record holds, or `WRONGTYPE`.
#[inline]
pub(super) fn decode_string(bytes: &[u8]) -> Result<&[u8]> {
    match decode_value(bytes)? {
        Value::String { bytes, .. } => Ok(bytes),
        _ => Err(Failure::WRONG_TYPE),
    }
}

/// A key of a command, in the engine's form, and the record that stands there.
#[derive(Debug, Default)]
pub(super) struct Record {
    key: Vec<u8>,
    value: Vec<u8>,
    found: bool,
}

impl Record {
    /// Reads the record of the user's key `key`.
    pub(super) async fn read(call: &Call<'_>, key: &[u8]) -> Result<Self> {
        let mut record = Self::default();
        encode_key(call, key, &mut record.key)?;
        record.load(call).await?;
        Ok(record)
    }

    /// Locks the user's key `key` and reads its record: who changes it must hold the lock until it is written.
    pub(super) async fn lock(call: &Call<'_>, key: &[u8]) -> Result<(Self, KeyLocks)> {
        let mut record = Self::default();
        encode_key(call, key, &mut record.key)?;
        let locks = call.worker.lock(&[(keys(call), &record.key)]).await?;
        record.load(call).await?;
        Ok((record, locks))
    }

    async fn load(&mut self, call: &Call<'_>) -> Result<()> {
        self.found = call.worker.get(keys(call), &self.key, &mut self.value).await?;
        Ok(())
    }

    /// The string it holds; `None` if there is no record, `WRONGTYPE` if it is none.
    pub(super) fn string(&self) -> Result<Option<&[u8]>> {
        if self.found { decode_string(&self.value).map(Some) } else { Ok(None) }
    }

    /// What it holds.
    pub(super) fn value(&self) -> Result<Option<Value<'_>>> {
        if self.found { decode_value(&self.value).map(Some) } else { Ok(None) }
    }

    /// Replaces it by a string.
    pub(super) async fn write_string(&self, call: &Call<'_>, string: &[u8]) -> Result<()> {
        let mut batch = Batch::new();
        put_string(&mut batch, keys(call), &self.key, string)?;
        call.worker.write(&batch).await
    }

    /// Deletes it.
    pub(super) async fn delete(&self, call: &Call<'_>) -> Result<()> {
        let mut batch = Batch::new();
        batch.delete(keys(call), &self.key);
        call.worker.write(&batch).await
    }
}

/// The keyspace with one record a key.
#[inline]
pub(super) fn keys(call: &Call<'_>) -> KeyspaceId {
    call.worker.shared.database.keys
}

/// Adds to `batch` that the engine's key `key` holds `string`.
#[inline]
pub(super) fn put_string(batch: &mut Batch, keyspace: KeyspaceId, key: &[u8], string: &[u8]) -> Result<()> {
    if string.len() > STRING_BYTES_MAX {
        return Err(Failure::TOO_LONG_STRING);
    }
    let mut value = Vec::with_capacity(string.len() + 1);
    Value::String { bytes: string, expires_at_ms: 0 }.encode(&mut value);
    batch.push(Op { keyspace, kind: OpKind::Put, key, value: &value, expires_at_ms: 0 });
    Ok(())
}
