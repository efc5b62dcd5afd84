//! Log segments that leave the version once no record in them is needed.

use std::sync::Arc;

use firn_format::Position;

use crate::log::{Log, SegmentMap};
use crate::version::Version;
use crate::version::catalog::Catalog;

/// Takes segments out of `version` that neither a keyspace nor a replay needs and that no writer
/// still copies into.
///
/// A replay begins where the manifest says that the last keyspace was flushed, and fails without
/// the segment that lies there. So a segment without needed records, as between the births of
/// keyspaces, stays until a flush is in the manifest.
pub(crate) fn retire_below(version: &mut Version, watermark: Position) {
    let replayed = version.live().map(|keyspace| keyspace.flushed_through).min().unwrap_or_default();
    let needed = version.log_needed_from().min(watermark).min(replayed);
    let segments = version.segments.segments();
    let dead = segments.iter().take_while(|segment| segment.span_end() <= needed).count();
    if dead == 0 || dead == segments.len() {
        return;
    }
    let (dead, live) = segments.split_at(dead);
    dead.iter().for_each(|segment| segment.retire());
    version.segments = Arc::new(SegmentMap::new(live.to_vec()));
}

/// Lets go of segments whose every record is in tables.
pub(crate) fn drop_dead_segments(catalog: &Catalog, log: &Log) {
    let watermark = log.watermark();
    catalog.change_version(|version| retire_below(version, watermark));
}
