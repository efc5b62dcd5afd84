//! Every record of a keyspace, whichever engine keeps it.

use firn_engine::blocking::{Blocking, OrderedBlocking};
use firn_engine::{
    BatchLimit, Error, HashBatch, HashCursor, HashScan, HashedSession, KeyspaceId, ReadAt, Result, ScanBatch,
    ScanRange, Snapshot,
};

use crate::PointKeyspace;

/// A record, and when it expires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRecord {
    /// Its key.
    pub key: Vec<u8>,
    /// Its value, with merge operands in it.
    pub value: Vec<u8>,
    /// When it expires, in milliseconds since the Unix epoch; 0 = never, or operands were merged
    /// into it.
    pub expires_at_ms: u64,
}

/// Every record of a keyspace: by key where the engine keeps keys in order, else by their hashes.
///
/// Owns what it reads, and keeps a snapshot until it is dropped: each key of it comes once,
/// whatever is written meanwhile. Fetches a batch at a time and may block doing so. After an error
/// it ends.
pub struct AllRecords {
    source: Source,
    batch: ScanBatch,
    next: usize,
}

enum Source {
    Ordered { session: OrderedBlocking, scan: Box<dyn firn_engine::Scan> },
    Hashed { session: Blocking<dyn HashedSession>, keyspace: KeyspaceId, at: Snapshot, from: HashCursor },
    Ended,
}

impl PointKeyspace {
    /// Every record of the keyspace, as of now or of the handle's snapshot, in no order that means
    /// anything. For copies and checks: it reads all there is.
    ///
    /// ```
    /// # fn main() -> firn::Result<()> {
    /// # let storage = std::sync::Arc::new(firn::storage::backend::Memory::new());
    /// # let builder = firn::PointDb::builder("example").storage(storage);
    /// # let db = builder.engine(firn::EngineKind::Hash).open_points()?;
    /// db.put("anna", "1")?;
    /// db.put("bo", "2")?;
    /// let records: Vec<_> = db.in_default().all_records()?.collect::<firn::Result<_>>()?;
    /// assert!(records.len() == 2 && records.iter().any(|record| record.key == b"bo"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn all_records(&self) -> Result<AllRecords> {
        let (engine, keyspace) = (self.database().engine(), self.id());
        let at = match self.read_at() {
            ReadAt::Snapshot(snapshot) => snapshot.clone(),
            ReadAt::Latest => engine.snapshot()?,
        };
        let source = if let Some(ordered) = engine.clone().ordered() {
            let mut session = Blocking::new(ordered.ordered_session());
            let scan = session.session().scan(ReadAt::Snapshot(&at), keyspace, ScanRange::all())?;
            Source::Ordered { session, scan }
        } else if let Some(hashed) = engine.hashed() {
            let session = Blocking::new(hashed.hashed_session());
            Source::Hashed { session, keyspace, at, from: HashCursor::START }
        } else {
            return Err(Error::invalid("the engine of this database cannot go over its keys"));
        };
        Ok(AllRecords { source, batch: ScanBatch::new(), next: 0 })
    }
}

impl AllRecords {
    /// Reads the next batch, which may have no record.
    fn fetch(&mut self) -> Result<()> {
        self.next = 0;
        let is_last = match &mut self.source {
            Source::Ended => true,
            Source::Ordered { session, scan } => {
                session.next_batch(&mut **scan, BatchLimit::default(), &mut self.batch)?;
                self.batch.is_finished()
            }
            Source::Hashed { session, keyspace, at, from } => {
                let (limit, mut batch) = (BatchLimit::default(), HashBatch::new());
                let scan = HashScan { keyspace: *keyspace, from: *from, limit, has_values: true };
                session.scan_by_hash(ReadAt::Snapshot(at), scan, &mut batch)?;
                let next = batch.next();
                self.batch = batch.into_records();
                *from = next.unwrap_or(*from);
                next.is_none()
            }
        };
        if is_last {
            self.source = Source::Ended;
        }
        Ok(())
    }
}

impl Iterator for AllRecords {
    type Item = Result<StoredRecord>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some((key, value)) = self.batch.get(self.next) {
                let expires_at_ms = self.batch.expires_at_ms(self.next);
                self.next += 1;
                return Some(Ok(StoredRecord { key: key.to_vec(), value: value.to_vec(), expires_at_ms }));
            }
            if matches!(self.source, Source::Ended) {
                return None;
            }
            if let Err(error) = self.fetch() {
                (self.source, self.batch) = (Source::Ended, ScanBatch::new());
                return Some(Err(error));
            }
        }
    }
}

impl std::fmt::Debug for AllRecords {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AllRecords").finish_non_exhaustive()
    }
}
