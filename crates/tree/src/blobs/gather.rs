//! Values that frames refer to, for log objects of the log.

use std::sync::Arc;

use firn_format::Kind;
use firn_format::blob::segment::BLOB_HEADER_BYTES;
use firn_format::blob::{Reference, SegmentNumber};
use firn_format::log::{Frame, FrameKind};
use firn_format::log_object::{Piece, PieceOf};
use firn_storage::file::log::objects::Collector;
use firn_storage::{Error, Result};

use super::{Active, BlobMap, BlobStore, Home};

/// Value records, those that follow one another together.
pub(crate) struct ValueCollector {
    blobs: Arc<BlobStore>,
    map: Arc<BlobMap>,
    runs: Vec<Run>,
    bytes: usize,
}

struct Run {
    number: SegmentNumber,
    offset: u64,
    records: Vec<u8>,
}

impl ValueCollector {
    /// None yet of `values`.
    pub(crate) fn new(blobs: &Arc<BlobStore>) -> Self {
        Self { blobs: Arc::clone(blobs), map: blobs.map(), runs: Vec::new(), bytes: 0 }
    }

    fn add(&mut self, reference: &Reference, key_bytes: usize) -> Result<()> {
        let (number, offset) = (reference.segment, reference.offset);
        let Some(active) = open_segment(&self.map, number) else { return Ok(()) };
        debug_assert!(offset >= BLOB_HEADER_BYTES as u64, "{reference} lies in its segment's header");
        let follows =
            |run: &&mut Run| run.number == number && run.offset + run.records.len() as u64 == offset;
        if self.runs.last_mut().as_ref().is_none_or(|run| !follows(run)) {
            self.runs.push(Run { number, offset, records: Vec::new() });
        }
        let Some(run) = self.runs.last_mut() else { return Ok(()) };
        let before = run.records.len();
        active.open.read_record(reference, key_bytes, &mut run.records)?;
        self.bytes += run.records.len() - before;
        Ok(())
    }
}

impl Collector for ValueCollector {
    fn collect(&mut self, frame: &Frame<'_>) -> Result<()> {
        if frame.kind != FrameKind::Batch {
            return Ok(());
        }
        for (_, record) in frame.records() {
            let record =
                record.map_err(|error| Error::bug(format!("a published record is none: {error}")))?;
            if record.kind != Kind::PutReference {
                continue;
            }
            let reference = Reference::decode(record.value)
                .map_err(|error| Error::bug(format!("a record's reference is none: {error}")))?;
            self.add(&reference, record.key.len())?;
        }
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.bytes
    }

    fn pieces(&self) -> impl Iterator<Item = Piece<'_>> {
        self.runs.iter().map(|Run { number, offset, records }| {
            let segment = PieceOf::Values(self.blobs.written_header(*number));
            Piece { segment, offset: *offset, bytes: records }
        })
    }
}

/// The segment `number` if no edit names it: all machines find the values of sealed segments.
fn open_segment(map: &BlobMap, number: SegmentNumber) -> Option<&Active> {
    match map.known(number) {
        Some(Home::Open(active)) => Some(active),
        Some(Home::Unsealed(_) | Home::Sealed(_) | Home::Moved(..)) => None,
        None => map.begun_since(number).map(|active| &**active),
    }
}
