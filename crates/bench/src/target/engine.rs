//! Any store that keeps the engine contract, driven in line: reads and waits run on the calling
//! thread.

use std::path::PathBuf;
use std::sync::Arc;

use firn_engine::{
    Batch, BatchLimit, Completion, Durability, Engine, Error, KEYSPACE_DEFAULT, Ordered, OrderedSession,
    Outcome, ReadAt, Result, ScanBatch, ScanRange, Session, Ticket, Values, WriteOptions,
};

use super::{Client, Counters, MemoryReport, Settings, SortedRecords, Target, Visit, dir_disk_bytes};

/// Closes a store and everything that belongs to it.
type Close = Box<dyn FnOnce() -> Result<()> + Send + Sync>;

/// An engine as a target; scans and bulk ingestion are there if it keeps keys in order
/// ([`Engine::ordered`]). Writes go to the default keyspace.
pub struct EngineTarget {
    engine: Arc<dyn Engine>,
    close: Close,
    name: String,
    dir: PathBuf,
    durability: Durability,
    settings: Settings,
}

impl EngineTarget {
    /// Drives `engine`, whose files lie in `dir`; `settings` go into the reports as they are.
    pub fn new(
        engine: Arc<dyn Engine>,
        name: &str,
        dir: PathBuf,
        durability: Durability,
        mut settings: Settings,
    ) -> Self {
        settings.insert("durability".to_owned(), durability.name().to_owned());
        let closed = Arc::clone(&engine);
        Self {
            engine,
            close: Box::new(move || closed.close()),
            name: name.to_owned(),
            dir,
            durability,
            settings,
        }
    }

    /// The same target, closed by `close` instead of by its engine; what `close` owns lives as
    /// long.
    #[must_use]
    pub fn closed_by(mut self, close: impl FnOnce() -> Result<()> + Send + Sync + 'static) -> Self {
        self.close = Box::new(close);
        self
    }
}

impl Target for EngineTarget {
    fn name(&self) -> &str {
        &self.name
    }

    fn settings(&self) -> Settings {
        self.settings.clone()
    }

    fn client(&self) -> Result<Box<dyn Client>> {
        let ordered = Arc::clone(&self.engine).ordered();
        let mut session = match &ordered {
            Some(ordered) => Calls::Ordered(ordered.ordered_session()),
            None => Calls::Points(self.engine.session()),
        };
        session.points().set_inline(true);
        let options = WriteOptions { durability: Some(self.durability), ..WriteOptions::default() };
        Ok(Box::new(EngineClient {
            ordered,
            session,
            options,
            batch: Batch::new(),
            values: Values::new(),
            scanned: ScanBatch::new(),
        }))
    }

    fn drain(&self) -> Result<()> {
        self.engine.flush()?;
        self.engine.wait_idle()
    }

    fn counters(&self) -> Counters {
        let stats = self.engine.stats();
        let tree = stats.tree.clone().unwrap_or_default();
        Counters {
            bytes_written: stats.device_write_bytes_total(),
            bytes_read: tree.compaction_read_bytes_total + stats.read_miss_bytes_total,
            stall_us: stats.stop_us_total,
            slowdown_us: stats.slowdown_us_total,
        }
    }

    fn disk_bytes(&self) -> u64 {
        dir_disk_bytes(&self.dir)
    }

    fn memory(&self) -> MemoryReport {
        let stats = self.engine.stats();
        let tree = stats.tree.clone().unwrap_or_default();
        MemoryReport::from([
            ("memory_bytes".to_owned(), stats.memory_bytes),
            ("memory_bytes_max".to_owned(), stats.memory_bytes_max),
            ("buffer_bytes".to_owned(), tree.buffer_bytes),
            ("log_bytes".to_owned(), stats.log_bytes),
            ("table_bytes".to_owned(), tree.table_bytes),
        ])
    }

    fn close(self: Box<Self>) -> Result<()> {
        (self.close)()
    }
}

/// The session of a client.
enum Calls {
    Points(Box<dyn Session>),
    Ordered(Box<dyn OrderedSession>),
}

impl Calls {
    /// What needs no order.
    #[inline]
    fn points(&mut self) -> &mut dyn Session {
        match self {
            Calls::Points(session) => &mut **session,
            Calls::Ordered(session) => &mut **session,
        }
    }
}

