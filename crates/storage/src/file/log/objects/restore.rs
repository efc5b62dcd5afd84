//! The log of a machine that may be gone, out of its log objects.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::file::manifest::{Content, Manifest, publish_until_answered};
use crate::{Error, ErrorKind, ReadFile, Result, Storage, WriteFile};
use firn_format::Position;
use firn_format::file_name::{self, FileName};
use firn_format::log::SEGMENT_HEADER_BYTES;
use firn_format::log_object::{LogObject, LogObjectId, LogObjectKind, Piece, PieceOf};

use super::NamedObjects;
use super::listed::parsed;

/// What was restored.
#[derive(Debug)]
pub struct Restored {
    /// Where the log ends in the log objects, or where an opening cut it since.
    pub end: Position,
}

/// Log objects that are asked for before they are read, at most.
const OBJECTS_AHEAD_MAX: usize = 16;

/// Bytes of such log objects at which no more are asked for.
const BYTES_AHEAD: u64 = 32 << 20;

/// Log objects that were listed, in the order of their numbers, asked for before they are read.
struct Ahead<'s> {
    storage: &'s dyn Storage,
    generation: u64,
    /// Numbers and lengths of log objects that are not asked for yet.
    listed: VecDeque<(u64, u64)>,
    asked: VecDeque<(u64, Arc<dyn ReadFile>)>,
    asked_bytes: u64,
}

/// Files of segments that are being restored, by name.
type Files = BTreeMap<String, RestoredFile>;

struct RestoredFile {
    file: Arc<dyn WriteFile>,
    /// As far as it was written.
    bytes: u64,
}

/// Makes the files of the log, and of blob segments, as the log objects of `named` have them, as
/// far as `is_needed` says. From then on no log object of that generation can be added. Blocks for
/// a request each, and for syncs.
///
/// What lies in the local part is of an earlier time, and is removed.
///
/// # Errors
/// `Corrupt` with file and offset for a log object of `database` that is not what was written.
/// `Closed` if an edit was written since the manifest was read, which the manifest tells, too. What
/// reading and writing say.
pub fn restore<C: Content>(
    storage: &dyn Storage,
    manifest: &mut Manifest<C>,
    (database, named): (u128, NamedObjects),
    is_needed: impl Fn(&PieceOf) -> bool,
) -> Result<Restored> {
    let NamedObjects { generation, first, cut } = named;
    // By an old list it could be this machine's log that is needed.
    if !manifest.is_current() {
        return Err(not_current(manifest));
    }
    let files = storage.list()?;
    remove_earlier(storage, &files)?;
    let mut ahead = Ahead::of(storage, named, &files);
    let last = ahead.last();
    let (mut files, mut end) = (Files::new(), Position(0));
    let mut number = first;
    loop {
        let id = LogObjectId { database, generation, number };
        let name = file_name::log_object(generation, number);
        let Some(bytes) = ahead.read(number)? else {
            if last.is_some_and(|last| last > number) {
                return Err(missing(manifest, name));
            }
            match publish_until_answered(
                storage,
                manifest.clock(),
                &name,
                &id.encode(LogObjectKind::End, &[]),
            ) {
                Ok(()) => break,
                // The process before has created a log object, or another one that takes over the
                // end.
                Err(error) if error.kind == ErrorKind::Exists => continue,
                Err(error) => return Err(error),
            }
        };
        let object = LogObject::decode(&bytes).map_err(|error| Error::decoding(&name, 0, &error))?;
        if object.id != id {
            return Err(Error::corrupt(name, 16, format!("expected {id:?}, found {:?}", object.id)));
        }
        if object.kind == LogObjectKind::End {
            break;
        }
        for piece in &object.pieces {
            if is_needed(&piece.segment) {
                write_piece(storage, piece, &mut files)?;
            }
            if let (LogObjectKind::Whole, PieceOf::Log(header)) = (object.kind, piece.segment) {
                end = end.max(Position(header.base.0 + piece.offset + piece.bytes.len() as u64));
            }
        }
        number += 1;
    }
    // An opening after those log objects may have found less.
    let end = end.min(cut);
    cut_log(storage, &mut files, end)?;
    files.values().try_for_each(|restored| restored.file.sync())?;
    storage.sync_dir()?;
    Ok(Restored { end })
}

