//! A user's key as the engine has it.

use firn_format::datatype::key::USER_KEY_BYTES_MAX;
use firn_format::datatype::{Bucket, DatabaseId, Slot, UserKey};

use crate::failure::{Failure, Result};

/// A key of a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    bytes: Vec<u8>,
    user_start: usize,
    bucket: Bucket,
    pub(crate) database: DatabaseId,
    pub(crate) slot: Slot,
}

impl Key {
    /// The user's key `user` of `database`.
    ///
    /// # Errors
    /// Too long.
    pub(crate) fn new(database: DatabaseId, user: &[u8]) -> Result<Self> {
        let Some(key) = UserKey::of(database, user) else { return Err(too_long(user)) };
        let mut bytes = Vec::with_capacity(user.len() + 16);
        key.encode(&mut bytes);
        let user_start = bytes.len() - user.len();
        Ok(Self { bytes, user_start, bucket: Bucket::of(&key), database, slot: key.slot() })
    }

    /// Whether `user` can be a key.
    ///
    /// # Errors
    /// Too long.
    pub(crate) fn check(user: &[u8]) -> Result<()> {
        if user.len() > USER_KEY_BYTES_MAX { Err(too_long(user)) } else { Ok(()) }
    }

    /// The engine's key in keyspace `keys`.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The key as the user has it.
    pub(crate) fn user(&self) -> &[u8] {
        &self.bytes[self.user_start..]
    }

    /// Where the collection map has it.
    pub(crate) fn bucket(&self) -> Bucket {
        self.bucket
    }
}

/// Appends the engine's key of the user's key `user`.
#[inline]
pub(crate) fn encode_key(database: DatabaseId, user: &[u8], out: &mut Vec<u8>) -> Result<()> {
    UserKey::of(database, user).ok_or_else(|| too_long(user))?.encode(out);
    Ok(())
}

fn too_long(user: &[u8]) -> Failure {
    let bytes = user.len();
    Failure::of(format!("ERR a key of {bytes} bytes is longer than the longest, {USER_KEY_BYTES_MAX} bytes"))
}
