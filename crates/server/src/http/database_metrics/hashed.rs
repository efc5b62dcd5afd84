//! The hashed engine as metrics: its index, its log, what reads and compaction do.

use firn_engine::{HashStats, Stats};

use super::super::exposition::Exposition;
use super::super::exposition::Kind::{Counter, Gauge};

/// docs/operate/monitoring.md names these.
pub(super) fn text(stats: &Stats, hash: &HashStats, text: &mut Exposition) {
    let gauges = [
        ("index_bytes", hash.index_bytes, "Memory of the index."),
        ("index_entries", hash.index_entry_count, "Chains that the index leads to: about as many as keys."),
        ("resident_bytes", hash.resident_bytes, "Bytes of the log that are in memory."),
        ("cache_bytes", hash.cache_bytes, "Memory of copies of records that were read from segments."),
        ("segments", hash.segment_count, "Segments of the log."),
        ("segment_bytes", hash.segment_bytes, "Bytes of segments, as far as they are filled."),
        ("cold_segments", hash.cold.segment_count, "Segments of the cold log."),
        ("cold_segment_bytes", hash.cold.segment_bytes, "Bytes of them, as far as they are filled."),
        (
            "cold_run_entries",
            hash.cold.run_entry_count,
            "Records that runs of the cold log find, dead ones too.",
        ),
        ("cold_run_bytes", hash.cold.run_bytes, "Bytes of runs of the cold log."),
        ("cold_memory_bytes", hash.cold.memory_bytes, "Memory of what finds records of the cold log."),
        ("redo_bytes", stats.log_bytes, "Bytes of the redo log, which an opening applies again."),
    ];
    for (name, value, help) in gauges {
        text.single(&format!("firn_hashlog_{name}"), Gauge, help, value);
    }
    let longest = [
        ("growth_wait_max_seconds", hash.growth_wait_us_max, "The longest wait for a slot that grew."),
        (
            "stop_wait_max_seconds",
            hash.stop_wait_us_max,
            "The longest wait while all operations were stopped.",
        ),
    ];
    for (name, us, help) in longest {
        text.single(&format!("firn_hashlog_{name}"), Gauge, help, us as f64 / 1e6);
    }
    let counters = [
        ("growths_total", hash.growth_count, "Slots of the index that began to grow."),
        ("growth_waits_total", hash.growth_wait_count, "Waits of operations for a slot that grew."),
        ("stop_waits_total", hash.stop_wait_count, "Waits of operations while all were stopped."),
        ("device_reads_total", stats.read_miss_count, "Records that were read from segments."),
        ("flush_write_bytes_total", hash.flush_write_bytes_total, "Bytes of records written to segments."),
        ("value_write_bytes_total", hash.value_write_bytes_total, "Bytes written of values that lie alone."),
        ("redo_write_bytes_total", stats.log_write_bytes_total, "Bytes written to the redo log."),
        ("checkpoints_total", hash.checkpoint_count, "Checkpoints taken."),
        ("compaction_read_bytes_total", hash.compaction_read_bytes_total, "Bytes compaction went over."),
        ("compaction_copy_bytes_total", hash.compaction_copy_bytes_total, "Those that lived, copied."),
        ("cold_run_write_bytes_total", hash.cold.run_write_bytes_total, "Bytes written of runs."),
    ];
    for (name, value, help) in counters {
        text.single(&format!("firn_hashlog_{name}"), Counter, help, value);
    }
}
