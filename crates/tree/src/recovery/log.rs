//! From the files of a directory to the state they promise.
//!
//! ```text
//!   manifest edits ─► state ─► tables opened
//!   log segments ─► frames checked ─► cut at the first gap ─► memtables, one set a segment, frozen
//! ```
//! Frames of all segments form one chain: a segment names the end of the one before it. The chain
//! ends at the first byte that belongs to no good frame. What that means:
//!
//! | the log was known to be durable beyond | whole frames lie behind | the machine runs since the
//! log was begun | it is | opening |
//! |---|---|---|---|---|
//! | yes | | | damage: bytes that were on the device are gone | refuses |
//! | no | no | | the tail that a crash left | discards it |
//! | no | yes | yes | damage: a process that is killed leaves a prefix (see `behind`) | refuses |
//! | no | yes | no, or not known | loss of power, which keeps any page or none | discards it |
//!
//! What is refused is cut by `firn repair`, which keeps aside what it takes away.

mod behind; // whole frames behind the end
mod created; // whether the keyspaces of records are known

pub(crate) use self::behind::{Gap, gap};
pub(crate) use self::created::check_log_created;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};

use firn_arena::Region;
use firn_engine::{Error, ErrorKind, Location, Result};
use firn_format::blob::Reference;
use firn_format::file_name::{self, FileName};
use firn_format::key::{GRANULE_BYTES, Trailer, key_hash};
use firn_format::log::{FrameKind, Record, SEGMENT_HEADER_BYTES, SegmentHeader, scan_frames};
use firn_format::{Kind, Position};
use firn_storage::file::obsolete::ObsoleteFiles;
use firn_storage::{FileBytes, Priority, Spawn, Storage};

use super::{FoundBlobs, LoggedReferences};
use crate::error::{from_format, from_storage};
use crate::log::{MemtableSet, Segment};
use crate::memtable::{Gaps, Memtable};
use crate::version::state::State;

/// What the log held.
#[derive(Debug)]
pub(crate) struct RecoveredLog {
    /// Oldest first; sealed, with their memtables.
    pub(crate) segments: Vec<Arc<Segment>>,
    /// Everything below is recovered, nothing at or above.
    pub(crate) end: Position,
    /// Records from here on may be lost.
    pub(crate) lost_from: Position,
    /// Base for the next segment: after every span ever used.
    pub(crate) next_base: Position,
    /// Known synced.
    pub(crate) durable_through: Position,
    /// Files that hold nothing any more.
    pub(crate) stale: Vec<String>,
    /// Of records that are in no table, to separated values.
    pub(crate) references: LoggedReferences,
    /// Where the last batch begins that has records of several keyspaces in no table; 0 if there is
    /// none.
    pub(crate) crossing: Position,
}

/// A segment file as found.
struct Candidate {
    name: String,
    header: SegmentHeader,
    bytes: FileBytes,
    /// Position after the last good frame.
    end: Position,
    /// What stands there, for a message.
    reason: String,
    durable_through: Position,
}

/// Reads the log of a database whose manifest says `state`.
///
/// # Errors
/// `Corrupt` with file and offset when something that was durable is missing or damaged.
pub(crate) fn recover_log(
    storage: &Arc<dyn Storage>,
    state: &State,
    values: &FoundBlobs,
    obsolete: &Arc<ObsoleteFiles>,
    spawn: Option<&Arc<dyn Spawn>>,
    writable: bool,
) -> Result<RecoveredLog> {
    let start = state.log_start();
    let Surveyed { mut candidates, mut stale, headless, beheaded, .. } = survey(storage, state)?;
    candidates.sort_by_key(|candidate| candidate.header.base);
    // Behind the lost records of values that are here, too: a GC of those waits until the
    // log is on the device so far.
    let behind = Position(known_end(state).0.next_multiple_of(GRANULE_BYTES));
    let next_base = base_after(state, &candidates, &stale).max(behind);
    let durable = candidates.iter().map(|found| found.durable_through).max().unwrap_or_default();
    let durable_through = durable.max(state.durable_through);
    let (mut chained, mut end, mut why) = chain(&mut candidates, start, state);
    let dangling = first_dangling(&candidates[..chained], state, values, durable_through)?;
    // Frames behind a record whose value is not whole are none that a gap cuts off.
    let is_asked = dangling.is_none() && storage.boot_id().is_some_and(|id| id == state.boot);
    if let Some(dangling) = dangling {
        // What the device has of the log may be more than what it has of the values.
        candidates[dangling.candidate].end = dangling.position;
        (chained, end, why) = (dangling.candidate + 1, dangling.position, dangling.why);
    }
    if end < durable_through {
        let lost_header = headless.range(end..durable_through).next();
        return Err(match lost_header {
            Some((_, error)) => error.clone(),
            None => lost(&candidates, chained, end, durable_through, &why),
        });
    }
    if is_asked && let Some(behind) = behind::find(&candidates, chained, end, &beheaded, state) {
        return Err(behind.refused(&candidates, chained, end, &why));
    }
    stale.extend(candidates.drain(chained..).map(|candidate| candidate.name));
    let Loaded { segments, references, crossing } =
        load_all(storage, state, candidates, obsolete, spawn, writable)?;
    let lost_from = end;
    Ok(RecoveredLog { segments, end, lost_from, next_base, durable_through, stale, references, crossing })
}

