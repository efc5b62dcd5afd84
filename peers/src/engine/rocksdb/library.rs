//! RocksDB's C interface, loaded from a shared library when the program runs.
//!
//! Declared by hand from `rocksdb/c.h` of 11.8; only what the benchmarks call.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::path::Path;

use firn_engine::Result;

use crate::engine::failed;

/// An object of RocksDB's.
pub(super) type Handle = *mut c_void;

/// Declares the functions, each once: name after `rocksdb_`, arguments, result.
macro_rules! functions {
    ($( $name:ident($($argument:ty),*) $(-> $result:ty)?; )+) => {
        /// The functions of the library. Callers keep to `c.h`: live handles of the right kind,
        /// bytes that stay where they are during the call.
        pub(super) struct Library {
            $( pub(super) $name: unsafe extern "C" fn($($argument),*) $(-> $result)?, )+
            /// Keeps the code mapped; dropped after the pointers into it.
            _library: libloading::Library,
        }

        impl Library {
            /// Loads the library at `path`.
            ///
            /// # Errors
            /// `Invalid` if there is none or it lacks a function.
            pub(super) fn load(path: &Path) -> Result<Self> {
                #[expect(unsafe_code, reason = "loading code is unsafe by its nature")]
                // SAFETY: the library is RocksDB's, whose initialisers only set up its own statics.
                let library = unsafe { libloading::Library::new(path) }.map_err(|error| {
                    let cause = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
                    failed("cannot load RocksDB (run peers/setup, or name a library with --rocksdb-library)", cause)
                })?;
                $(
                    #[expect(unsafe_code, reason = "a symbol has no type of its own")]
                    // SAFETY: the type is the one `rocksdb/c.h` declares for this name.
                    let $name = unsafe {
                        library.get::<unsafe extern "C" fn($($argument),*) $(-> $result)?>(
                            concat!("rocksdb_", stringify!($name), "\0").as_bytes(),
                        )
                    }
                    .map(|symbol| *symbol)
                    .map_err(|error| failed("RocksDB's library is too old", error))?;
                )+
                Ok(Self { $( $name, )+ _library: library })
            }
        }
    };
}

functions! {
    open(Handle, *const c_char, *mut *mut c_char) -> Handle;
    close(Handle);
    put(Handle, Handle, *const c_char, usize, *const c_char, usize, *mut *mut c_char);
    delete(Handle, Handle, *const c_char, usize, *mut *mut c_char);
    get_pinned(Handle, Handle, *const c_char, usize, *mut *mut c_char) -> Handle;
    pinnableslice_value(Handle, *mut usize) -> *const c_char;
    pinnableslice_destroy(Handle);
    create_iterator(Handle, Handle) -> Handle;
    iter_seek(Handle, *const c_char, usize);
    iter_valid(Handle) -> u8;
    iter_next(Handle);
    iter_key(Handle, *mut usize) -> *const c_char;
    iter_value(Handle, *mut usize) -> *const c_char;
    iter_get_error(Handle, *mut *mut c_char);
    iter_destroy(Handle);
    write(Handle, Handle, Handle, *mut *mut c_char);
    writebatch_create() -> Handle;
    writebatch_put(Handle, *const c_char, usize, *const c_char, usize);
    writebatch_destroy(Handle);
    envoptions_create() -> Handle;
    envoptions_destroy(Handle);
    sstfilewriter_create(Handle, Handle) -> Handle;
    sstfilewriter_open(Handle, *const c_char, *mut *mut c_char);
    sstfilewriter_put(Handle, *const c_char, usize, *const c_char, usize, *mut *mut c_char);
    sstfilewriter_file_size(Handle, *mut u64);
    sstfilewriter_finish(Handle, *mut *mut c_char);
    sstfilewriter_destroy(Handle);
    ingestexternalfileoptions_create() -> Handle;
    ingestexternalfileoptions_set_move_files(Handle, u8);
    ingestexternalfileoptions_destroy(Handle);
    ingest_external_file(Handle, *const *const c_char, usize, Handle, *mut *mut c_char);
    flush(Handle, Handle, *mut *mut c_char);
    wait_for_compact(Handle, Handle, *mut *mut c_char);
    property_int(Handle, *const c_char, *mut u64) -> c_int;
    free(*mut c_void);
    options_create() -> Handle;
    options_destroy(Handle);
    options_set_create_if_missing(Handle, u8);
    options_set_compression(Handle, c_int);
    options_set_write_buffer_size(Handle, usize);
    options_set_max_write_buffer_number(Handle, c_int);
    options_set_max_background_jobs(Handle, c_int);
    options_set_enable_pipelined_write(Handle, u8);
    options_set_stats_dump_period_sec(Handle, c_uint);
    options_enable_statistics(Handle);
    options_set_statistics_level(Handle, c_int);
    options_statistics_get_string(Handle) -> *mut c_char;
    options_set_block_based_table_factory(Handle, Handle);
    options_set_enable_blob_files(Handle, u8);
    options_set_min_blob_size(Handle, u64);
    options_set_blob_file_size(Handle, u64);
    options_set_enable_blob_gc(Handle, u8);
    options_set_blob_gc_age_cutoff(Handle, f64);
    options_set_blob_gc_force_threshold(Handle, f64);
    block_based_options_create() -> Handle;
    block_based_options_destroy(Handle);
    block_based_options_set_block_size(Handle, usize);
    block_based_options_set_filter_policy(Handle, Handle);
    block_based_options_set_block_cache(Handle, Handle);
    block_based_options_set_cache_index_and_filter_blocks(Handle, u8);
    block_based_options_set_data_block_index_type(Handle, c_int);
    filterpolicy_create_bloom_full(f64) -> Handle;
    cache_create_hyper_clock(usize, usize) -> Handle;
    cache_get_usage(Handle) -> usize;
    cache_destroy(Handle);
    writeoptions_create() -> Handle;
    writeoptions_set_sync(Handle, u8);
    writeoptions_destroy(Handle);
    readoptions_create() -> Handle;
    readoptions_destroy(Handle);
    flushoptions_create() -> Handle;
    flushoptions_destroy(Handle);
    wait_for_compact_options_create() -> Handle;
    wait_for_compact_options_set_flush(Handle, u8);
    wait_for_compact_options_destroy(Handle);
}

impl Library {
    /// The text RocksDB allocated at `text`, which is freed; `None` for a null pointer.
    #[expect(unsafe_code, reason = "text that crosses a C interface")]
    pub(super) fn take_text(&self, text: *mut c_char) -> Option<String> {
        if text.is_null() {
            return None;
        }
        // SAFETY: RocksDB's texts end with a zero byte and nothing else has this one.
        let taken = unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
        // SAFETY: allocated by RocksDB and not used after this.
        unsafe { (self.free)(text.cast()) };
        Some(taken)
    }

    /// The error RocksDB left, if any.
    pub(super) fn check(&self, what: &str, error: *mut c_char) -> Result<()> {
        self.take_text(error).map_or(Ok(()), |text| Err(failed(what, text)))
    }
}
