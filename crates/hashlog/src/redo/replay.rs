//! From the redo logs of a process that died to the newest change of each key.

use std::collections::HashMap;
use std::sync::Arc;

use firn_engine::Result;
use firn_format::file_name::{self, FileName};
use firn_format::hybrid::Shape;
use firn_format::hybrid::redo::{
    ENTRY_HEAD_BYTES, REDO_HEADER_BYTES, RedoChange, RedoFound, RedoHeader, entry_at, next_change,
};
use firn_storage::Storage;

use crate::error::{from_format, from_storage};

/// Which of several changes of a key is the newest: that of the latest generation; there the record
/// that lay highest; there its last change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Newest {
    generation: u64,
    address: u64,
    sequence: u32,
}

/// Parts of the keys that are replayed one after another: what is remembered of each key is then in
/// memory for one part at a time.
const PARTS: u64 = 8;

/// Hands to `apply` the newest change of each key, and the operands that came after it, in the redo
/// logs of `first` and later generations. Answers the latest generation there is.
///
/// # Errors
/// `Corrupt` for a file that is no redo log of `database`, or an entry that is not whole with
/// another one behind it; those of the storage and of `apply`.
pub(crate) fn replay(
    storage: &Arc<dyn Storage>,
    database: u128,
    first: u64,
    apply: &mut dyn FnMut(&RedoChange<'_>) -> Result<()>,
) -> Result<u64> {
    let mut logs = Vec::new();
    for (name, _) in storage.list().map_err(from_storage)? {
        if let Some(FileName::Redo { generation, .. }) = file_name::parse(&name)
            && generation >= first
        {
            logs.push((generation, name));
        }
    }
    logs.sort();
    let latest = logs.last().map_or(first, |(generation, _)| *generation);
    for part in 0..PARTS {
        replay_part(storage, database, &logs, part, apply)?;
    }
    Ok(latest)
}

fn replay_part(
    storage: &Arc<dyn Storage>,
    database: u128,
    logs: &[(u64, String)],
    part: u64,
    apply: &mut dyn FnMut(&RedoChange<'_>) -> Result<()>,
) -> Result<()> {
    let is_of_part = |change: &RedoChange<'_>| {
        firn_format::key::key_hash(change.key).wrapping_add(u64::from(change.keyspace)) % PARTS == part
    };
    let mut keys: HashMap<(u32, Vec<u8>), Found> = HashMap::new();
    each_change(storage, database, logs, &mut |change, at| {
        if is_of_part(change) {
            let found = keys.entry((change.keyspace, change.key.to_vec())).or_default();
            match change.shape.is_operand {
                true => found.operands.push((at, change.shape, change.value.to_vec())),
                false => found.newest = found.newest.max(Some(at)),
            }
        }
        Ok(())
    })?;
    each_change(storage, database, logs, &mut |change, at| {
        let is_newest = !change.shape.is_operand
            && is_of_part(change)
            && keys
                .get(&(change.keyspace, change.key.to_vec()))
                .is_some_and(|found| found.newest == Some(at));
        if is_newest { apply(change) } else { Ok(()) }
    })?;
    for ((keyspace, key), mut found) in keys {
        found.operands.sort_by_key(|(at, ..)| *at);
        for (at, shape, value) in found.operands.iter().filter(|(at, ..)| Some(*at) > found.newest) {
            let (address, sequence) = (at.address, at.sequence);
            let (key, value) = (key.as_slice(), value.as_slice());
            apply(&RedoChange { address, sequence, shape: *shape, keyspace, expires_at_ms: 0, key, value })?;
        }
    }
    Ok(())
}

/// What the redo logs have of one key.
#[derive(Default)]
struct Found {
    /// Of the changes that do not depend on what was before.
    newest: Option<Newest>,
    /// Operands of merges, of which those count that are newer.
    operands: Vec<(Newest, Shape, Vec<u8>)>,
}

/// Hands every change of the `logs` to `take`.
fn each_change(
    storage: &Arc<dyn Storage>,
    database: u128,
    logs: &[(u64, String)],
    take: &mut dyn FnMut(&RedoChange<'_>, Newest) -> Result<()>,
) -> Result<()> {
    for (generation, name) in logs {
        let file = storage.open_read(name).map_err(from_storage)?;
        let mut bytes = vec![0; file.len() as usize];
        file.read_at(0, &mut bytes).map_err(from_storage)?;
        let header = RedoHeader::decode(&bytes).map_err(|error| from_format(name, error))?;
        if (header.database, header.generation) != (database, *generation) {
            let expected = format!("a redo log of this database and of generation {generation}");
            let found = format!("one of {:032x} and {}", header.database, header.generation);
            return Err(from_format(name, firn_format::Error::new(16, expected, found)));
        }
        let mut at = REDO_HEADER_BYTES;
        let entry_of = |at: usize| entry_at(bytes.get(at..).unwrap_or_default(), *generation, at as u64);
        while let RedoFound::Entry(body) = entry_of(at) {
            let mut rest = body;
            while let Some(change) =
                next_change(&mut rest).map_err(|error| from_format(name, error.based(at)))?
            {
                let (address, sequence) = (change.address, change.sequence);
                take(&change, Newest { generation: *generation, address, sequence })?;
            }
            at += ENTRY_HEAD_BYTES + body.len();
        }
        // Within one run of the machine what was written is there: a gap was made later. Loss of
        // power may leave one, before which everything that was synced lies.
        let is_same_run = header.boot != 0 && storage.boot_id() == Some(header.boot);
        let is_entry = |at: &usize| matches!(entry_of(*at), RedoFound::Entry(_));
        if is_same_run && let Some(next) = (at + 8..bytes.len()).step_by(8).find(is_entry) {
            let found = format!("one that is not whole, and another one at {next}");
            return Err(from_format(name, firn_format::Error::new(at, "an entry of a redo log", found)));
        }
    }
    Ok(())
}
