//! Values beside the tree as metrics: their segments, what reads and collections do with them.

use firn_engine::ValueStats;

use super::super::exposition::Exposition;
use super::super::exposition::Kind::{Counter, Gauge};

/// docs/operations.md names these.
pub(super) fn text(values: &ValueStats, text: &mut Exposition) {
    let gauges = [
        ("value_segments", values.segment_count, "Value segments."),
        ("value_segment_bytes", values.segment_bytes, "Bytes of value segments."),
        ("value_dead_bytes", values.dead_bytes, "Bytes of values that nothing refers to."),
        ("value_stale_references", values.stale_count, "References in tables to dead values."),
        ("value_hidden_bytes", values.hidden_bytes, "Bytes of values that newer records hide, about."),
        ("value_debt_bytes", values.debt_bytes, "Bytes that collections have to free."),
        (
            "value_retired_segments",
            values.retired_count,
            "Segments that are gone and whose files are still held.",
        ),
        ("value_retired_bytes", values.retired_bytes, "Bytes of those files."),
        ("redirects", values.redirect_count, "Collected segments that lead to others."),
        ("redirect_bytes", values.redirect_bytes, "Memory of redirects."),
    ];
    for (name, value, help) in gauges {
        text.single(&format!("firn_engine_{name}"), Gauge, help, value);
    }
    let counters = [
        ("value_writes_total", values.write_count, "Values written beside the tree as they came."),
        ("value_syncs_total", values.sync_count, "Syncs of segments that values were written to."),
        (
            "value_reads_total",
            values.read_count,
            "Values, or parts of them, that users read beside the tree.",
        ),
        ("value_read_bytes_total", values.read_bytes_total, "Bytes of them."),
        ("collections_total", values.collection_count, "Collections of value segments."),
        ("collected_segments_total", values.collected_segment_count, "Segments that they collected."),
        ("failed_collections_total", values.collection_failure_count, "Collections that failed."),
        (
            "collection_read_bytes_total",
            values.collection_read_bytes_total,
            "Bytes of value segments that were collected.",
        ),
        ("value_survivors_total", values.survivor_count, "Values that collections copied."),
        ("value_survivor_bytes_total", values.survivor_bytes_total, "Bytes of them."),
        ("value_dropped_total", values.dropped_count, "Values that collections left behind."),
        ("value_dropped_bytes_total", values.dropped_bytes_total, "Bytes of them."),
        (
            "value_wholly_dead_segments_total",
            values.wholly_dead_count,
            "Segments that went without a collection.",
        ),
        ("value_wholly_dead_bytes_total", values.wholly_dead_bytes_total, "Bytes of their files."),
    ];
    for (name, value, help) in counters {
        text.single(&format!("firn_engine_{name}"), Counter, help, value);
    }
    let name = "firn_engine_value_segments_by_dead";
    text.family(
        name,
        Gauge,
        "Sealed segments by the share of their bytes that is dead, each under the least bound.",
    );
    for (share, count) in ValueStats::DEAD_SHARES.iter().zip(values.by_dead) {
        text.sample(name, &[("share", share)], count);
    }
}
