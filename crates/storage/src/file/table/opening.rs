//! A table that is being opened.

use std::sync::Arc;

use firn_format::manifest::TableMeta;

use super::parts::Parts;
use super::reader::{ReaderOptions, TableReader};
use crate::backend::open_table;
use crate::file::cache::BlockCache;
use crate::file::in_turn::Opening;
use crate::file::tail::{self, Tail};
use crate::{FileBytes, ReadFile, Result, Storage};

/// See the module. What is behind the data is asked for, of a mapped file too: later reads jump
/// about, and the system reads none of it ahead.
pub(super) struct Begun<'a> {
    meta: &'a TableMeta,
    file: Arc<dyn ReadFile>,
    bytes: Option<FileBytes>,
    tail: Option<Tail>,
    cache: &'a Arc<BlockCache>,
}

impl<'a> Begun<'a> {
    /// Opens the file and asks for its end.
    pub(super) fn begin(
        storage: &dyn Storage,
        meta: &'a TableMeta,
        cache: &'a Arc<BlockCache>,
        options: ReaderOptions,
    ) -> Result<Self> {
        let file = open_table(storage, &meta.file, meta.bytes)?;
        let bytes = if options.map { file.bytes()? } else { None };
        match &bytes {
            Some(bytes) => {
                bytes.will_need_unless_there(tail::start_of(bytes.len() as u64) as usize..bytes.len())
            }
            None => Tail::ask(&*file),
        }
        Ok(Self { meta, file, bytes, tail: None, cache })
    }
}

impl Opening for Begun<'_> {
    type Open = TableReader;

    fn ask_rest(&mut self) -> Result<()> {
        let mut parts = Parts::new(&self.meta.file, &*self.file, self.bytes.as_deref(), self.tail.take());
        let first = parts.footer()?.1;
        self.tail = parts.into_tail();
        match (&self.bytes, &self.tail) {
            (Some(bytes), _) => {
                let end = tail::start_of(bytes.len() as u64);
                bytes.will_need_unless_there(first.min(end) as usize..end as usize);
            }
            (None, Some(tail)) => tail.ask_back_to(&*self.file, first),
            (None, None) => {}
        }
        Ok(())
    }

    fn finish(self) -> Result<TableReader> {
        let mut table = TableReader::of(&self.meta.file, self.file, self.bytes, self.tail, self.cache)?;
        table.fit(self.meta)?;
        Ok(table)
    }
}