/// The log of a database whose last one lies on another machine: nothing of it is recovered. This
/// one goes on behind all that the manifest knows of. What lies here is of an earlier time.
///
/// # Errors
/// What listing says.
pub(crate) fn log_elsewhere(storage: &Arc<dyn Storage>, state: &State) -> Result<RecoveredLog> {
    // Behind every segment that lies here, however long, so that none is ever taken for a part of
    // what follows.
    let Surveyed { candidates, mut stale, stale_end, .. } = survey(storage, state)?;
    let known = base_after(state, &candidates, &stale).0.max(known_end(state).0).max(stale_end);
    let end = Position(known.next_multiple_of(GRANULE_BYTES));
    stale.extend(candidates.into_iter().map(|candidate| candidate.name));
    Ok(RecoveredLog {
        segments: Vec::new(),
        end,
        lost_from: state.log_start(),
        next_base: end,
        durable_through: end,
        stale,
        references: LoggedReferences::default(),
        crossing: Position::default(),
    })
}

/// Behind every position that the manifest says was durable, or has values of.
pub(crate) fn known_end(state: &State) -> Position {
    let sealed =
        state.blobs.segments.values().map(|segment| segment.meta.sealed_at).max().unwrap_or_default();
    state.durable_through.max(sealed)
}

/// A frame that refers to a value which is not whole.
struct Dangling {
    /// Index of its segment.
    candidate: usize,
    position: Position,
    why: String,
}

/// The first frame from `durable` on that refers to a separated value which is not whole.
/// Below that, values are on the device as their records are.
fn first_dangling(
    candidates: &[Candidate],
    state: &State,
    values: &FoundBlobs,
    durable: Position,
) -> Result<Option<Dangling>> {
    for (index, candidate) in candidates.iter().enumerate().filter(|(_, found)| found.end > durable) {
        let base = candidate.header.base;
        let scan = scan_frames(&candidate.bytes, base, SEGMENT_HEADER_BYTES, candidate.header.generation);
        for (offset, frame) in scan {
            let position = Position(base.0 + offset as u64);
            if frame.kind != FrameKind::Batch || position < durable || position >= candidate.end {
                continue;
            }
            for (inside, record) in frame.records() {
                let Ok(record) = record else { break };
                let at = Position(position.0 + inside as u64);
                if record.kind != Kind::PutReference || !is_unflushed(state, record.keyspace, at) {
                    continue;
                }
                let reference = reference_of(&candidate.name, offset + inside, &record)?;
                if !values.holds(state, &reference, record.key.len())? {
                    let why = format!("{reference} is not whole");
                    return Ok(Some(Dangling { candidate: index, position, why }));
                }
            }
        }
    }
    Ok(None)
}

/// Whether a record at `position` is in no table, and its keyspace is there.
fn is_unflushed(state: &State, keyspace: u32, position: Position) -> bool {
    state.keyspaces.get(&keyspace).is_some_and(|keyspace| position >= keyspace.flushed_through)
}

fn reference_of(name: &str, at: usize, record: &Record<'_>) -> Result<Reference> {
    Reference::decode(record.value).map_err(|error| from_format(name, at as u64, &error))
}

