//! What INFO tells of the engine.

use firn_engine::{BlobStats, JobStats, SharedCacheStats};

use super::Lines;
use crate::server_thread::ServerThread;

pub(super) fn firn(thread: &ServerThread, lines: &mut Lines) {
    let stats = thread.shared.store.db.stats();
    let tree = stats.tree.clone().unwrap_or_default();
    lines.line("engine", thread.shared.store.engines.name());
    lines.line("memory_bytes", stats.memory_bytes);
    lines.line("memory_bytes_max", stats.memory_bytes_max);
    lines.line("buffer_bytes", tree.buffer_bytes);
    lines.line("log_bytes", stats.log_bytes);
    lines.line("table_bytes", tree.table_bytes);
    lines.line("table_count", tree.table_count);
    lines.line("debt_bytes", stats.debt_bytes);
    lines.line("snapshot_count", stats.snapshot_count);
    lines.line("user_write_bytes_total", stats.user_write_bytes_total);
    lines.line("log_write_bytes_total", stats.log_write_bytes_total);
    lines.line("flush_write_bytes_total", tree.flush_write_bytes_total);
    lines.line("ingest_write_bytes_total", tree.ingest_write_bytes_total);
    lines.line("compaction_write_bytes_total", tree.compaction_write_bytes_total);
    lines.line("compaction_read_bytes_total", tree.compaction_read_bytes_total);
    let written = stats.device_write_bytes_total() - stats.manifest_write_bytes_total;
    let amplification = match stats.user_write_bytes_total {
        0 => 0.0,
        user => written as f64 / user as f64,
    };
    lines.line("write_amplification", format!("{amplification:.3}"));
    lines.line("read_miss_count", stats.read_miss_count);
    lines.line("read_miss_bytes_total", stats.read_miss_bytes_total);
    lines.line("scan_dead_passed_count", tree.scan_dead_passed_count);
    lines.line("sync_count", stats.sync_count);
    lines.line("flush_count", tree.flush_count);
    lines.line("ingest_count", tree.ingest_count);
    lines.line("merge_count", tree.merge_count);
    lines.line("compaction_count", tree.compaction_count);
    lines.line("recycled_bytes", stats.recycled_bytes);
    values(&tree.blobs, lines);
    lines.line("jobs_passed_on_count", stats.jobs_passed_on_count);
    lines.line("jobs_passed_on_reason", one_line(stats.jobs_passed_on_reason.as_deref()));
    lines.line("write_refusal", one_line(stats.write_refusal.as_deref()));
    lines.line("background_refusal", one_line(stats.background_refusal.as_deref()));
    lines.line("damaged_file_count", stats.damaged_file_count);
    lines.line("damage", one_line(stats.damage.as_deref()));
    lines.line("set_aside_file_count", stats.set_aside_file_count);
    lines.line("set_aside", one_line(stats.set_aside.as_deref()));
    jobs(&stats.jobs, lines);
    lines.line("orphan_remove_count", stats.orphan_remove_count);
    lines.line("upload_abort_count", stats.upload_abort_count);
    lines.line("upload_refusal", one_line(stats.upload_refusal.as_deref()));
    lines.line("log_object_count", stats.log_object_count);
    lines.line("log_object_write_bytes_total", stats.log_object_write_bytes_total);
    if let Some(cache) = &stats.shared_cache {
        shared_cache(cache, lines);
    }
    lines.line("open_us", stats.open_us);
    lines.line("slowdown_us_total", stats.slowdown_us_total);
    lines.line("stop_us_total", stats.stop_us_total);
    lines.line("slowdown_wall_us_total", stats.slowdown_wall_us_total);
    lines.line("stop_wall_us_total", stats.stop_wall_us_total);
    for keyspace in &stats.keyspaces {
        let Some(tree) = &keyspace.tree else { continue };
        let runs: u64 = tree.runs.iter().map(|(_, records)| records).sum();
        let levels: Vec<String> =
            tree.levels.iter().map(|(tables, bytes)| format!("{tables}/{bytes}")).collect();
        let text = format!(
            "memtable_records={},run_count={},run_records={runs},level_tables_and_bytes={}",
            tree.memtable_records,
            tree.runs.len(),
            levels.join(" ")
        );
        lines.line(&format!("keyspace_{}", keyspace.name), text);
    }
}

