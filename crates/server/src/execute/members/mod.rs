//! What hashes, sets and sorted sets have in common: their members lie in the order of their
//! hashes.
//!
//! So a walk can go on from a hash, and a random hash leads to a random member. A field of a hash
//! is a member here.

mod random;
mod step;

use firn_format::datatype::field::MEMBER_BYTES_MAX;
use firn_format::datatype::{FieldKind, is_member};

use super::call::Call;
use crate::failure::{Failure, Result};
use crate::transaction::{Collection, Cursor};

pub(super) use random::{answered_count, distinct, one, random, signed_count};
pub(super) use step::step;

/// Collections of at most so many members are walked as a whole where only some are asked for.
pub(super) const SMALL_COUNT: u64 = 128;

/// Refuses members that are too long, before anything is written.
pub(super) fn check_members<'a>(mut members: impl Iterator<Item = &'a [u8]>) -> Result<()> {
    match members.find(|member| !is_member(member)) {
        None => Ok(()),
        Some(member) => Err(Failure::of(format!(
            "ERR a field or member of {} bytes is longer than the longest, {MEMBER_BYTES_MAX} bytes",
            member.len()
        ))),
    }
}

/// A walk over members with what is stored of each.
pub(super) struct Walk {
    cursor: Cursor,
    collection: Collection,
}

impl Walk {
    /// Over the members of `kind` from a hash on.
    pub(super) fn from_hash(
        call: &mut Call<'_>,
        collection: &Collection,
        kind: FieldKind,
        hash: u32,
    ) -> Result<Self> {
        let cursor = call.transaction.fields_from_hash(collection, kind, hash)?;
        Ok(Self { cursor, collection: collection.clone() })
    }

    /// Over all of them.
    pub(super) fn new(call: &mut Call<'_>, collection: &Collection, kind: FieldKind) -> Result<Self> {
        let cursor = call.transaction.fields(collection, kind)?;
        Ok(Self { cursor, collection: collection.clone() })
    }

    /// The next member and its value; `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        let Some((key, value)) = self.cursor.next().await? else { return Ok(None) };
        Ok(Some((self.collection.field_of(key)?.member(), value)))
    }
}