/// Base of the next segment: after every position that a file or the manifest names.
///
/// The manifest may know positions of segments that the crash took. A keyspace may begin, or have
/// been flushed, at the base of a segment of which nothing reached the device. Records at such
/// positions would be taken for flushed. And what was ingested has the sequence of a position that
/// the device need not have: what is written from now on is newer.
fn base_after(state: &State, candidates: &[Candidate], stale: &[String]) -> Position {
    let spans = candidates.iter().map(|found| found.header.base.0 + found.header.capacity);
    let named = stale.iter().filter_map(|name| match file_name::parse(name) {
        Some(FileName::LogSegment(base)) => Some(base.0 + 1),
        _ => None,
    });
    let known = state.keyspaces.values();
    let known = known.map(|keyspace| keyspace.flushed_through.max(keyspace.ingested_through).0);
    let end = spans.chain(named).chain(known).chain([state.cut.0]).max().unwrap_or(0);
    Position(end.next_multiple_of(GRANULE_BYTES))
}

/// The segment files of a directory.
#[derive(Default)]
struct Surveyed {
    /// Segments that may matter.
    candidates: Vec<Candidate>,
    /// Names of files that cannot.
    stale: Vec<String>,
    /// Behind all that those with good headers had room for.
    stale_end: u64,
    /// Of the stale ones, by the base their name says: what is wrong with their headers.
    headless: BTreeMap<Position, Error>,
    /// Of those, the files that begin with a whole frame of this generation all the same.
    beheaded: BTreeMap<Position, String>,
}

fn survey(storage: &Arc<dyn Storage>, state: &State) -> Result<Surveyed> {
    let start = state.log_start();
    let mut found = Surveyed::default();
    for (name, _) in storage.list().map_err(from_storage)? {
        let Some(FileName::LogSegment(base)) = file_name::parse(&name) else { continue };
        let file = storage.open_read(&name).map_err(from_storage)?;
        let bytes = match file.bytes().map_err(from_storage)? {
            Some(bytes) => bytes,
            None => {
                let mut bytes = vec![0; file.len() as usize];
                file.read_at(0, &mut bytes).map_err(from_storage)?;
                FileBytes::new(Arc::new(bytes))
            }
        };
        let header = SegmentHeader::decode(&bytes);
        if header.as_ref().map_or(true, |header| header.base != base)
            && scan_frames(&bytes, base, SEGMENT_HEADER_BYTES, state.generation).next().is_some()
        {
            found.beheaded.insert(base, name.clone());
        }
        match header {
            Err(error) if error.is_newer => return Err(from_format(&name, 0, &error)),
            // Born in the moment of the crash: no frame of it was ever written, or its loss shows
            // as a gap.
            Err(error) => {
                found.headless.insert(base, from_format(&name, 0, &error));
                found.stale.push(name);
            }
            // The file was another segment's, and the crash came before this one's header was
            // written, or took the file's new name.
            Ok(header) if header.base != base => {
                check_owner(&name, &header, state)?;
                let location = Location { file: name.clone(), offset: Some(32) };
                let message = format!("expected base {base} as the name says, found {}", header.base);
                found.headless.insert(base, Error::corrupt(location, message));
                found.stale.push(name);
            }
            Ok(header) => {
                check_owner(&name, &header, state)?;
                let is_flushed = header.base.0 + header.capacity <= start.0;
                // Written before the recovery that recorded the cut, and beyond it: discarded then.
                let is_cut = header.base > state.cut && header.generation < state.generation;
                match is_flushed || is_cut {
                    true => {
                        found.stale_end = found.stale_end.max(header.base.0 + header.capacity);
                        found.stale.push(name);
                    }
                    false => found.candidates.push(examine(name, header, bytes)),
                }
            }
        }
    }
    Ok(found)
}

/// Whether a good header is one that this database wrote.
fn check_owner(name: &str, header: &SegmentHeader, state: &State) -> Result<()> {
    let wrong = |offset, message: String| {
        Err(Error::corrupt(Location { file: name.to_owned(), offset: Some(offset) }, message))
    };
    if header.database != state.database {
        return wrong(16, "the log segment belongs to another database".to_owned());
    }
    if header.generation > state.generation {
        let (known, found) = (state.generation, header.generation);
        let message =
            format!("expected a generation of at most {known}, found {found}: a manifest edit is missing");
        return wrong(48, message);
    }
    Ok(())
}

