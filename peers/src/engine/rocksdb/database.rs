//! A RocksDB database as a safe value.
//!
//! # Safety model
//! 1. [`Database`] owns every handle in it; they are made in `open` and destroyed in `drop`, the
//! database first.
//! 2. RocksDB lets any number of threads use one database, its options and its cache at once.
//! 3. What a call points to (keys, values, texts) is borrowed for the call alone: RocksDB copies
//! what it keeps.

#![expect(unsafe_code, reason = "RocksDB is reached through its C interface")]

use std::ffi::{CStr, CString, c_char};
use std::path::Path;
use std::ptr;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use firn_bench::target::{SortedRecords, Visit};
use firn_engine::Result;

use super::library::{Handle, Library};
use crate::engine::failed;

use file_writer::FileWriter;

/// Index type of data blocks: binary search and a hash index.
const BINARY_SEARCH_AND_HASH: i32 = 1;

/// Statistics level that counts tickers and leaves histograms and timers out.
const EXCEPT_HISTOGRAMS_OR_TIMERS: i32 = 1;

/// Size of a file that is ingested: of RocksDB's own tables, where nothing else is said.
const INGESTED_FILE_BYTES: u64 = 64 << 20;

/// How a database is opened.
pub(super) struct Opened {
    pub(super) path: CString,
    pub(super) memtable_bytes: usize,
    pub(super) memtables: i32,
    pub(super) cache_bytes: usize,
    pub(super) jobs: i32,
    /// Smallest value that goes to a blob file; `None` = none does.
    pub(super) blob_bytes_min: Option<u64>,
    /// Whether every write is synced.
    pub(super) syncs: bool,
}

/// An open database. Closed when dropped.
pub(super) struct Database {
    library: Arc<Library>,
    database: Handle,
    options: Handle,
    cache: Handle,
    writes: Handle,
    reads: Handle,
    /// Bytes of files that were ingested, which RocksDB does not count.
    ingested_bytes: AtomicU64,
}

// SAFETY: point 2 of the safety model; nothing in the handles belongs to one thread.
unsafe impl Send for Database {}
// SAFETY: as above.
unsafe impl Sync for Database {}

/// Calls a function of the library. Each call is its own unsafe operation; the reason is the same
/// for all.
macro_rules! call {
    ($library:expr, $name:ident($($argument:expr),* $(,)?)) => {{
        let function = $library.$name;
        // SAFETY: handles are live and of the kind the function wants (point 1), memory is borrowed
        // for the call (point 3).
        unsafe { function($($argument),*) }
    }};
}

mod file_writer; // behind the macro, which it uses

impl Database {
    /// Opens the database, creating it if it is missing.
    pub(super) fn open(library: Arc<Library>, opened: &Opened) -> Result<Self> {
        let l = &*library;
        let options = call!(l, options_create());
        call!(l, options_set_create_if_missing(options, 1));
        call!(l, options_set_compression(options, 0));
        call!(l, options_set_write_buffer_size(options, opened.memtable_bytes));
        call!(l, options_set_max_write_buffer_number(options, opened.memtables));
        call!(l, options_set_max_background_jobs(options, opened.jobs));
        call!(l, options_set_enable_pipelined_write(options, 1));
        call!(l, options_set_stats_dump_period_sec(options, 0));
        call!(l, options_enable_statistics(options));
        call!(l, options_set_statistics_level(options, EXCEPT_HISTOGRAMS_OR_TIMERS));
        if let Some(bytes) = opened.blob_bytes_min {
            call!(l, options_set_enable_blob_files(options, 1));
            call!(l, options_set_min_blob_size(options, bytes));
            call!(l, options_set_blob_file_size(options, 256 << 20));
            call!(l, options_set_enable_blob_gc(options, 1));
            call!(l, options_set_blob_gc_age_cutoff(options, 0.5));
            call!(l, options_set_blob_gc_force_threshold(options, 0.5));
        }
        let cache = call!(l, cache_create_hyper_clock(opened.cache_bytes, 0));
        let tables = call!(l, block_based_options_create());
        call!(l, block_based_options_set_block_size(tables, 4096));
        let filter = call!(l, filterpolicy_create_bloom_full(10.0));
        // The table options take the filter policy over.
        call!(l, block_based_options_set_filter_policy(tables, filter));
        call!(l, block_based_options_set_block_cache(tables, cache));
        call!(l, block_based_options_set_cache_index_and_filter_blocks(tables, 1));
        call!(l, block_based_options_set_data_block_index_type(tables, BINARY_SEARCH_AND_HASH));
        call!(l, options_set_block_based_table_factory(options, tables));
        call!(l, block_based_options_destroy(tables));

        let writes = call!(l, writeoptions_create());
        call!(l, writeoptions_set_sync(writes, u8::from(opened.syncs)));
        let reads = call!(l, readoptions_create());
        let mut error = ptr::null_mut();
        let database = call!(l, open(options, opened.path.as_ptr(), &raw mut error));
        let ingested_bytes = AtomicU64::new(0);
        let library = Arc::clone(&library);
        let opened = Self { library, database, options, cache, writes, reads, ingested_bytes };
        opened.library.check("cannot open RocksDB", error)?;
        Ok(opened)
    }

