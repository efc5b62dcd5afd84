//! The log of a machine that may be gone, out of its groups.

use std::collections::BTreeMap;
use std::sync::Arc;

use firn_engine::{Error, ErrorKind, Place, Result};
use firn_format::Position;
use firn_format::file_name::{self, FileName};
use firn_format::group::{Group, GroupId, Piece, PieceOf};
use firn_format::key::GRANULE_BYTES;
use firn_storage::{Spawn, Storage, WriteFile};

use crate::error::{from_format, from_storage};
use crate::log::segment::Graveyard;
use crate::recovery::{RecoveredLog, known_end, recover_log};
use crate::values::FoundValues;
use crate::version::manifest::{Manifest, publish_until_told};
use crate::version::state::{NamedGroups, State};

/// What was restored.
#[derive(Debug)]
pub(crate) struct Restored {
    /// Where the log ends in the groups, or where an opening cut it since.
    pub(crate) end: Position,
}

/// Files of segments that are being restored, by name.
type Files = BTreeMap<String, Arc<dyn WriteFile>>;

/// Makes the files of the log, and of value segments that no edit names, as the groups of `named` have them.
/// From then on no group of that generation can be added. Blocks for a request each, and for syncs.
///
/// What lies in the local part is of an earlier time, and is removed.
///
/// # Errors
/// `Corrupt` with file and offset for a group that is not what was written. `Closed` if an edit was written since the manifest was read, which the
/// manifest tells, too. What reading and writing say.
pub(crate) fn restore(
    storage: &dyn Storage,
    manifest: &mut Manifest,
    named: NamedGroups,
) -> Result<Restored> {
    let NamedGroups { generation, first, cut } = named;
    // By an old list it could be this machine's log that is needed.
    if !manifest.is_current() {
        return Err(not_current(manifest));
    }
    let listed = remove_earlier(storage, generation)?;
    let state = manifest.state().clone();
    let (mut files, mut end) = (Files::new(), Position(0));
    let mut number = first;
    loop {
        let id = GroupId { database: state.database, generation, number };
        let name = file_name::group(generation, number);
        let Some(bytes) = read_group(storage, &name)? else {
            if listed.is_some_and(|last| last > number) {
                return Err(missing(manifest, name));
            }
            match publish_until_told(storage, &name, &id.encode_end()) {
                Ok(()) => break,
                // The one before has created a group, or somebody else who takes over the end.
                Err(error) if error.kind == firn_storage::ErrorKind::Exists => continue,
                Err(error) => return Err(from_storage(error)),
            }
        };
        let group = Group::decode(&bytes).map_err(|error| from_format(&name, 0, &error))?;
        if group.id != id {
            let place = Place { file: name, offset: Some(16) };
            return Err(Error::corrupt(place, format!("expected {id:?}, found {:?}", group.id)));
        }
        let Some(pieces) = group.pieces else { break };
        for piece in &pieces {
            write_piece(storage, &state, piece, &mut files)?;
            if let PieceOf::Log(header) = piece.segment {
                end = end.max(Position(header.base.0 + piece.offset + piece.bytes.len() as u64));
            }
        }
        number += 1;
    }
    files.values().try_for_each(|file| file.sync()).map_err(from_storage)?;
    storage.sync_dir().map_err(from_storage)?;
    // An opening after those groups may have found less.
    Ok(Restored { end: end.min(cut) })
}

/// The log as it was restored; this machine's goes on behind all that the manifest knows of.
///
/// # Errors
/// As [`recover_log`]: all of it was acknowledged.
pub(crate) fn recover_restored(
    storage: &Arc<dyn Storage>,
    state: &State,
    values: &FoundValues,
    graveyard: &Arc<Graveyard>,
    spawn: Option<&Arc<dyn Spawn>>,
    restored: &Restored,
) -> Result<RecoveredLog> {
    // What was on the other machine's device, and in no group, is given up.
    let known = State { durable_through: restored.end, cut: restored.end, ..state.clone() };
    let mut recovered = recover_log(storage, &known, values, graveyard, spawn, true)?;
    let behind = Position(known_end(state).0.next_multiple_of(GRANULE_BYTES));
    recovered.next_base = recovered.next_base.max(behind);
    Ok(recovered)
}

/// Removes segments that lie on this machine: the log is another one's by now. The greatest number of a group of `generation` that is there.
fn remove_earlier(storage: &dyn Storage, generation: u64) -> Result<Option<u64>> {
    let mut last = None;
    for (name, _) in storage.list().map_err(from_storage)? {
        match file_name::parse(&name) {
            Some(FileName::LogSegment(_) | FileName::ValueSegment(_)) => {
                storage.remove(&name).map_err(from_storage)?;
            }
            Some(FileName::Group { generation: of, number }) if of == generation => {
                last = last.max(Some(number))
            }
            _ => {}
        }
    }
    Ok(last)
}

/// The group `name` is not there, and a later one is: it was removed, since an edit says that it is needed no more, or lost.
fn missing(manifest: &mut Manifest, name: String) -> Error {
    if manifest.is_current() {
        let place = Place { file: name, offset: None };
        return Error::corrupt(
            place,
            "the group is missing: the manifest names the first, and a later one is there",
        );
    }
    not_current(manifest)
}

fn not_current(manifest: &Manifest) -> Error {
    let told = "whether the database was written to while it was taken over cannot be told: try again";
    manifest.failure().unwrap_or_else(|| Error::new(ErrorKind::Retry, told))
}

/// The bytes of the group `name`; `None` if there is none.
fn read_group(storage: &dyn Storage, name: &str) -> Result<Option<Vec<u8>>> {
    let read = storage.open_read(name).and_then(|file| {
        let mut bytes = vec![0; file.len() as usize];
        file.read_at(0, &mut bytes).map(|()| bytes)
    });
    match read {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind == firn_storage::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(from_storage(error)),
    }
}

/// Writes `piece` to the file it is of, if that is needed.
fn write_piece(storage: &dyn Storage, state: &State, piece: &Piece<'_>, files: &mut Files) -> Result<()> {
    let name = match piece.segment {
        PieceOf::Log(header) if header.base.0 + header.capacity <= state.log_start().0 => return Ok(()),
        PieceOf::Log(header) => file_name::log_segment(header.base),
        PieceOf::Values(header) if state.values.knows(header.number) => return Ok(()),
        PieceOf::Values(header) => file_name::value_segment(header.number),
    };
    let file = match files.get(&name) {
        Some(file) => Arc::clone(file),
        None => {
            let file = storage.create(&name).map_err(from_storage)?;
            file.write_at(0, &piece.segment.encode()).map_err(from_storage)?;
            files.insert(name, Arc::clone(&file));
            file
        }
    };
    file.write_at(piece.offset, piece.bytes).map_err(from_storage)
}
