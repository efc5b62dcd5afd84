//! Which runs are merged and which drain: pure functions of the runs.

use std::collections::BTreeSet;
use std::sync::Arc;

use firn_format::Position;

use super::Run;
use crate::settings::TreeSettings;
use crate::version::Keyspace;

/// Runs to merge: the `fan_in` oldest of a stretch of runs of one level, adjacent in age; newest first.
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

/// A keyspace and its oldest runs, newest first, to be drained together.
///
/// Under `pressure` the keyspace with the oldest run drains most of what the buffer may hold, so that each
/// drain makes one long sorted run instead of many short ones. Without pressure only runs below `through` their keyspace drain.
/// A keyspace whose oldest run is busy waits; another one drains meanwhile.
pub(crate) fn pick_drain<'v>(
    keyspaces: impl Iterator<Item = &'v Arc<Keyspace>>,
    busy: &BTreeSet<(u32, Position)>,
    pressure: bool,
    through: impl Fn(u32) -> Position,
    settings: &TreeSettings,
) -> Option<(u32, Vec<Position>)> {
    let can_drain = |keyspace: &Keyspace| {
        keyspace.runs.last().is_some_and(|run| {
            let start = run.span().start;
            (pressure || start < through(keyspace.id())) && !busy.contains(&(keyspace.id(), start))
        })
    };
    let oldest = keyspaces
        .filter(|keyspace| can_drain(keyspace))
        .min_by_key(|keyspace| keyspace.runs.last().map(|run| run.span().start))?;
    let through = through(oldest.id());
    let enough = drain_bytes(settings.buffer_bytes);
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

/// Live bytes that a drain under pressure takes at least, of a buffer that may hold `buffer_bytes`.
pub(crate) fn drain_bytes(buffer_bytes: u64) -> u64 {
    buffer_bytes / 8 * 5
}

#[cfg(test)]
mod tests;
