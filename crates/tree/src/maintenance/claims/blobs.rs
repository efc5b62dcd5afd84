//! Which blob segments are being worked on, and which no task takes.

use std::borrow::Cow;
use std::collections::BTreeSet;

use firn_format::blob::SegmentNumber;
use firn_maintenance::SetAside;

/// What tasks in progress have claimed of separated values.
#[derive(Debug, Default)]
pub(crate) struct BlobClaims {
    pub(crate) is_sealing: bool,
    pub(crate) is_writing_back: bool,
    /// A write-back was claimed last: where the device is slower than writers, threads would do
    /// nothing else.
    pub(crate) has_written_back: bool,
    /// Blob segments that are being collected, and by how many jobs.
    pub(crate) collecting: BTreeSet<SegmentNumber>,
    pub(crate) gcs: usize,
    /// There was a compaction since the last one began.
    pub(crate) is_blob_gc_next: bool,
    /// Blob segments that could not be read whole, or on which work fails.
    pub(crate) set_aside: SetAside<SegmentNumber>,
}

impl BlobClaims {
    pub(super) fn claim_gc(&mut self, victims: &[SegmentNumber]) {
        self.gcs += 1;
        self.is_blob_gc_next = false;
        self.collecting.extend(victims);
    }

    pub(super) fn release_gc(&mut self, victims: &[SegmentNumber]) {
        self.gcs -= 1;
        self.collecting.retain(|number| !victims.contains(number));
    }

    /// Whether a task brings values to the device. One thread at a time does. Where writers are
    /// faster than the device there is always more of that to do. Flushes need a thread too: they
    /// find what is dead, and so how fast writers may be.
    pub(crate) fn is_bringing_values(&self) -> bool {
        self.is_sealing || self.is_writing_back
    }

    /// What blob segments a GC cannot have.
    pub(crate) fn unavailable(&self) -> Unavailable<'_> {
        Unavailable { collecting: Cow::Borrowed(&self.collecting), set_aside: Cow::Borrowed(&self.set_aside) }
    }
}

/// Blob segments that no GC is to choose.
#[derive(Clone, Debug)]
pub(crate) struct Unavailable<'b> {
    /// Being collected,
    pub(crate) collecting: Cow<'b, BTreeSet<SegmentNumber>>,
    /// or set aside.
    pub(crate) set_aside: Cow<'b, SetAside<SegmentNumber>>,
}

impl Unavailable<'_> {
    pub(crate) fn into_owned(self) -> Unavailable<'static> {
        Unavailable {
            collecting: Cow::Owned(self.collecting.into_owned()),
            set_aside: Cow::Owned(self.set_aside.into_owned()),
        }
    }
}