fn examine(name: String, header: SegmentHeader, bytes: FileBytes) -> Candidate {
    let mut scan = scan_frames(&bytes, header.base, SEGMENT_HEADER_BYTES, header.generation);
    let mut durable_through = Position::default();
    for (_, frame) in scan.by_ref() {
        durable_through = durable_through.max(frame.durable_through);
    }
    let end = scan.into_end();
    let reason = end.reason.to_string();
    let end = Position(header.base.0 + end.offset as u64);
    Candidate { name, header, bytes, end, reason, durable_through }
}

/// How many candidates form the chain from `start`, where it ends, and why.
///
/// A recovery throws good frames away where values that they refer to are not whole. Such frames
/// are known by the cut in the manifest, or by the first segment of the generation after. They end
/// the segment that they are in.
fn chain(candidates: &mut [Candidate], start: Position, state: &State) -> (usize, Position, String) {
    let (mut end, mut why) = (start, "no log segment continues here".to_owned());
    let mut generation = 0;
    for index in 0..candidates.len() {
        // The start may lie between two segments: where one begins, or in what an earlier recovery
        // skipped.
        let header = candidates[index].header;
        let first = index == 0 && header.previous_end <= start && start <= header.base;
        if !first && header.previous_end != end {
            let is_cut = header.previous_end < end && header.generation > generation;
            let Some(before) = index.checked_sub(1).filter(|_| is_cut) else { return (index, end, why) };
            candidates[before].end = header.previous_end;
        }
        if header.generation < state.generation && candidates[index].end > state.cut {
            candidates[index].end = state.cut;
            candidates[index].reason = "an earlier recovery cut it here".to_owned();
        }
        (end, why) = (candidates[index].end, candidates[index].reason.clone());
        generation = header.generation;
    }
    (candidates.len(), end, why)
}

fn lost(candidates: &[Candidate], chained: usize, end: Position, durable: Position, why: &str) -> Error {
    let message = format!(
        "the log ends at position {end} ({why}), but was durable through {durable}: records that were on the device are damaged or missing. \
         `firn verify` lists what is damaged; put the file back from a copy, or restore a backup"
    );
    let location = chained.checked_sub(1).and_then(|last| candidates.get(last)).map_or_else(
        || Location { file: file_name::log_segment(end), offset: None },
        |last| Location { file: last.name.clone(), offset: Some(end.0 - last.header.base.0) },
    );
    Error::corrupt(location, message)
}

/// Copies each segment's good bytes into an arena and indexes its records; on several threads where
/// there are some.
fn load_all(
    storage: &Arc<dyn Storage>,
    state: &State,
    candidates: Vec<Candidate>,
    obsolete: &Arc<ObsoleteFiles>,
    spawn: Option<&Arc<dyn Spawn>>,
    writable: bool,
) -> Result<Loaded> {
    let flushed: BTreeMap<u32, Position> =
        state.keyspaces.iter().map(|(id, keyspace)| (*id, keyspace.flushed_through)).collect();
    let count = candidates.len();
    let work = Arc::new(Work {
        storage: Arc::clone(storage),
        flushed,
        next_number: state.next_number,
        obsolete: Arc::clone(obsolete),
        writable,
        candidates,
        next: AtomicUsize::new(0),
        loaded: Mutex::new(Vec::with_capacity(count)),
        references: Mutex::default(),
        crossing: AtomicU64::new(0),
        gaps: Arc::default(),
    });
    let helpers = match spawn {
        Some(_) if count > 1 => THREADS.min(count) - 1,
        _ => 0,
    };
    let (done, wait) = mpsc::channel();
    for index in 0..helpers {
        let Some(spawn) = spawn else { break };
        let (work, done) = (Arc::clone(&work), done.clone());
        let body = Box::new(move || {
            let result = work.load_rest();
            // The receiver may have given up on an earlier error.
            let _sent = done.send(result);
        });
        spawn.spawn(format!("firn-recover-{index}"), Priority::Normal, body).map_err(from_storage)?;
    }
    drop(done);
    let mine = work.load_rest();
    let others: Vec<Result<()>> = wait.iter().collect();
    mine?;
    others.into_iter().collect::<Result<()>>()?;
    let mut loaded = std::mem::take(&mut *work.loaded.lock().unwrap_or_else(PoisonError::into_inner));
    if loaded.len() != count {
        return Err(Error::bug("a recovery thread died"));
    }
    loaded.sort_by_key(|segment| segment.base());
    let references = std::mem::take(&mut *work.references.lock().unwrap_or_else(PoisonError::into_inner));
    let crossing = Position(work.crossing.load(Ordering::Relaxed));
    Ok(Loaded { segments: loaded, references, crossing })
}