fn values(values: &BlobStats, lines: &mut Lines) {
    lines.line("blob_segment_count", values.segment_count);
    lines.line("blob_segment_bytes", values.segment_bytes);
    let by_dead = BlobStats::DEAD_SHARES.iter().zip(values.by_dead);
    let by_dead: Vec<String> = by_dead.map(|(share, count)| format!("le_{share}={count}")).collect();
    lines.line("blob_segments_by_dead", by_dead.join(","));
    lines.line("blob_dead_bytes", values.dead_bytes);
    lines.line("blob_obsolete_reference_count", values.obsolete_count);
    lines.line("blob_unreclaimed_bytes", values.unreclaimed_bytes);
    lines.line("blob_debt_bytes", values.debt_bytes);
    lines.line("blob_retired_count", values.retired_count);
    lines.line("blob_retired_bytes", values.retired_bytes);
    lines.line("blob_write_count", values.write_count);
    lines.line("blob_write_bytes_total", values.write_bytes_total);
    lines.line("blob_sync_count", values.sync_count);
    lines.line("blob_read_count", values.read_count);
    lines.line("blob_read_bytes_total", values.read_bytes_total);
    lines.line("relocation_count", values.relocation_count);
    lines.line("relocation_bytes", values.relocation_bytes);
    lines.line("blob_gc_count", values.gc_count);
    lines.line("blob_gc_segment_count", values.gc_segment_count);
    lines.line("blob_gc_failure_count", values.gc_failure_count);
    lines.line("blob_gc_read_bytes_total", values.gc_read_bytes_total);
    lines.line("blob_gc_write_bytes_total", values.gc_write_bytes_total);
    lines.line("blob_survivor_count", values.survivor_count);
    lines.line("blob_survivor_bytes_total", values.survivor_bytes_total);
    lines.line("blob_dropped_count", values.dropped_count);
    lines.line("blob_dropped_bytes_total", values.dropped_bytes_total);
    lines.line("blob_wholly_dead_count", values.wholly_dead_count);
    lines.line("blob_wholly_dead_bytes_total", values.wholly_dead_bytes_total);
}

fn shared_cache(cache: &SharedCacheStats, lines: &mut Lines) {
    lines.line("shared_cache_hit_count", cache.hit_count);
    lines.line("shared_cache_miss_count", cache.miss_count);
    lines.line("shared_cache_fetch_bytes_total", cache.fetch_bytes_total);
    lines.line("shared_cache_pass_bytes_total", cache.pass_bytes_total);
    lines.line("shared_cache_held_bytes", cache.held_bytes);
    lines.line("shared_cache_eviction_count", cache.eviction_count);
    lines.line("shared_cache_failure_count", cache.failure_count);
}

/// Why something is not done, in one line; empty = everything is.
fn one_line(reason: Option<&str>) -> String {
    let reason = reason.unwrap_or_default();
    reason.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

fn jobs(jobs: &JobStats, lines: &mut Lines) {
    lines.line("jobs_executor_away", u8::from(jobs.is_executor_away));
    lines.line("jobs_held_count", jobs.held_count);
    lines.line("jobs_held_bytes", jobs.held_bytes);
    lines.line("jobs_reexecuted_count", jobs.reexecuted_count);
    lines.line("jobs_differed_count", jobs.differed_count);
    lines.line("jobs_idle_count", jobs.idle_count);
    lines.line("jobs_idle_late_count", jobs.late_count);
    let causes: Vec<String> =
        jobs.passed_on.iter().map(|(cause, count)| format!("{cause}={count}")).collect();
    lines.line("jobs_passed_on_causes", causes.join(","));
    for kind in &jobs.kinds {
        let text = format!(
            "elsewhere_count={},elsewhere_bytes={},here_count={},here_bytes={}",
            kind.elsewhere_count, kind.elsewhere_bytes, kind.here_count, kind.here_bytes
        );
        lines.line(&format!("jobs_{}", kind.kind), text);
    }
    for stage in &jobs.stages {
        lines.line(
            &format!("jobs_{}_{}", stage.kind, stage.stage),
            format!("count={},us_total={}", stage.count, stage.us_total),
        );
    }
}
