//! Separated values as metrics: their segments, what reads and GCs do with them.

use firn_engine::BlobStats;

use super::super::exposition::Exposition;
use super::super::exposition::Kind::{Counter, Gauge};

/// docs/operate/monitoring.md names these.
pub(super) fn text(values: &BlobStats, text: &mut Exposition) {
    let gauges = [
        ("blob_segments", values.segment_count, "Blob segments."),
        ("blob_segment_bytes", values.segment_bytes, "Bytes of blob segments."),
        ("blob_dead_bytes", values.dead_bytes, "Bytes of values that nothing refers to."),
        ("blob_obsolete_references", values.obsolete_count, "References in tables to dead values."),
        (
            "blob_unreclaimed_bytes",
            values.unreclaimed_bytes,
            "Bytes of values that newer records hide, about.",
        ),
        ("blob_debt_bytes", values.debt_bytes, "Bytes that GCs have to free."),
        (
            "blob_retired_segments",
            values.retired_count,
            "Segments that are gone and whose files are still held.",
        ),
        ("blob_retired_bytes", values.retired_bytes, "Bytes of those files."),
        ("relocations", values.relocation_count, "Collected segments that lead to others."),
        ("relocation_bytes", values.relocation_bytes, "Memory of relocations."),
    ];
    for (name, value, help) in gauges {
        text.single(&format!("firn_engine_{name}"), Gauge, help, value);
    }
    let counters = [
        ("blob_writes_total", values.write_count, "Values that were separated as they came."),
        ("blob_syncs_total", values.sync_count, "Syncs of segments that values were written to."),
        ("blob_reads_total", values.read_count, "Values, or parts of them, that users read from blobs."),
        ("blob_read_bytes_total", values.read_bytes_total, "Bytes of them."),
        ("blob_gcs_total", values.gc_count, "Runs of blob GC."),
        ("blob_gc_segments_total", values.gc_segment_count, "Segments that they collected."),
        ("failed_blob_gcs_total", values.gc_failure_count, "GCs that failed."),
        (
            "blob_gc_read_bytes_total",
            values.gc_read_bytes_total,
            "Bytes of blob segments that were collected.",
        ),
        ("blob_survivors_total", values.survivor_count, "Values that GCs copied."),
        ("blob_survivor_bytes_total", values.survivor_bytes_total, "Bytes of them."),
        ("blob_dropped_total", values.dropped_count, "Values that GCs left behind."),
        ("blob_dropped_bytes_total", values.dropped_bytes_total, "Bytes of them."),
        ("blob_wholly_dead_segments_total", values.wholly_dead_count, "Segments that went without a GC."),
        ("blob_wholly_dead_bytes_total", values.wholly_dead_bytes_total, "Bytes of their files."),
    ];
    for (name, value, help) in counters {
        text.single(&format!("firn_engine_{name}"), Counter, help, value);
    }
    let name = "firn_engine_blob_segments_by_dead";
    text.family(
        name,
        Gauge,
        "Sealed segments by the share of their bytes that is dead, each under the least bound.",
    );
    for (share, count) in BlobStats::DEAD_SHARES.iter().zip(values.by_dead) {
        text.sample(name, &[("share", share)], count);
    }
}
