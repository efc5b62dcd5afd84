//! The stall forecast of a database, for executors elsewhere.

use std::sync::atomic::Ordering;
use std::time::Duration;

use firn_engine::pace::Sample;
use firn_jobs::submit::Submitter;

use crate::commit::CommitPipeline;
use crate::commit::forecast::{Filling, stalls_in};
use crate::compact::pick::{FAR_BEHIND, PickRules, deepest};
use crate::compact::pick_rules;
use crate::memory::flush_bytes;
use crate::settings::Settings;
use crate::version::catalog::Catalog;
use crate::version::{Keyspace, Version};

/// Gives the executor of `jobs` the time until writers stop, four times a second at most. Where all
/// jobs run here it does nothing.
pub(super) fn report_urgency(
    pipeline: &CommitPipeline,
    catalog: &Catalog,
    settings: &Settings,
    jobs: &Submitter,
    now: Duration,
) {
    if jobs.chain.is_none() {
        return;
    }
    let sample = || Sample {
        at: now,
        log_bytes: pipeline.log.written_bytes.load(Ordering::Relaxed),
        held_up_us: pipeline.pace.slowdown_us() + pipeline.admission.stop_us(),
    };
    let Some(inflow) = pipeline.forecast.look(now, sample) else { return };
    if pipeline.admission.is_writer_stopped() {
        return jobs.urge(Some(Duration::ZERO));
    }
    let (version, rules) = (catalog.version.load(), pick_rules(settings, catalog));
    let keyspaces: Vec<Filling> =
        version.live().map(|keyspace| filling(keyspace, &rules, settings)).collect();
    let depth_max = rules.depth_max as f64 * FAR_BEHIND;
    jobs.urge(stalls_in(&keyspaces, depth_max as u32, room(pipeline, &version, settings), inflow));
}

fn filling(keyspace: &Keyspace, rules: &PickRules, settings: &Settings) -> Filling {
    let level0 = &keyspace.levels.level0;
    let bytes: u64 = level0.iter().map(|run| run.bytes()).sum();
    let frozen: usize = keyspace.frozen.iter().map(|frozen| frozen.memtable.len()).sum();
    let runs: usize = keyspace.runs.iter().map(|run| run.len()).sum();
    Filling {
        depth: deepest(&keyspace.levels, rules) as u32,
        run_bytes: bytes
            .checked_div(level0.len() as u64)
            .unwrap_or(flush_bytes(settings.engine.buffer_bytes)),
        records: (keyspace.memtable.len() + frozen + runs) as u64,
    }
}

/// Bytes that may be written before the buffer is full.
fn room(pipeline: &CommitPipeline, version: &Version, settings: &Settings) -> u64 {
    let active = pipeline.log.active();
    let unused = active.memory_bytes().saturating_sub(active.region().published() as u64);
    let held: u64 = version.segments.segments().iter().map(|segment| segment.memory_bytes()).sum();
    (settings.engine.buffer_bytes_max + unused).saturating_sub(held + pipeline.index_bytes())
}
