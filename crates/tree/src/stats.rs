//! The answer of `stats`.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use firn_engine::{BlobStats, KeyspaceStats, SharedCacheStats, Stats, TreeKeyspaceStats, TreeStats};
use firn_storage::backend::CacheCounters;

use crate::background::{Inputs, Unavailable};
use crate::blobs::Home;
use crate::database::Database;

/// What holds while background work is refused, whatever refuses it: the reason says what to do
/// about that.
const MEANWHILE: &str = "it is tried again by itself, writes go on while there is room for them, and nothing that was acknowledged is given up";

/// What holds while a file is damaged, and what helps.
const AROUND_DAMAGE: &str = "the file is left as it is and all else goes on: `firn verify` names everything that is damaged, and what of it is lost can be had from a backup alone";

/// What holds while work on files is set aside, and what helps.
const AROUND_SET_ASIDE: &str = "the work fails each time, so its files are left as they are and all else goes on: reads find what they hold, and the next opening tries again; please report it";

impl Database {
    /// Waits for no storage, and for no lock that is held while storage is waited for.
    pub(crate) fn stats(&self) -> Stats {
        let version = self.catalog.version.load();
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let tables = || version.live().flat_map(|keyspace| keyspace.levels.tables());
        let buffer_bytes = self.commit.buffer_bytes();
        let held = self.commit.held_bytes();
        let (damaged, failed) = (Inputs::of(self).damage(), Inputs::of(self).failures());
        let tree = TreeStats {
            flush_write_bytes_total: read(&self.counters.flush_write_bytes),
            compaction_write_bytes_total: read(&self.counters.compaction_write_bytes),
            compaction_read_bytes_total: read(&self.counters.compaction_read_bytes),
            merge_index_bytes_total: read(&self.counters.merge_index_bytes),
            scan_dead_passed_count: read(&self.reads.counters.dead_passed),
            flush_count: read(&self.counters.flush_count),
            compaction_count: read(&self.counters.compaction_count),
            merge_count: read(&self.counters.merge_count),
            buffer_bytes,
            table_bytes: version.table_bytes() + self.files.obsolete.shared.dead_bytes(),
            table_count: tables().count() as u64,
            blobs: self.blob_stats(),
        };
        Stats {
            durability: self.settings.durability,
            user_write_bytes_total: read(&self.counters.user_write_bytes),
            log_write_bytes_total: read(&self.commit.log.written_bytes),
            manifest_write_bytes_total: read(&self.counters.manifest_write_bytes),
            read_miss_bytes_total: self.reads.cache.miss_bytes_total(),
            read_miss_count: read(&self.reads.counters.miss_count),
            sync_count: read(&self.commit.log.sync_count),
            jobs_passed_on_count: self.maintenance.jobs.chain.as_ref().map_or(0, |chain| chain.count()),
            jobs_passed_on_reason: self.maintenance.jobs.chain.as_ref().and_then(|chain| chain.reason()),
            orphan_remove_count: read(&self.counters.orphan_remove_count),
            upload_abort_count: read(&self.counters.upload_abort_count),
            upload_refusal: self.maintenance.orphan_gc.upload_refusal(),
            log_object_count: read(&self.shared_log.count),
            log_object_write_bytes_total: read(&self.shared_log.bytes),
            slowdown_us_total: self.commit.pace.slowdown_us(),
            stop_us_total: self.commit.admission.stop_us(),
            memory_bytes: held + self.reads.cache.memory_bytes(),
            memory_bytes_max: self.settings.memory_bytes,
            log_bytes: version.segments.segments().iter().map(|segment| segment.file_bytes()).sum(),
            recycled_bytes: self.files.outputs.recycled_bytes() + self.commit.log.recycled.file_bytes(),
            debt_bytes: buffer_bytes.saturating_sub(self.settings.engine.buffer_bytes),
            snapshot_count: self.catalog.snapshots.count(),
            damaged_file_count: damaged.count,
            damage: damaged.why.map(|why| format!("{why}; {AROUND_DAMAGE}")),
            set_aside_file_count: failed.count,
            set_aside: failed.why.map(|why| format!("{why}; {AROUND_SET_ASIDE}")),
            background_refusal: self
                .maintenance
                .refusal(|keyspace| self.catalog.version.load().keyspace(keyspace).is_ok())
                .map(|why| format!("{why}; {MEANWHILE}")),
            write_refusal: self.commit.write_refusal().map(|why| why.to_string()),
            write_failure: self.commit.log.poison().map(ToString::to_string),
            shared_cache: self.files.storage.cache_counters().map(shared_cache_stats),
            jobs: self.maintenance.jobs.stats(),
            tree: Some(tree),
            keyspaces: version.live().map(|keyspace| keyspace_stats(keyspace)).collect(),
        }
    }
}