struct EngineClient {
    /// The engine, if it keeps order.
    ordered: Option<Arc<dyn Ordered>>,
    session: Calls,
    options: WriteOptions,
    batch: Batch,
    values: Values,
    scanned: ScanBatch,
}

impl EngineClient {
    /// Blocks until the completion of `ticket` is there.
    fn completion(&mut self, ticket: Ticket) -> Result<Completion> {
        let mut found = None;
        loop {
            self.session.points().poll(&mut |which, completion| {
                if which == ticket {
                    found = Some(completion);
                }
            });
            match found {
                Some(Completion::Failed(error)) => return Err(error),
                Some(completion) => return Ok(completion),
                None => self.session.points().wait(None),
            };
        }
    }

    fn written<T>(&mut self, outcome: Outcome<T>) -> Result<()> {
        match outcome {
            Outcome::Done(_) => Ok(()),
            Outcome::Pending(ticket) => self.completion(ticket).map(drop),
        }
    }
}

impl Client for EngineClient {
    fn read(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        match self.session.points().get(ReadAt::Latest, KEYSPACE_DEFAULT, key, value)? {
            Outcome::Done(found) => Ok(found),
            Outcome::Pending(ticket) => match self.completion(ticket)? {
                Completion::Value(Some(bytes)) => {
                    value.clear();
                    value.extend_from_slice(&bytes);
                    Ok(true)
                }
                Completion::Value(None) => Ok(false),
                other => Err(Error::bug(format!("a get completed as {other:?}"))),
            },
        }
    }

    fn read_many(&mut self, keys: &[&[u8]]) -> Result<(usize, usize)> {
        let read =
            self.session.points().multi_get(ReadAt::Latest, KEYSPACE_DEFAULT, keys, &mut self.values)?;
        if let Outcome::Pending(ticket) = read {
            match self.completion(ticket)? {
                Completion::Values(values) => self.values = values,
                other => return Err(Error::bug(format!("a read of several keys completed as {other:?}"))),
            }
        }
        let found = self.values.iter().flatten();
        Ok(found.fold((0, 0), |(count, bytes), value| (count + 1, bytes + value.len())))
    }

    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let outcome = self.session.points().put(KEYSPACE_DEFAULT, key, value, self.options)?;
        self.written(outcome)
    }

    fn write_batch(&mut self, records: &mut dyn SortedRecords) -> Result<()> {
        self.batch.clear();
        while let Some((key, value)) = records.next() {
            self.batch.put(KEYSPACE_DEFAULT, key, value);
        }
        let outcome = self.session.points().write(&self.batch, self.options)?;
        self.written(outcome)
    }

    fn ingest(&mut self, records: &mut dyn SortedRecords) -> Result<()> {
        let ordered = self.ordered.as_ref().ok_or_else(|| no_order("bulk ingestion"))?;
        let mut ingestion = ordered.ingest(KEYSPACE_DEFAULT)?;
        while let Some((key, value)) = records.next() {
            ingestion.put(key, value, 0)?;
        }
        ingestion.finish().map(drop)
    }

    fn delete(&mut self, key: &[u8]) -> Result<()> {
        let outcome = self.session.points().delete(KEYSPACE_DEFAULT, key, self.options)?;
        self.written(outcome)
    }

    fn scan(&mut self, start: &[u8], count: usize, visit: &mut Visit<'_>) -> Result<usize> {
        let Calls::Ordered(session) = &mut self.session else { return Err(no_order("a scan")) };
        let mut scan = session.scan(ReadAt::Latest, KEYSPACE_DEFAULT, ScanRange::from(start..))?;
        let mut seen = 0;
        while seen < count {
            let limit = BatchLimit { records: (count - seen).min(1024), ..BatchLimit::default() };
            if let Outcome::Pending(ticket) = scan.next_batch(limit, &mut self.scanned)? {
                match self.completion(ticket)? {
                    Completion::Scanned(batch) => self.scanned = batch,
                    other => return Err(Error::bug(format!("a scan completed as {other:?}"))),
                }
            }
            for (key, value) in self.scanned.records() {
                visit(key, value);
            }
            seen += self.scanned.len();
            if self.scanned.is_finished() {
                break;
            }
        }
        Ok(seen)
    }
}

fn no_order(what: &str) -> Error {
    Error::invalid(format!("{what} needs an engine that keeps keys in order"))
}