/// Takes what lies behind `end` out of the log's files: it is in parts of something that never
/// became whole, or was not found by an opening.
fn cut_log(storage: &dyn Storage, files: &mut Files, end: Position) -> Result<()> {
    let mut removed = Vec::new();
    for (name, RestoredFile { file, bytes }) in &*files {
        let Some(FileName::LogSegment(base)) = file_name::parse(name) else { continue };
        if base >= end {
            removed.push(name.clone());
        } else if base.0 + bytes > end.0 {
            file.set_len((end.0 - base.0).max(SEGMENT_HEADER_BYTES as u64))?;
        }
    }
    for name in removed {
        files.remove(&name);
        storage.remove(&name)?;
    }
    Ok(())
}

/// Removes those of `files` that are segments, which lie on this machine: the log is another one's
/// by now.
fn remove_earlier(storage: &dyn Storage, files: &[(String, u64)]) -> Result<()> {
    for (name, _) in files {
        if let Some(FileName::LogSegment(_) | FileName::BlobSegment(_)) = file_name::parse(name) {
            storage.remove(name)?;
        }
    }
    Ok(())
}

impl<'s> Ahead<'s> {
    /// Those of `named` that are among `files`, names and lengths.
    fn of(storage: &'s dyn Storage, named: NamedObjects, files: &[(String, u64)]) -> Self {
        let NamedObjects { generation, first, .. } = named;
        let needed = parsed(files).filter(|object| object.generation == generation && object.number >= first);
        let mut listed: Vec<_> = needed.map(|object| (object.number, object.bytes)).collect();
        listed.sort_unstable();
        Self { storage, generation, listed: listed.into(), asked: VecDeque::new(), asked_bytes: 0 }
    }

    /// The greatest number that was listed.
    fn last(&self) -> Option<u64> {
        self.listed.back().map(|(number, _)| *number)
    }

    /// The bytes of the log object `number`; `None` if there is none. Numbers are asked for one
    /// after another.
    fn read(&mut self, number: u64) -> Result<Option<Vec<u8>>> {
        self.ask();
        let file = match self.asked.pop_front_if(|(of, _)| *of == number) {
            Some((_, file)) => {
                self.asked_bytes -= file.len();
                Ok(file)
            }
            // Begun since, or not to be opened when it was asked for.
            None => self.storage.open_read(&file_name::log_object(self.generation, number)),
        };
        let read = file.and_then(|file| {
            let mut bytes = vec![0; file.len() as usize];
            file.read_at(0, &mut bytes).map(|()| bytes)
        });
        match read {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Asks for as many as may be on their way.
    fn ask(&mut self) {
        while self.asked.len() < OBJECTS_AHEAD_MAX && self.asked_bytes < BYTES_AHEAD {
            let Some((number, bytes)) = self.listed.pop_front() else { return };
            // What is wrong with it is told when it is read.
            let name = file_name::log_object(self.generation, number);
            let Ok(file) = self.storage.open_read_known(&name, bytes) else { continue };
            file.will_need(0, bytes);
            self.asked_bytes += bytes;
            self.asked.push_back((number, file));
        }
    }
}

/// The log object `name` is not there, and a later one is: it was removed, since an edit says that
/// it is needed no more, or lost.
fn missing<C: Content>(manifest: &mut Manifest<C>, name: String) -> Error {
    if manifest.is_current() {
        let message = "the log object is missing: the manifest names the first, and a later one is there";
        return Error::new(ErrorKind::Corrupt, name, message);
    }
    not_current(manifest)
}

fn not_current<C: Content>(manifest: &Manifest<C>) -> Error {
    let message = "whether the database was written to while it was taken over cannot be told: try again";
    manifest.failure().unwrap_or_else(|| Error::new(ErrorKind::Refused, "", message))
}

/// Writes `piece` to the file it is of.
fn write_piece(storage: &dyn Storage, piece: &Piece<'_>, files: &mut Files) -> Result<()> {
    let name = match piece.segment {
        PieceOf::Log(header) => file_name::log_segment(header.base),
        PieceOf::Values(header) => file_name::blob_segment(header.number),
    };
    let restored = match files.entry(name) {
        Entry::Occupied(entry) => entry.into_mut(),
        Entry::Vacant(entry) => {
            let file = storage.create(entry.key())?;
            let header = piece.segment.encode();
            file.write_at(0, &header)?;
            entry.insert(RestoredFile { file, bytes: header.len() as u64 })
        }
    };
    restored.bytes = restored.bytes.max(piece.offset + piece.bytes.len() as u64);
    restored.file.write_at(piece.offset, piece.bytes)
}
