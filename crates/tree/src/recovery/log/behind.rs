//! Whole frames behind the log's end: how damage is told from what a crash leaves.
//!
//! The log's files are written from front to back. Each write goes on where the one before ended
//! and ends where published frames end. A segment is begun when the one before it is written as a
//! whole. The system keeps that order for each process that reads later on the same run of the
//! machine, synced or not. So a process that is killed at any point leaves a prefix of the frames,
//! the last one cut off at most. Behind that lie zeros or what an earlier use of the file left, in
//! which no frame passes.
//!
//! A loss of power keeps each page of what was not synced, or does not. So whole frames may lie
//! behind lost ones, and nothing tells a lost page from a damaged one. The name of the machine's
//! run tells the two kinds of crash apart. The edit that begins a generation of the log states it
//! (`Change::Boot`). Where a backend cannot name it, or names another one, nothing is refused.
//!
//! Not looked at: frames above where an earlier recovery cut the log, and what lies behind a record
//! whose separated value is not whole.

use std::collections::BTreeMap;
use std::sync::Arc;

use firn_engine::{Error, Location, Result};
use firn_format::Position;
use firn_format::key::POSITION_END;
use firn_format::log::{SEGMENT_HEADER_BYTES, find_frame};
use firn_storage::Storage;

use super::{Candidate, Surveyed, chain, lost, survey};
use crate::version::state::State;

/// A whole frame that does not follow on from the log's end.
#[derive(Debug)]
pub(super) struct Behind {
    file: String,
    offset: u64,
    position: Position,
}

/// The first whole frame behind `end`, where the first `chained` of `candidates` end; of files that
/// are `beheaded` too.
pub(super) fn find(
    candidates: &[Candidate],
    chained: usize,
    end: Position,
    beheaded: &BTreeMap<Position, String>,
    state: &State,
) -> Option<Behind> {
    let found = |candidate: &Candidate, start: usize| {
        let header = &candidate.header;
        // What lies beyond a cut counts no more.
        let until = if header.generation < state.generation { state.cut } else { POSITION_END };
        let offset = find_frame(&candidate.bytes, header.base, start, header.generation)? as u64;
        let position = Position(header.base.0 + offset);
        let file = candidate.name.clone();
        (position < until).then_some(Behind { file, offset, position })
    };
    let last = chained.checked_sub(1).and_then(|last| candidates.get(last));
    let in_last = last.and_then(|last| found(last, (end.0 - last.header.base.0) as usize + 8));
    let later = || {
        let later = candidates.get(chained..).unwrap_or_default();
        later.iter().find_map(|candidate| found(candidate, SEGMENT_HEADER_BYTES))
    };
    let headless = || {
        let (base, file) = beheaded.range(end..).next()?;
        let offset = SEGMENT_HEADER_BYTES as u64;
        Some(Behind { file: file.clone(), offset, position: Position(base.0 + offset) })
    };
    in_last.or_else(later).or_else(headless)
}

impl Behind {
    /// Why the database does not open.
    pub(super) fn refused(
        &self,
        candidates: &[Candidate],
        chained: usize,
        end: Position,
        why: &str,
    ) -> Error {
        let Self { file, offset, position } = self;
        let message = format!(
            "the log ends at position {end} ({why}), but whole records lie behind, from position {position} on ({file} at offset {offset}); \
             the machine has run on since they were written, so that this is damage and no crash's tail. Put the file back from a copy; \
             or have `firn repair` cut the log there, which keeps aside what it takes away"
        );
        let last = chained.checked_sub(1).and_then(|last| candidates.get(last));
        let location = match last {
            Some(last) => Location { file: last.name.clone(), offset: Some(end.0 - last.header.base.0) },
            None => Location { file: file.clone(), offset: Some(*offset) },
        };
        Error::corrupt(location, message)
    }
}

/// What is to be taken away for the log to end where it is whole.
#[derive(Debug)]
pub(crate) struct Gap {
    /// The file in which the log ends, if it holds anything behind, and how many bytes of it count.
    pub(crate) cut: Option<(String, u64)>,
    /// Files that do not follow on, oldest first.
    pub(crate) aside: Vec<String>,
    /// Where the log ends.
    pub(crate) end: Position,
}

/// Where damage cuts off a part of the log that was not known to be on the device; `None` if there
/// is no such damage.
///
/// # Errors
/// `Corrupt` if what was on the device is damaged or missing, too; what reading says.
pub(crate) fn gap(storage: &Arc<dyn Storage>, state: &State) -> Result<Option<Gap>> {
    let Surveyed { mut candidates, beheaded, headless, .. } = survey(storage, state)?;
    candidates.sort_by_key(|candidate| candidate.header.base);
    let durable = candidates.iter().map(|found| found.durable_through).max().unwrap_or_default();
    let durable = durable.max(state.durable_through);
    let (chained, end, why) = chain(&mut candidates, state.log_start(), state);
    if end < durable {
        let lost_header = headless.range(end..durable).next().map(|(_, error)| error.clone());
        return Err(lost_header.unwrap_or_else(|| lost(&candidates, chained, end, durable, &why)));
    }
    let is_same_run = storage.boot_id().is_some_and(|id| id == state.boot);
    if !is_same_run || find(&candidates, chained, end, &beheaded, state).is_none() {
        return Ok(None);
    }
    let (before, after) = candidates.split_at(chained);
    let cut = before.last().and_then(|last| {
        let bytes = end.0 - last.header.base.0;
        let rest = last.bytes.get(bytes as usize..).unwrap_or_default();
        rest.iter().any(|byte| *byte != 0).then(|| (last.name.clone(), bytes))
    });
    let mut aside: Vec<String> = after.iter().map(|candidate| candidate.name.clone()).collect();
    aside.extend(beheaded.range(end..).map(|(_, name)| name.clone()));
    aside.sort_unstable();
    aside.dedup();
    Ok(Some(Gap { cut, aside, end }))
}
