//! How long the log may become: what makes it shorter, and what holds writers until it is.
//!
//! ```text
//!   0 ──────────── three quarters of log_bytes_max ──────── log_bytes_max ── one segment more
//!     nothing        memtables that begin in its older          no segment
//!                    part are frozen, the oldest runs flush,    begins
//!                    writers get a pace
//! ```
//! Bytes are what segments take on disk, room set aside for frames included. A short segment counts
//! for more than that: it is a file and a descriptor, and their number must stay bounded too.

use firn_format::Position;

use super::CommitPipeline;
use crate::log::Segment;
use crate::version::Version;

/// A segment counts for at least an ordinary one's bytes divided by this.
const SHORT_SHARE: u64 = 16;

impl CommitPipeline {
    /// What a segment counts for.
    pub(crate) fn length_of(&self, segment: &Segment) -> u64 {
        segment.file_bytes().max(self.settings.engine.log_segment_bytes / SHORT_SHARE)
    }

    /// What the log of `version` counts for.
    fn log_length(&self, version: &Version) -> u64 {
        version.segments.segments().iter().map(|segment| self.length_of(segment)).sum()
    }

    /// The length from which on the log is made shorter.
    fn log_length_soft(&self) -> u64 {
        self.settings.engine.log_bytes_max / 4 * 3
    }

    /// Whether the log is to be made shorter: whatever holds the oldest of it flushes.
    pub(crate) fn is_log_long(&self, version: &Version) -> bool {
        self.log_length(version) > self.log_length_soft()
    }

    /// Where the newer part of the log begins, once a segment of `capacity` is added, if the log is
    /// long then. Memtables that began before hold more of it than they may, however few their
    /// records are. The log's beginning if it is not long.
    pub(crate) fn log_may_be_held_from(&self, version: &Version, capacity: u64) -> Position {
        if self.log_length(version) + capacity <= self.log_length_soft() {
            return Position::default();
        }
        let mut newer = 0;
        let segments = version.segments.segments().iter().rev();
        let is_newer = |segment: &&std::sync::Arc<Segment>| {
            newer += self.length_of(segment);
            newer <= self.log_length_soft() / 2
        };
        segments.take_while(is_newer).last().map_or(version.segments.end(), |oldest| oldest.base())
    }

    /// Bytes by which the log of `version` may grow until no segment begins.
    pub(crate) fn log_room(&self, version: &Version) -> u64 {
        let most = self.settings.engine.log_bytes_max + self.settings.engine.log_segment_bytes;
        most.saturating_sub(self.log_length(version))
    }
}