    /// Whether `key` has a value; if so, `value` holds it.
    pub(super) fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        value.clear();
        let l = &*self.library;
        let mut error = ptr::null_mut();
        let slice = call!(l, get_pinned(self.database, self.reads, chars(key), key.len(), &raw mut error));
        l.check("RocksDB cannot read", error)?;
        if slice.is_null() {
            return Ok(false);
        }
        let mut bytes = 0;
        let start = call!(l, pinnableslice_value(slice, &raw mut bytes));
        // SAFETY: the slice pins `bytes` bytes at `start` until it is destroyed below.
        value.extend_from_slice(unsafe { borrowed(start, bytes) });
        call!(l, pinnableslice_destroy(slice));
        Ok(true)
    }

    /// Sets `key` to `value`.
    pub(super) fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let l = &*self.library;
        let mut error = ptr::null_mut();
        call!(
            l,
            put(self.database, self.writes, chars(key), key.len(), chars(value), value.len(), &raw mut error)
        );
        l.check("RocksDB cannot write", error)
    }

    /// Writes all of `records` as one batch.
    pub(super) fn write_batch(&self, records: &mut dyn SortedRecords) -> Result<()> {
        let l = &*self.library;
        let batch = call!(l, writebatch_create());
        while let Some((key, value)) = records.next() {
            call!(l, writebatch_put(batch, chars(key), key.len(), chars(value), value.len()));
        }
        let mut error = ptr::null_mut();
        call!(l, write(self.database, self.writes, batch, &raw mut error));
        call!(l, writebatch_destroy(batch));
        l.check("RocksDB cannot write a batch", error)
    }

    /// Writes `records` to files of [`INGESTED_FILE_BYTES`] in `dir`, which lies in the database's,
    /// and has the database take them over.
    pub(super) fn ingest(&self, dir: &Path, records: &mut dyn SortedRecords) -> Result<()> {
        std::fs::create_dir_all(dir).map_err(|error| failed("no directory for files to ingest", error))?;
        let writer = FileWriter::new(&self.library, self.options);
        let (mut paths, mut is_open, mut bytes) = (Vec::new(), false, 0);
        while let Some((key, value)) = records.next() {
            if !is_open {
                let path = dir.join(format!("{}.sst", paths.len()));
                let path = CString::new(path.as_os_str().as_encoded_bytes());
                let path = path.map_err(|error| failed("RocksDB takes no such path", error))?;
                writer.open(&path)?;
                paths.push(path);
                is_open = true;
            }
            writer.put(key, value)?;
            if writer.bytes() >= INGESTED_FILE_BYTES {
                writer.finish()?;
                bytes += writer.bytes();
                is_open = false;
            }
        }
        if is_open {
            writer.finish()?;
            bytes += writer.bytes();
        }
        self.take_over(&paths)?;
        self.ingested_bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Makes the files at `paths` a part of the database, by links.
    fn take_over(&self, paths: &[CString]) -> Result<()> {
        if paths.is_empty() {
            return Ok(());
        }
        let l = &*self.library;
        let names: Vec<*const c_char> = paths.iter().map(|path| path.as_ptr()).collect();
        let options = call!(l, ingestexternalfileoptions_create());
        call!(l, ingestexternalfileoptions_set_move_files(options, 1));
        let mut error = ptr::null_mut();
        call!(l, ingest_external_file(self.database, names.as_ptr(), names.len(), options, &raw mut error));
        call!(l, ingestexternalfileoptions_destroy(options));
        l.check("RocksDB cannot ingest", error)
    }

    /// Bytes of files that were ingested.
    pub(super) fn ingested_bytes(&self) -> u64 {
        self.ingested_bytes.load(Ordering::Relaxed)
    }

    /// Removes `key`.
    pub(super) fn delete(&self, key: &[u8]) -> Result<()> {
        let l = &*self.library;
        let mut error = ptr::null_mut();
        call!(l, delete(self.database, self.writes, chars(key), key.len(), &raw mut error));
        l.check("RocksDB cannot delete", error)
    }

    /// Visits up to `count` records from `start` on and tells how many there were.
    pub(super) fn scan(&self, start: &[u8], count: usize, visit: &mut Visit<'_>) -> Result<usize> {
        let l = &*self.library;
        let iterator = call!(l, create_iterator(self.database, self.reads));
        call!(l, iter_seek(iterator, chars(start), start.len()));
        let mut seen = 0;
        while seen < count && call!(l, iter_valid(iterator)) != 0 {
            let (mut key_bytes, mut value_bytes) = (0, 0);
            let key = call!(l, iter_key(iterator, &raw mut key_bytes));
            let value = call!(l, iter_value(iterator, &raw mut value_bytes));
            // SAFETY: a valid iterator's key stays until the iterator moves, below.
            let key = unsafe { borrowed(key, key_bytes) };
            // SAFETY: as for the key.
            let value = unsafe { borrowed(value, value_bytes) };
            visit(key, value);
            seen += 1;
            if seen < count {
                call!(l, iter_next(iterator));
            }
        }
        let mut error = ptr::null_mut();
        call!(l, iter_get_error(iterator, &raw mut error));
        call!(l, iter_destroy(iterator));
        l.check("RocksDB cannot scan", error)?;
        Ok(seen)
    }

    /// Writes the memtables to tables.
    pub(super) fn flush(&self) -> Result<()> {
        let l = &*self.library;
        let options = call!(l, flushoptions_create());
        let mut error = ptr::null_mut();
        call!(l, flush(self.database, options, &raw mut error));
        call!(l, flushoptions_destroy(options));
        l.check("RocksDB cannot flush", error)
    }

    /// Waits until no flush and no compaction is left.
    pub(super) fn wait_for_compact(&self) -> Result<()> {
        let l = &*self.library;
        let options = call!(l, wait_for_compact_options_create());
        call!(l, wait_for_compact_options_set_flush(options, 1));
        let mut error = ptr::null_mut();
        call!(l, wait_for_compact(self.database, options, &raw mut error));
        call!(l, wait_for_compact_options_destroy(options));
        l.check("RocksDB cannot compact", error)
    }

    /// RocksDB's statistics as text.
    pub(super) fn statistics(&self) -> String {
        let text = call!(self.library, options_statistics_get_string(self.options));
        self.library.take_text(text).unwrap_or_default()
    }

    /// A property that is a number; 0 if there is none of that name.
    pub(super) fn property(&self, name: &CStr) -> u64 {
        let mut value = 0;
        let status = call!(self.library, property_int(self.database, name.as_ptr(), &raw mut value));
        if status == 0 { value } else { 0 }
    }

    /// Bytes in the block cache.
    pub(super) fn cache_bytes(&self) -> u64 {
        call!(self.library, cache_get_usage(self.cache)) as u64
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let l = &*self.library;
        if !self.database.is_null() {
            call!(l, close(self.database));
        }
        call!(l, readoptions_destroy(self.reads));
        call!(l, writeoptions_destroy(self.writes));
        call!(l, options_destroy(self.options));
        call!(l, cache_destroy(self.cache));
    }
}

fn chars(bytes: &[u8]) -> *const c_char {
    bytes.as_ptr().cast()
}

/// The `bytes` bytes at `start`.
///
/// # Safety
/// They must be there, unchanged, for as long as the caller uses them.
unsafe fn borrowed<'a>(start: *const c_char, bytes: usize) -> &'a [u8] {
    if bytes == 0 {
        return &[];
    }
    // SAFETY: the caller's promise; a non-empty slice of RocksDB's never starts at null.
    unsafe { slice::from_raw_parts(start.cast(), bytes) }
}
