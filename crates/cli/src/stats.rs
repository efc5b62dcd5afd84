//! `firn stats`: what a database counts.

use firn::EngineKind;
use firn_engine::{HashStats, KeyspaceStats, Stats};
use serde_json::{Map, Value, json};

use crate::access::Access;
use crate::database::{Database, Directory, Place};
use crate::ending::{Ending, Result};
use crate::output::Output;
use crate::served;
use crate::shared_storage::SharedName;

/// Print what a database holds, and what it counts: by subject, in units for people, without what
/// is 0. With --json all figures are there.
///
/// Counters count from the moment of opening, so here they say what opening did.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    dir: Directory,
    #[command(flatten)]
    shared: SharedName,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Ending> {
    let database = Database::open(&Place::of(&arguments.dir.dir, &arguments.shared), Access::Read)?;
    let (stats, engine) = (database.stats(), database.engine_kind());
    let served = database.served().map(|served| served::summary(&database, served)).transpose()?;
    database.close()?;
    let mut output = Output::new();
    if arguments.json {
        output.line(&as_json(&stats, engine).to_string());
    } else {
        output.bytes(stats.to_string().as_bytes());
        if let Some(served) = served {
            output.line(&format!("\n{served}"));
        }
    }
    output.finish()?;
    Ok(Ending::Done)
}

