//! Which runs are merged and which flush: pure functions of the runs.

use std::collections::BTreeSet;
use std::sync::Arc;

use firn_format::Position;

use crate::buffer::Run;
use crate::memory::flush_bytes;
use crate::settings::Settings;
use crate::version::Keyspace;

/// Runs to merge: the `fan_in` oldest of a stretch of runs of one level, adjacent in age; newest
/// first.
///
/// `runs` are newest first. Lower levels come first: they are what reads pay for.
pub(crate) fn pick_merge(
    runs: &[Arc<Run>],
    fan_in: usize,
    is_busy: impl Fn(&Run) -> bool,
) -> Option<Vec<Position>> {
    let mut stretches: Vec<&[Arc<Run>]> =
        runs.chunk_by(|a, b| a.level() == b.level() && !is_busy(a) && !is_busy(b)).collect();
    stretches.retain(|stretch| stretch.len() >= fan_in && !stretch.iter().any(|run| is_busy(run)));
    let stretch = stretches.into_iter().min_by_key(|stretch| stretch.first().map_or(0, |run| run.level()))?;
    Some(stretch[stretch.len() - fan_in..].iter().map(|run| run.span().start).collect())
}

/// A keyspace and its oldest runs, newest first, to be flushed together.
///
/// Under `pressure` the keyspace with the oldest run flushes most of what the buffer may hold. So
/// each flush makes one long sorted run instead of many short ones. Without pressure only runs
/// flush that begin below what `through` says of their keyspace. A keyspace whose oldest run is
/// busy waits; another one flushes meanwhile.
pub(crate) fn pick_flush<'v>(
    keyspaces: impl Iterator<Item = &'v Arc<Keyspace>>,
    busy: &BTreeSet<(u32, Position)>,
    pressure: bool,
    through: impl Fn(u32) -> Position,
    settings: &Settings,
) -> Option<(u32, Vec<Position>)> {
    let can_flush = |keyspace: &Keyspace| is_wanted(keyspace, busy, pressure, through(keyspace.id()));
    let oldest = keyspaces
        .filter(|keyspace| can_flush(keyspace))
        .min_by_key(|keyspace| keyspace.runs.last().map(|run| run.span().start))?;
    let through = through(oldest.id());
    let enough = flush_bytes(settings.engine.buffer_bytes);
    let mut bytes = 0;
    let mut chosen = Vec::new();
    for run in oldest.runs.iter().rev() {
        let span = run.span();
        let is_wanted = span.start < through || (pressure && (chosen.is_empty() || bytes < enough));
        if busy.contains(&(oldest.id(), span.start)) || !is_wanted {
            break;
        }
        bytes += run.live_bytes() + run.memory_bytes();
        chosen.push(span.start);
    }
    chosen.reverse();
    Some((oldest.id(), chosen))
}

/// Whether the oldest run of `keyspace` is to become a table: under `pressure`, or below `through`,
/// unless it is busy.
fn is_wanted(
    keyspace: &Keyspace,
    busy: &BTreeSet<(u32, Position)>,
    pressure: bool,
    through: Position,
) -> bool {
    keyspace.runs.last().is_some_and(|run| {
        let start = run.span().start;
        (pressure || start < through) && !busy.contains(&(keyspace.id(), start))
    })
}

/// With fewer keyspaces, each writes a file of its own, whose blocks later files take: a sync and
/// an edit for each cost little then.
const SMALL_COUNT_MIN: usize = 4;

/// Keyspaces that hold little in runs, from the keyspace with the oldest run on, with those runs,
/// newest first. What they hold becomes tables of one file.
///
/// None if the keyspace with the oldest run holds more than [`SMALL_BYTES_MAX`]: it flushes alone.
/// All that begin before the oldest runs end are taken, since the log is freed by all of them or
/// none. Then others are added until they hold what a flush takes. At most [`SMALL_COUNT_MAX`], so
/// that others work on the rest meanwhile; none where it would be fewer than [`SMALL_COUNT_MIN`].
pub(crate) fn pick_small<'v>(
    keyspaces: impl Iterator<Item = &'v Arc<Keyspace>>,
    busy: &BTreeSet<(u32, Position)>,
    pressure: bool,
    through: impl Fn(u32) -> Position,
    settings: &Settings,
) -> Vec<(u32, Vec<Position>)> {
    let wanted = keyspaces.filter(|keyspace| is_wanted(keyspace, busy, pressure, through(keyspace.id())));
    let oldest = |keyspace: &Keyspace| keyspace.runs.last().map(|run| run.span());
    let mut wanted: Vec<&Arc<Keyspace>> = wanted.collect();
    wanted.sort_by_key(|keyspace| (oldest(keyspace).map(|span| span.start), keyspace.id()));
    let Some(end) = wanted.first().and_then(|first| oldest(first)).map(|span| span.end) else {
        return Vec::new();
    };
    let enough = flush_bytes(settings.engine.buffer_bytes);
    let mut taken = 0;
    let mut flushes = Vec::new();
    for (place, keyspace) in wanted.into_iter().enumerate() {
        let is_enough = taken >= enough && oldest(keyspace).is_some_and(|span| span.start >= end);
        if is_enough || flushes.len() == SMALL_COUNT_MAX {
            break;
        }
        let (id, through) = (keyspace.id(), through(keyspace.id()));
        let oldest_first = keyspace.runs.iter().rev();
        let runs = oldest_first.take_while(|run| {
            let start = run.span().start;
            (pressure || start < through) && !busy.contains(&(id, start))
        });
        let mut starts: Vec<Position> = Vec::new();
        let mut bytes = 0;
        for run in runs {
            bytes += run.live_bytes() + run.memory_bytes();
            starts.push(run.span().start);
        }
        match bytes <= SMALL_BYTES_MAX.min(settings.engine.table_bytes) {
            true => {
                starts.reverse();
                taken += bytes;
                flushes.push((id, starts));
            }
            false if place == 0 => return Vec::new(),
            false => {}
        }
    }
    if flushes.len() < SMALL_COUNT_MIN { Vec::new() } else { flushes }
}

/// Bytes in runs of a keyspace that flushes together with others, at most.
const SMALL_BYTES_MAX: u64 = 1 << 20;

/// Keyspaces that flush together, at most.
const SMALL_COUNT_MAX: usize = 512;

#[cfg(test)]
mod tests;
