//! `firn stats`: what a database counts.

use std::path::PathBuf;

use firn_engine::{KeyspaceStats, Stats};
use serde_json::{Map, Value, json};

use crate::database::{Access, Database, Place};
use crate::ending::{Ending, Result};
use crate::output::Output;
use crate::shared_place::SharedName;

/// Print sizes and counters of a database, of its keyspaces and of their levels.
///
/// Counters count from the moment of opening, so here they say what opening did.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The database's directory.
    dir: PathBuf,
    #[command(flatten)]
    shared: SharedName,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Ending> {
    let database = Database::open(&Place::of(&arguments.dir, &arguments.shared), Access::Read)?;
    let stats = database.stats();
    database.close()?;
    let mut output = Output::new();
    if arguments.json {
        output.line(&as_json(&stats).to_string());
    } else {
        as_lines(&stats, &mut output);
    }
    output.finish()?;
    Ok(Ending::Done)
}

/// The figures that are one number, by name.
fn figures(stats: &Stats) -> [(&'static str, u64); 58] {
    [
        ("user_write_bytes_total", stats.user_write_bytes_total),
        ("log_write_bytes_total", stats.log_write_bytes_total),
        ("drain_write_bytes_total", stats.drain_write_bytes_total),
        ("compaction_write_bytes_total", stats.compaction_write_bytes_total),
        ("compaction_read_bytes_total", stats.compaction_read_bytes_total),
        ("manifest_write_bytes_total", stats.manifest_write_bytes_total),
        ("merge_index_bytes_total", stats.merge_index_bytes_total),
        ("read_miss_bytes_total", stats.read_miss_bytes_total),
        ("read_miss_count", stats.read_miss_count),
        ("scan_dead_passed_count", stats.scan_dead_passed_count),
        ("sync_count", stats.sync_count),
        ("drain_count", stats.drain_count),
        ("compaction_count", stats.compaction_count),
        ("merge_count", stats.merge_count),
        ("compaction_fallback_count", stats.compaction_fallback_count),
        ("job_elsewhere_count", stats.jobs.kinds.iter().map(|kind| kind.elsewhere_count).sum()),
        ("job_here_count", stats.jobs.kinds.iter().map(|kind| kind.here_count).sum()),
        ("orphan_remove_count", stats.orphan_remove_count),
        ("upload_abort_count", stats.upload_abort_count),
        ("group_count", stats.group_count),
        ("group_write_bytes_total", stats.group_write_bytes_total),
        ("slowdown_us_total", stats.slowdown_us_total),
        ("stop_us_total", stats.stop_us_total),
        ("memory_bytes", stats.memory_bytes),
        ("memory_bytes_max", stats.memory_bytes_max),
        ("buffer_bytes", stats.buffer_bytes),
        ("log_bytes", stats.log_bytes),
        ("table_bytes", stats.table_bytes),
        ("table_count", stats.table_count),
        ("spare_bytes", stats.spare_bytes),
        ("debt_bytes", stats.debt_bytes),
        ("snapshot_count", stats.snapshot_count),
        ("value_segment_count", stats.values.segment_count),
        ("value_segment_bytes", stats.values.segment_bytes),
        ("value_dead_bytes", stats.values.dead_bytes),
        ("value_stale_count", stats.values.stale_count),
        ("value_hidden_bytes", stats.values.hidden_bytes),
        ("value_debt_bytes", stats.values.debt_bytes),
        ("value_retired_count", stats.values.retired_count),
        ("value_retired_bytes", stats.values.retired_bytes),
        ("redirect_count", stats.values.redirect_count),
        ("redirect_bytes", stats.values.redirect_bytes),
        ("value_write_count", stats.values.write_count),
        ("value_write_bytes_total", stats.values.write_bytes_total),
        ("value_sync_count", stats.values.sync_count),
        ("value_read_count", stats.values.read_count),
        ("value_read_bytes_total", stats.values.read_bytes_total),
        ("collection_count", stats.values.collection_count),
        ("collected_segment_count", stats.values.collected_segment_count),
        ("collection_failure_count", stats.values.collection_failure_count),
        ("collection_read_bytes_total", stats.values.collection_read_bytes_total),
        ("collection_write_bytes_total", stats.values.collection_write_bytes_total),
        ("value_survivor_count", stats.values.survivor_count),
        ("value_survivor_bytes_total", stats.values.survivor_bytes_total),
        ("value_dropped_count", stats.values.dropped_count),
        ("value_dropped_bytes_total", stats.values.dropped_bytes_total),
        ("value_wholly_dead_count", stats.values.wholly_dead_count),
        ("value_wholly_dead_bytes_total", stats.values.wholly_dead_bytes_total),
    ]
}

fn as_json(stats: &Stats) -> Value {
    let mut object: Map<String, Value> =
        figures(stats).into_iter().map(|(name, figure)| (name.to_owned(), json!(figure))).collect();
    let keyspace = |keyspace: &KeyspaceStats| {
        let runs = keyspace.runs.iter().map(|(level, records)| json!({ "level": level, "records": records }));
        let levels =
            keyspace.levels.iter().map(|(tables, bytes)| json!({ "tables": tables, "bytes": bytes }));
        json!({
            "id": keyspace.id,
            "name": keyspace.name,
            "compression": keyspace.compression.name(),
            "memtable_records": keyspace.memtable_records,
            "runs": runs.collect::<Vec<Value>>(),
            "levels": levels.collect::<Vec<Value>>(),
        })
    };
    object.insert("value_segments_by_dead".to_owned(), json!(stats.values.by_dead));
    object.insert("keyspaces".to_owned(), stats.keyspaces.iter().map(keyspace).collect());
    Value::Object(object)
}

fn as_lines(stats: &Stats, output: &mut Output) {
    for (name, figure) in figures(stats) {
        output.line(&format!("{name:<30} {figure:>16}"));
    }
    for keyspace in &stats.keyspaces {
        output.line(&format!("\nkeyspace {} '{}'", keyspace.id, keyspace.name));
        output.line(&format!("  compression {:>9}", keyspace.compression.name()));
        output.line(&format!("  memtable {:>12} records", keyspace.memtable_records));
        for (level, records) in &keyspace.runs {
            output.line(&format!("  run B{level:<6} {records:>10} records"));
        }
        for (level, (tables, bytes)) in keyspace.levels.iter().enumerate() {
            output.line(&format!("  level L{level:<4} {tables:>10} tables {bytes:>16} bytes"));
        }
    }
}
