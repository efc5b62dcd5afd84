//! Flushing a buffer for what it hides in tables.
//!
//! A buffer that is not full is flushed when it hides much for what it holds. Thousands of
//! tombstones are few bytes: no flush would come for them, and all that they hide would stay. What
//! runs hide was found out when they were made. What memtables hide is found out now and then,
//! since a freeze costs a segment.

use std::sync::Arc;

use firn_format::Position;

use super::choose::Choosing;
use crate::flush::met::Met;
use crate::maintenance::Task;
use crate::settings::garbage_share_max;
use crate::version::Keyspace;
use crate::version::observed::Probed;

/// Of what tables may hide, the buffer may hide this part as well,
const PART: f64 = 0.5;

/// and this one at rest.
const PART_AT_REST: f64 = 0.3;

/// and this one while writes are refused for want of room on the disk.
const PART_WHILE_SHORT: f64 = 0.05;

/// What it may hide however little lives, at rest; at other times it is a segment.
const FREE_BYTES_AT_REST: u64 = 4 << 20;

/// While sessions write, a flush must free so many times what it writes. Records that hide about as
/// much as they have themselves are flushed soon enough by their own weight, and better in large
/// pieces.
const WORTH: u64 = 4;

/// A memtable is looked at once it has so many records, and each time that it has a quarter more.
const PROBE_RECORDS: usize = 64;

/// Records looked at each time, about.
const PROBE_SAMPLE: usize = 256;

/// What the buffer of a keyspace hides in its tables.
struct Hiding<'v> {
    keyspace: &'v Arc<Keyspace>,
    /// By its runs that no flush was asked for yet.
    run_bytes: u64,
    /// By its memtable.
    memtable_bytes: u64,
    /// Bytes of records of those runs.
    live_bytes: u64,
}

impl Choosing<'_> {
    /// A keyspace whose buffer is to be flushed for what it hides, or whose memtable is to be
    /// frozen, so that it shows how much that is. `flushed_through` tells through where a flush of
    /// a keyspace was asked for already.
    pub(super) fn choose_to_flush(&self, flushed_through: impl Fn(u32) -> Position) -> Option<Task> {
        let held = self.version.table_bytes();
        if held == 0 {
            return None;
        }
        let is_at_rest = self.database.is_at_rest();
        let is_short_of_disk = self.database.commit.is_short_of_disk();
        let allowed = held as f64 * garbage_share_max(&self.database.settings);
        let limit = match (is_short_of_disk, is_at_rest) {
            (true, _) => (allowed * PART_WHILE_SHORT) as u64,
            (false, true) => (allowed * PART_AT_REST) as u64 + FREE_BYTES_AT_REST,
            (false, false) => (allowed * PART) as u64 + self.database.settings.engine.log_segment_bytes,
        };
        // A compaction would write what the buffer hides once more, and might find no room for it.
        let limit =
            if is_at_rest || is_short_of_disk { limit.min(self.database.commit.job_room()) } else { limit };
        let known = self.version.live().filter(|keyspace| keyspace.levels.tables().next().is_some());
        let hiding: Vec<Hiding<'_>> =
            known.map(|keyspace| self.hiding(keyspace, flushed_through(keyspace.id()), is_at_rest)).collect();
        if hiding.iter().map(|one| one.run_bytes + one.memtable_bytes).sum::<u64>() <= limit {
            return None;
        }
        let is_worth = |hidden: u64, costs: u64| hidden > 0 && (is_at_rest || hidden >= costs * WORTH);
        let worst = hiding.iter().max_by_key(|one| one.run_bytes.max(one.memtable_bytes))?;
        let keyspace = worst.keyspace;
        if worst.run_bytes >= worst.memtable_bytes && is_worth(worst.run_bytes, worst.live_bytes) {
            let through = keyspace.runs.first().map(|run| run.span().end)?;
            return Some(Task::FlushForGc { keyspace: keyspace.id(), through });
        }
        let costs = keyspace.memtable.record_bytes() as u64;
        // Where the disk is full nothing else may make room in memory.
        let has_memory = self.database.commit.has_memory_for(self.database.settings.engine.log_segment_bytes)
            || is_short_of_disk;
        let may_freeze = keyspace.frozen.is_empty() && has_memory;
        (may_freeze && is_worth(worst.memtable_bytes, costs))
            .then_some(Task::FlushForGc { keyspace: keyspace.id(), through: Position::default() })
    }

    fn hiding<'v>(
        &self,
        keyspace: &'v Arc<Keyspace>,
        flushed_through: Position,
        is_at_rest: bool,
    ) -> Hiding<'v> {
        let runs = || keyspace.runs.iter().filter(|run| run.span().start >= flushed_through);
        Hiding {
            keyspace,
            run_bytes: runs().map(|run| run.hidden_bytes()).sum(),
            memtable_bytes: self.probe(keyspace, is_at_rest),
            live_bytes: runs().map(|run| run.live_bytes()).sum(),
        }
    }

    /// Bytes that the memtable of `keyspace` hides in tables, about. Looks at a sample if it has
    /// grown since that was done.
    fn probe(&self, keyspace: &Keyspace, is_at_rest: bool) -> u64 {
        let len = keyspace.memtable.len();
        let mut probed = keyspace.observed.probe.lock();
        if probed.of != keyspace.memtable_start {
            *probed = Probed { of: keyspace.memtable_start, excess: probed.excess, ..Probed::default() };
        }
        let is_due = len >= probed.len + (probed.len / 4).max(PROBE_RECORDS);
        if is_due || is_at_rest && len != probed.len {
            let (mut met, step) = (Met::default(), (len / PROBE_SAMPLE).max(1));
            for (position, hash) in keyspace.memtable.sample(step) {
                let record = (position, hash, true);
                met.ask(record, step as u64, &self.version.segments, &keyspace.runs, &keyspace.levels);
            }
            (probed.len, probed.each) = (len, met.hidden_each(step as u64));
        }
        (probed.each * len as f64 / probed.excess.max(1.0)) as u64
    }
}