fn shared_cache_stats(counters: CacheCounters) -> SharedCacheStats {
    SharedCacheStats {
        hit_count: counters.hits,
        miss_count: counters.misses,
        fetch_bytes_total: counters.fetched_bytes,
        pass_bytes_total: counters.passed_bytes,
        held_bytes: counters.held_bytes,
        eviction_count: counters.evictions,
        failure_count: counters.failures,
    }
}

impl Database {
    fn blob_stats(&self) -> BlobStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mut stats = BlobStats {
            write_count: read(&self.values.counters.written_count),
            write_bytes_total: read(&self.values.counters.written_bytes),
            sync_count: read(&self.values.counters.sync_count),
            read_count: read(&self.reads.counters.beside_count),
            read_bytes_total: read(&self.reads.counters.beside_bytes),
            gc_count: read(&self.values.counters.gc_count),
            gc_segment_count: read(&self.values.counters.gc_segment_count),
            gc_failure_count: read(&self.values.counters.gc_failure_count),
            gc_read_bytes_total: read(&self.values.counters.gc_read_bytes),
            gc_write_bytes_total: read(&self.values.counters.gc_write_bytes),
            survivor_count: read(&self.values.counters.survivor_count),
            survivor_bytes_total: read(&self.values.counters.survivor_bytes),
            dropped_count: read(&self.values.counters.dropped_count),
            dropped_bytes_total: read(&self.values.counters.dropped_bytes),
            wholly_dead_count: read(&self.values.counters.wholly_dead_count),
            wholly_dead_bytes_total: read(&self.values.counters.wholly_dead_bytes),
            ..BlobStats::default()
        };
        for (_, home) in self.values.map().homes() {
            let (segments, bytes) = match home {
                Home::Open(active) => (1, active.open.bytes()),
                Home::Unsealed(unsealed) => (1, unsealed.bytes()),
                Home::Sealed(sealed) => {
                    stats.add_sealed(sealed.meta.bytes, sealed.dead_bytes());
                    (1, sealed.meta.bytes)
                }
                Home::Moved(relocation, _) => {
                    stats.relocation_count += 1;
                    stats.relocation_bytes += relocation.memory_bytes() as u64;
                    (0, 0)
                }
            };
            stats.segment_count += segments;
            stats.segment_bytes += bytes;
        }
        (stats.retired_count, stats.retired_bytes) = self.files.obsolete.retired_blobs();
        let version = self.catalog.version.load();
        stats.obsolete_count = version.live().map(|keyspace| keyspace.obsolete_count).sum();
        (stats.unreclaimed_bytes, stats.debt_bytes) = {
            let Unavailable { set_aside, .. } = self.maintenance.unavailable_segments();
            let unavailable = Unavailable { collecting: Cow::default(), set_aside };
            self.blob_space(&version, &unavailable).debt()
        };
        stats
    }
}

fn keyspace_stats(keyspace: &crate::version::Keyspace) -> KeyspaceStats {
    let levels = &keyspace.levels;
    let of = |tables: &[Arc<crate::version::Table>]| {
        (tables.len() as u64, tables.iter().map(|table| table.meta().bytes).sum())
    };
    let level0 = levels
        .level0
        .iter()
        .map(|run| of(&run.tables))
        .fold((0, 0), |sum, run| (sum.0 + run.0, sum.1 + run.1));
    KeyspaceStats {
        id: keyspace.id(),
        name: keyspace.definition.name.clone(),
        compression: keyspace.definition.compression,
        tree: Some(TreeKeyspaceStats {
            memtable_records: keyspace.memtable.len() as u64,
            runs: keyspace.runs.iter().map(|run| (run.level(), run.len() as u64)).collect(),
            levels: std::iter::once(level0).chain(levels.deeper.iter().map(|run| of(&run.tables))).collect(),
        }),
    }
}