/// The figures that are one number, by name.
fn figures(stats: &Stats) -> [(&'static str, u64); 63] {
    let tree = stats.tree.clone().unwrap_or_default();
    [
        ("open_us", stats.open_us),
        ("user_write_bytes_total", stats.user_write_bytes_total),
        ("log_write_bytes_total", stats.log_write_bytes_total),
        ("flush_write_bytes_total", tree.flush_write_bytes_total),
        ("ingest_write_bytes_total", tree.ingest_write_bytes_total),
        ("ingest_count", tree.ingest_count),
        ("compaction_write_bytes_total", tree.compaction_write_bytes_total),
        ("compaction_read_bytes_total", tree.compaction_read_bytes_total),
        ("manifest_write_bytes_total", stats.manifest_write_bytes_total),
        ("merge_index_bytes_total", tree.merge_index_bytes_total),
        ("read_miss_bytes_total", stats.read_miss_bytes_total),
        ("read_miss_count", stats.read_miss_count),
        ("scan_dead_passed_count", tree.scan_dead_passed_count),
        ("sync_count", stats.sync_count),
        ("flush_count", tree.flush_count),
        ("compaction_count", tree.compaction_count),
        ("merge_count", tree.merge_count),
        ("jobs_passed_on_count", stats.jobs_passed_on_count),
        ("job_elsewhere_count", stats.jobs.kinds.iter().map(|kind| kind.elsewhere_count).sum()),
        ("job_here_count", stats.jobs.kinds.iter().map(|kind| kind.here_count).sum()),
        ("orphan_remove_count", stats.orphan_remove_count),
        ("upload_abort_count", stats.upload_abort_count),
        ("log_object_count", stats.log_object_count),
        ("log_object_write_bytes_total", stats.log_object_write_bytes_total),
        ("slowdown_us_total", stats.slowdown_us_total),
        ("stop_us_total", stats.stop_us_total),
        ("slowdown_wall_us_total", stats.slowdown_wall_us_total),
        ("stop_wall_us_total", stats.stop_wall_us_total),
        ("memory_bytes", stats.memory_bytes),
        ("memory_bytes_max", stats.memory_bytes_max),
        ("buffer_bytes", tree.buffer_bytes),
        ("log_bytes", stats.log_bytes),
        ("table_bytes", tree.table_bytes),
        ("table_count", tree.table_count),
        ("recycled_bytes", stats.recycled_bytes),
        ("debt_bytes", stats.debt_bytes),
        ("snapshot_count", stats.snapshot_count),
        ("blob_segment_count", tree.blobs.segment_count),
        ("blob_segment_bytes", tree.blobs.segment_bytes),
        ("blob_dead_bytes", tree.blobs.dead_bytes),
        ("blob_obsolete_reference_count", tree.blobs.obsolete_count),
        ("blob_unreclaimed_bytes", tree.blobs.unreclaimed_bytes),
        ("blob_debt_bytes", tree.blobs.debt_bytes),
        ("blob_retired_count", tree.blobs.retired_count),
        ("blob_retired_bytes", tree.blobs.retired_bytes),
        ("relocation_count", tree.blobs.relocation_count),
        ("relocation_bytes", tree.blobs.relocation_bytes),
        ("blob_write_count", tree.blobs.write_count),
        ("blob_write_bytes_total", tree.blobs.write_bytes_total),
        ("blob_sync_count", tree.blobs.sync_count),
        ("blob_read_count", tree.blobs.read_count),
        ("blob_read_bytes_total", tree.blobs.read_bytes_total),
        ("blob_gc_count", tree.blobs.gc_count),
        ("blob_gc_segment_count", tree.blobs.gc_segment_count),
        ("blob_gc_failure_count", tree.blobs.gc_failure_count),
        ("blob_gc_read_bytes_total", tree.blobs.gc_read_bytes_total),
        ("blob_gc_write_bytes_total", tree.blobs.gc_write_bytes_total),
        ("blob_survivor_count", tree.blobs.survivor_count),
        ("blob_survivor_bytes_total", tree.blobs.survivor_bytes_total),
        ("blob_dropped_count", tree.blobs.dropped_count),
        ("blob_dropped_bytes_total", tree.blobs.dropped_bytes_total),
        ("blob_wholly_dead_count", tree.blobs.wholly_dead_count),
        ("blob_wholly_dead_bytes_total", tree.blobs.wholly_dead_bytes_total),
    ]
}

fn as_json(stats: &Stats, engine: EngineKind) -> Value {
    let mut object: Map<String, Value> =
        figures(stats).into_iter().map(|(name, figure)| (name.to_owned(), json!(figure))).collect();
    let keyspace = |keyspace: &KeyspaceStats| {
        let tree = keyspace.tree.clone().unwrap_or_default();
        let runs = tree.runs.iter().map(|(level, records)| json!({ "level": level, "records": records }));
        let levels = tree.levels.iter().map(|(tables, bytes)| json!({ "tables": tables, "bytes": bytes }));
        json!({
            "id": keyspace.id,
            "name": keyspace.name,
            "compression": keyspace.compression.name(),
            "memtable_records": tree.memtable_records,
            "runs": runs.collect::<Vec<Value>>(),
            "levels": levels.collect::<Vec<Value>>(),
        })
    };
    object.insert(
        "blob_segments_by_dead".to_owned(),
        json!(stats.tree.clone().unwrap_or_default().blobs.by_dead),
    );
    if let Some(hash) = &stats.hash {
        object.insert("hash".to_owned(), hash_figures(hash));
    }
    object.insert("engine".to_owned(), json!(engine.name()));
    object.insert("keyspaces".to_owned(), stats.keyspaces.iter().map(keyspace).collect());
    Value::Object(object)
}

/// What the hashed engine alone counts, by name.
fn hash_figures(hash: &HashStats) -> Value {
    json!({
        "index_bytes": hash.index_bytes,
        "index_entry_count": hash.index_entry_count,
        "growth_count": hash.growth_count,
        "growth_wait_count": hash.growth_wait_count,
        "growth_wait_us_max": hash.growth_wait_us_max,
        "stop_wait_count": hash.stop_wait_count,
        "stop_wait_us_max": hash.stop_wait_us_max,
        "resident_bytes": hash.resident_bytes,
        "cache_bytes": hash.cache_bytes,
        "segment_count": hash.segment_count,
        "segment_bytes": hash.segment_bytes,
        "flush_write_bytes_total": hash.flush_write_bytes_total,
        "value_write_bytes_total": hash.value_write_bytes_total,
        "compaction_read_bytes_total": hash.compaction_read_bytes_total,
        "compaction_copy_bytes_total": hash.compaction_copy_bytes_total,
        "checkpoint_count": hash.checkpoint_count,
    })
}
