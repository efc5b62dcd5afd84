//! The answer of `stats`.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use firn_engine::{BlobStats, KeyspaceStats, SharedCacheStats, Stats, TreeKeyspaceStats, TreeStats};
use firn_storage::backend::CacheCounters;

use crate::background::Inputs;
use crate::blobs::Home;
use crate::database::Database;
use crate::maintenance::Unavailable;

/// What holds while background work is refused, whatever refuses it: the reason says what to do
/// about that.
const MEANWHILE: &str = "it is tried again by itself, writes go on while there is room for them, and nothing that was acknowledged is given up";

/// What holds while a file is damaged, and what helps.
const AROUND_DAMAGE: &str = "the file is left as it is and all else goes on: `firn verify` names everything that is damaged, and what of it is lost can be had from a backup alone";

/// What holds while work on files is set aside, and what helps.
const AROUND_SET_ASIDE: &str = "the work fails each time, so its files are left as they are and all else goes on: reads find what they hold, and the next opening tries again; please report it";

/// What `database` says of itself. Waits for no storage, and for no lock that is held while storage
/// is waited for.
pub(crate) fn stats(database: &Database) -> Stats {
    let (version, now) = (database.catalog.version.load(), database.clock.now());
    let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let tables = || version.live().flat_map(|keyspace| keyspace.levels.tables());
    let buffer_bytes = database.commit.buffer_bytes();
    let held = database.commit.held_bytes();
    let (damaged, failed) = (Inputs::of(database).damage(), Inputs::of(database).failures());
    let tree = TreeStats {
        flush_write_bytes_total: read(&database.maintenance.counters.flush_write_bytes),
        ingest_write_bytes_total: read(&database.maintenance.counters.ingest_write_bytes),
        ingest_count: read(&database.maintenance.counters.ingest_count),
        compaction_write_bytes_total: read(&database.maintenance.counters.compaction_write_bytes),
        compaction_read_bytes_total: read(&database.maintenance.counters.compaction_read_bytes),
        merge_index_bytes_total: read(&database.maintenance.counters.merge_index_bytes),
        scan_dead_passed_count: read(&database.reads.counters.dead_passed),
        flush_count: read(&database.maintenance.counters.flush_count),
        compaction_count: read(&database.maintenance.counters.compaction_count),
        merge_count: read(&database.maintenance.counters.merge_count),
        buffer_bytes,
        table_bytes: version.table_bytes() + database.files.obsolete.shared.dead_bytes(),
        table_count: tables().count() as u64,
        blobs: blob_stats(database),
    };
    Stats {
        durability: database.settings.durability,
        open_us: now.saturating_sub(database.opened).as_micros() as u64,
        user_write_bytes_total: read(&database.commit.user_write_bytes),
        log_write_bytes_total: read(&database.commit.log.written_bytes),
        manifest_write_bytes_total: read(&database.catalog.manifest_write_bytes),
        read_miss_bytes_total: database.reads.cache.miss_bytes_total(),
        read_miss_count: read(&database.reads.counters.miss_count),
        sync_count: database.commit.log.sync_count(),
        jobs_passed_on_count: database.maintenance.jobs.chain.as_ref().map_or(0, |chain| chain.count()),
        jobs_passed_on_reason: database.maintenance.jobs.chain.as_ref().and_then(|chain| chain.reason()),
        orphan_remove_count: read(&database.maintenance.counters.orphan_remove_count),
        upload_abort_count: read(&database.maintenance.counters.upload_abort_count),
        upload_refusal: database.maintenance.orphan_gc.upload_refusal(),
        log_object_count: read(&database.shared_log.count),
        log_object_write_bytes_total: read(&database.shared_log.bytes),
        slowdown_us_total: database.commit.pace.slowdown_us(),
        stop_us_total: database.commit.admission.stop_us(),
        slowdown_wall_us_total: database.commit.pace.slowdown_wall_us(now),
        stop_wall_us_total: database.commit.admission.stop_wall_us(now),
        memory_bytes: held + database.reads.cache.memory_bytes(),
        memory_bytes_max: database.settings.memory_bytes,
        log_bytes: version.segments.segments().iter().map(|segment| segment.file_bytes()).sum(),
        recycled_bytes: database.files.outputs.recycled_bytes() + database.commit.log.recycled().file_bytes(),
        debt_bytes: buffer_bytes.saturating_sub(database.settings.engine.buffer_bytes),
        snapshot_count: database.catalog.snapshots.count(),
        damaged_file_count: damaged.count,
        damage: damaged.why.map(|why| format!("{why}; {AROUND_DAMAGE}")),
        set_aside_file_count: failed.count,
        set_aside: failed.why.map(|why| format!("{why}; {AROUND_SET_ASIDE}")),
        background_refusal: database
            .maintenance
            .refusal(|keyspace| database.catalog.version.load().keyspace(keyspace).is_ok())
            .map(|why| format!("{why}; {MEANWHILE}")),
        write_refusal: database.commit.write_refusal().map(|why| why.to_string()),
        write_failure: database.commit.log.poison().map(ToString::to_string),
        shared_cache: database.files.storage.cache_counters().map(shared_cache_stats),
        jobs: database.maintenance.jobs.stats(),
        hash: None,
        tree: Some(tree),
        keyspaces: version.live().map(|keyspace| keyspace_stats(keyspace)).collect(),
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

fn blob_stats(database: &Database) -> BlobStats {
    let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let mut stats = BlobStats {
        write_count: read(&database.blobs.counters.written_count),
        write_bytes_total: read(&database.blobs.counters.written_bytes),
        sync_count: read(&database.blobs.counters.sync_count),
        read_count: read(&database.reads.counters.beside_count),
        read_bytes_total: read(&database.reads.counters.beside_bytes),
        gc_count: read(&database.blobs.counters.gc_count),
        gc_segment_count: read(&database.blobs.counters.gc_segment_count),
        gc_failure_count: read(&database.blobs.counters.gc_failure_count),
        gc_read_bytes_total: read(&database.blobs.counters.gc_read_bytes),
        gc_write_bytes_total: read(&database.blobs.counters.gc_write_bytes),
        survivor_count: read(&database.blobs.counters.survivor_count),
        survivor_bytes_total: read(&database.blobs.counters.survivor_bytes),
        dropped_count: read(&database.blobs.counters.dropped_count),
        dropped_bytes_total: read(&database.blobs.counters.dropped_bytes),
        wholly_dead_count: read(&database.blobs.counters.wholly_dead_count),
        wholly_dead_bytes_total: read(&database.blobs.counters.wholly_dead_bytes),
        ..BlobStats::default()
    };
    for (_, home) in database.blobs.map().homes() {
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
    (stats.retired_count, stats.retired_bytes) = database.files.obsolete.retired_blobs();
    let version = database.catalog.version.load();
    stats.obsolete_count = version.live().map(|keyspace| keyspace.obsolete_count).sum();
    (stats.unreclaimed_bytes, stats.debt_bytes) = {
        let Unavailable { set_aside, .. } = database.maintenance.unavailable_segments();
        let unavailable = Unavailable { collecting: Cow::default(), set_aside };
        database.blob_space(&version, &unavailable).debt()
    };
    stats
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
    let frozen = keyspace.frozen.iter().map(|frozen| frozen.memtable.len()).sum::<usize>();
    KeyspaceStats {
        id: keyspace.id(),
        name: keyspace.definition.name.clone(),
        compression: keyspace.definition.compression,
        tree: Some(TreeKeyspaceStats {
            memtable_records: (keyspace.memtable.len() + frozen) as u64,
            runs: keyspace.runs.iter().map(|run| (run.level(), run.len() as u64)).collect(),
            levels: std::iter::once(level0).chain(levels.deeper.iter().map(|run| of(&run.tables))).collect(),
        }),
    }
}