/// Threads that load segments, this one included.
const THREADS: usize = 4;

struct Work {
    storage: Arc<dyn Storage>,
    flushed: BTreeMap<u32, Position>,
    /// Keyspaces from this number on were never created.
    next_number: u64,
    obsolete: Arc<ObsoleteFiles>,
    writable: bool,
    candidates: Vec<Candidate>,
    next: AtomicUsize,
    loaded: Mutex<Vec<Arc<Segment>>>,
    references: Mutex<LoggedReferences>,
    crossing: AtomicU64,
    /// Of no keyspace: what is recovered is frozen, and only those of the active memtable are asked
    /// for.
    gaps: Arc<Gaps>,
}

/// What is in the segments that were loaded; see [`RecoveredLog`].
struct Loaded {
    segments: Vec<Arc<Segment>>,
    references: LoggedReferences,
    crossing: Position,
}

impl Work {
    fn load_rest(&self) -> Result<()> {
        while let Some(candidate) = self.candidates.get(self.next.fetch_add(1, Ordering::Relaxed)) {
            let segment = self.load(candidate)?;
            self.loaded.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::new(segment));
        }
        Ok(())
    }

    fn load(&self, candidate: &Candidate) -> Result<Segment> {
        let used = (candidate.end.0 - candidate.header.base.0) as usize - SEGMENT_HEADER_BYTES;
        let frames =
            candidate.bytes.get(SEGMENT_HEADER_BYTES..SEGMENT_HEADER_BYTES + used).unwrap_or_default();
        let region = Region::load(used.max(8), used, |arena| {
            arena.copy_from_slice(frames);
            Ok::<(), std::convert::Infallible>(())
        })
        .map_err(|error| Error::new(ErrorKind::Retry, format!("cannot hold {}: {error}", candidate.name)))?;
        let memtables = self.index(candidate)?;
        let file = self.writable.then(|| self.storage.open_write(&candidate.name)).transpose();
        let file = file.map_err(from_storage)?;
        Ok(Segment::new(candidate.header, region, file, memtables, Arc::clone(&self.obsolete)))
    }

    /// Memtables of the segment's records that are in no table.
    fn index(&self, candidate: &Candidate) -> Result<MemtableSet> {
        let mut memtables = MemtableSet::default();
        let base = candidate.header.base;
        let scan = scan_frames(&candidate.bytes, base, SEGMENT_HEADER_BYTES, candidate.header.generation);
        for (offset, frame) in scan {
            if frame.kind != FrameKind::Batch || base.0 + offset as u64 >= candidate.end.0 {
                continue;
            }
            let mut first = None;
            for (inside, record) in frame.records() {
                let at = offset + inside;
                let record = record.map_err(|error| from_format(&candidate.name, at as u64, &error))?;
                let position = Position(base.0 + at as u64);
                match self.flushed.get(&record.keyspace) {
                    Some(flushed) if position >= *flushed => {}
                    Some(_) => continue,
                    None => {
                        created::check_created(self.next_number, &candidate.name, at, record.keyspace)?;
                        continue;
                    }
                }
                if *first.get_or_insert(record.keyspace) != record.keyspace {
                    self.crossing.fetch_max(base.0 + offset as u64, Ordering::Relaxed);
                }
                if memtables.get(record.keyspace).is_none() {
                    let bytes = candidate.end.0 - base.0;
                    let memtable = Memtable::with_part_of(bytes, self.flushed.len(), Arc::clone(&self.gaps));
                    memtables.insert(record.keyspace, Arc::new(memtable));
                }
                let Some(memtable) = memtables.get(record.keyspace) else { continue };
                match record.kind {
                    Kind::DeleteRange => {
                        memtable.insert_range_delete(record.key, record.value, position.sequence())
                    }
                    kind => {
                        let hash = (key_hash(record.key) >> 32) as u32;
                        memtable.insert(hash, record.key, Trailer::new(position.sequence(), kind));
                    }
                }
                if record.kind == Kind::PutReference {
                    let reference = reference_of(&candidate.name, at, &record)?;
                    self.references.lock().unwrap_or_else(PoisonError::into_inner).add(reference);
                }
            }
        }
        Ok(memtables)
    }
}
