//! RocksDB's writer of files that a database takes over.

use std::ffi::CStr;
use std::ptr;

use firn_engine::Result;

use super::super::library::{Handle, Library};
use super::chars;

/// Writes one file after another, of records whose keys rise.
///
/// It owns both handles, which are made in `new` and destroyed in `drop`, the writer first. The
/// options that it was made with belong to a database and outlive it.
pub(super) struct FileWriter<'l> {
    library: &'l Library,
    writer: Handle,
    environment: Handle,
}

impl<'l> FileWriter<'l> {
    /// A writer of files as a database with `options` has them.
    pub(super) fn new(library: &'l Library, options: Handle) -> Self {
        let environment = call!(library, envoptions_create());
        let writer = call!(library, sstfilewriter_create(environment, options));
        Self { library, writer, environment }
    }

    /// Begins the file at `path`.
    pub(super) fn open(&self, path: &CStr) -> Result<()> {
        let mut error = ptr::null_mut();
        call!(self.library, sstfilewriter_open(self.writer, path.as_ptr(), &raw mut error));
        self.library.check("RocksDB cannot begin a file", error)
    }

    /// Adds a record behind all before it.
    pub(super) fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let mut error = ptr::null_mut();
        let (key_start, value_start) = (chars(key), chars(value));
        call!(
            self.library,
            sstfilewriter_put(self.writer, key_start, key.len(), value_start, value.len(), &raw mut error)
        );
        self.library.check("RocksDB cannot write to a file", error)
    }

    /// Bytes of the file so far.
    pub(super) fn bytes(&self) -> u64 {
        let mut bytes = 0;
        call!(self.library, sstfilewriter_file_size(self.writer, &raw mut bytes));
        bytes
    }

    /// Ends the file, which is on the device then.
    pub(super) fn finish(&self) -> Result<()> {
        let mut error = ptr::null_mut();
        call!(self.library, sstfilewriter_finish(self.writer, &raw mut error));
        self.library.check("RocksDB cannot end a file", error)
    }
}

impl Drop for FileWriter<'_> {
    fn drop(&mut self) {
        call!(self.library, sstfilewriter_destroy(self.writer));
        call!(self.library, envoptions_destroy(self.environment));
    }
}
