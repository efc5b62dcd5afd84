//! Records in order, one after the other.

use firn_engine::blocking::OrderedBlocking;
use firn_engine::{BatchLimit, KeyspaceId, ReadAt, Result, ScanBatch, ScanRange};

/// Records of the first batch; each further one doubles it up to the default limit, so that short
/// scans stay cheap.
const RECORDS_FIRST: usize = 16;

/// Records of a scan, one after the other: keys and values, copied.
///
/// Owns what it reads, so it may be kept, sent to another thread, and outlive snapshots it was
/// opened from. Shows the database as of its opening, however long it runs. Fetches a batch at a
/// time and may block doing so. After an error it ends.
pub struct Scan {
    session: OrderedBlocking,
    scan: Box<dyn firn_engine::Scan>,
    batch: ScanBatch,
    next_index: usize,
    records_max: usize,
}

impl Scan {
    pub(crate) fn open(
        mut session: OrderedBlocking,
        at: ReadAt<'_>,
        keyspace: KeyspaceId,
        range: ScanRange,
    ) -> Result<Self> {
        let scan = session.session().scan(at, keyspace, range)?;
        Ok(Self { session, scan, batch: ScanBatch::new(), next_index: 0, records_max: RECORDS_FIRST })
    }

    /// Replaces the batch, which was used up, by the next one.
    fn fetch(&mut self) -> Result<()> {
        let full = BatchLimit::default();
        let limit = BatchLimit { records: self.records_max, ..full };
        self.next_index = 0;
        self.records_max = (self.records_max * 2).min(full.records);
        self.batch.clear();
        let fetched = self.session.next_batch(&mut *self.scan, limit, &mut self.batch);
        if fetched.is_err() {
            self.batch.clear();
            self.batch.finish();
        }
        fetched
    }
}

impl std::fmt::Debug for Scan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scan").field("next_index", &self.next_index).finish_non_exhaustive()
    }
}

impl Iterator for Scan {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some((key, value)) = self.batch.get(self.next_index) {
                self.next_index += 1;
                return Some(Ok((key.to_vec(), value.to_vec())));
            }
            if self.batch.is_finished() {
                return None;
            }
            if let Err(error) = self.fetch() {
                return Some(Err(error));
            }
        }
    }
}

impl std::iter::FusedIterator for Scan {}
