//! The files of an ingestion, as its records come.

use std::sync::Arc;

use firn_engine::{Error, Result};
use firn_format::compression::Compression;
use firn_format::key::Entry;
use firn_format::manifest::{BlobSegmentMeta, TableMeta};
use firn_format::tombstone::FragmentList;
use firn_format::{Kind, Sequence, file_name};
use firn_jobs::{BlobOrigin, BlobWriter, TableWriter};
use firn_storage::Storage;

use crate::compact::output_form;
use crate::database::Database;
use crate::error::from_job;
use crate::version::levels::LEVEL_MAX;
use crate::version::set::separate_bytes;

type Shared = Arc<dyn Storage>;

/// Writes records in rising order of their keys, all without a sequence. Dropped, it removes what
/// it wrote.
pub(super) struct IngestWriter {
    database: Arc<Database>,
    storage: Shared,
    tables: TableWriter<Shared>,
    /// From how many bytes on values are separated.
    separate_bytes: usize,
    compression: Compression,
    origin: BlobOrigin,
    stem: String,
    /// The segment that values go to.
    blobs: Option<BlobWriter<Shared>>,
    /// Those before.
    ingested: Ingested,
}

/// Files that are whole and durable, and that no edit names. Dropped, they are removed.
pub(super) struct Ingested {
    database: Arc<Database>,
    /// In order of keys.
    pub(super) tables: Vec<TableMeta>,
    pub(super) segments: Vec<BlobSegmentMeta>,
    is_kept: bool,
}

impl IngestWriter {
    /// A writer of files for `keyspace` that are called by `stem`.
    ///
    /// # Errors
    /// `Invalid` for an unknown keyspace.
    pub(super) fn new(database: &Arc<Database>, keyspace: u32, stem: String) -> Result<Self> {
        let version = database.catalog.version.load();
        let state = version.keyspace(keyspace)?;
        // They go to the last level where that is free, and are not written again before they are
        // compacted with others.
        let form = output_form(&database.settings, state, LEVEL_MAX as u32, Vec::new());
        let storage: Shared = Arc::clone(&database.files.job_outputs) as Shared;
        let tables = TableWriter::new(
            Arc::clone(&storage),
            &stem,
            &form,
            &database.semantics,
            FragmentList::default(),
        );
        let ingested = Ingested {
            database: Arc::clone(database),
            tables: Vec::new(),
            segments: Vec::new(),
            is_kept: false,
        };
        Ok(Self {
            storage,
            tables: tables.map_err(from_job)?,
            separate_bytes: separate_bytes(state, &database.settings) as usize,
            compression: state.codec(),
            origin: BlobOrigin { database: database.blobs.database(), keyspace },
            stem,
            blobs: None,
            ingested,
            database: Arc::clone(database),
        })
    }

    /// Writes a record behind all before it.
    ///
    /// # Errors
    /// What writing says. The files are not whole then.
    pub(super) fn add(&mut self, key: &[u8], value: &[u8], expires_at_ms: u64) -> Result<()> {
        let sequence = Sequence(0);
        if value.len() < self.separate_bytes {
            let entry = Entry { key, sequence, kind: Kind::Put, expires_at_ms, value };
            return self.tables.add(&entry).map_err(from_job);
        }
        let reference = loop {
            if let Some(reference) = self.segment()?.write(key, value).map_err(from_job)? {
                break reference;
            }
            // It has no room, however little it was to have.
            self.end_segment()?;
        };
        let entry = Entry { key, sequence, kind: Kind::PutReference, expires_at_ms, value: &reference };
        self.tables.add(&entry).map_err(from_job)
    }

    /// The segment for the next value.
    fn segment(&mut self) -> Result<&mut BlobWriter<Shared>> {
        let store = &self.database.blobs;
        if let Some(blobs) = &self.blobs {
            let written: u64 = self.ingested.segments.iter().map(|segment| segment.bytes).sum();
            if blobs.bytes() >= store.segment_bytes(store.map().sealed_bytes() + written) {
                self.end_segment()?;
            }
        }
        match &mut self.blobs {
            Some(blobs) => Ok(blobs),
            none => {
                let name = file_name::collected_blobs(&self.stem, self.ingested.segments.len() as u32);
                let (storage, number) = (Arc::clone(&self.storage), self.database.blobs.next_number());
                let blobs = BlobWriter::new(storage, name, number, self.origin, self.compression);
                Ok(none.insert(blobs.map_err(from_job)?))
            }
        }
    }

    fn end_segment(&mut self) -> Result<()> {
        let Some(mut blobs) = self.blobs.take() else { return Ok(()) };
        if let Some(segment) = blobs.finish().map_err(from_job)? {
            self.ingested.segments.push(segment);
            blobs.keep();
        }
        Ok(())
    }

    /// Completes all files, durable with their names.
    ///
    /// # Errors
    /// What writing and syncing say; nothing is left then.
    pub(super) fn finish(mut self) -> Result<Ingested> {
        self.end_segment()?;
        let Self { tables, mut ingested, .. } = self;
        ingested.tables = tables.finish().map_err(from_job)?;
        match ingested.tables.is_empty() {
            true => Err(Error::bug("records were ingested, and no table was written")),
            false => Ok(ingested),
        }
    }
}

impl Ingested {
    /// Bytes of all files.
    pub(super) fn bytes(&self) -> u64 {
        let tables = self.tables.iter().map(|table| table.bytes);
        tables.chain(self.segments.iter().map(|segment| segment.bytes)).sum()
    }

    /// An edit names them, or may.
    pub(super) fn keep(mut self) {
        self.is_kept = true;
    }
}

impl Drop for Ingested {
    fn drop(&mut self) {
        if self.is_kept {
            return;
        }
        let Database { files, maintenance, .. } = &*self.database;
        let tables = self.tables.iter().map(|table| &table.file);
        let all = tables.chain(self.segments.iter().map(|segment| &segment.file));
        all.for_each(|name| files.remove_output(&maintenance.jobs, name));
    }
}
