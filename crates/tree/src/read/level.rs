//! The tables of one sorted run as one cursor; a table is opened when the walk reaches it.

use std::sync::Arc;

use firn_format::key::Entry;
use firn_jobs::Cursor;
use firn_storage::Result;
use firn_storage::file::table::{CursorOptions, TableCursor};

use crate::version::Table;

/// Walks disjoint tables, in key order, one after the other.
pub(crate) struct LevelCursor {
    tables: Vec<Arc<Table>>,
    /// Index of the open table.
    index: usize,
    cursor: Option<TableCursor>,
}

impl LevelCursor {
    pub(crate) fn new(tables: Vec<Arc<Table>>) -> Self {
        Self { tables, index: 0, cursor: None }
    }

    /// Makes the table at `index` the open one; `None` past the last.
    fn open(&mut self, index: usize) -> Option<&mut TableCursor> {
        let table = self.tables.get(index)?;
        if self.index != index || self.cursor.is_none() {
            self.cursor = Some(TableCursor::new(Arc::clone(table.reader()), CursorOptions::SCAN));
            self.index = index;
        }
        self.cursor.as_mut()
    }

    /// Goes on to later tables while the open one has nothing more.
    fn settle_forward(&mut self) -> Result<()> {
        while self.entry().is_none() {
            match self.open(self.index + 1) {
                Some(cursor) => cursor.seek_first()?,
                None => {
                    self.cursor = None;
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn settle_backward(&mut self) -> Result<()> {
        while self.entry().is_none() {
            let Some(index) = self.index.checked_sub(1) else {
                self.cursor = None;
                return Ok(());
            };
            if let Some(cursor) = self.open(index) {
                cursor.seek_last()?;
            }
        }
        Ok(())
    }
}

impl Cursor for LevelCursor {
    fn entry(&self) -> Option<Entry<'_>> {
        self.cursor.as_ref()?.entry()
    }

    fn seek_first(&mut self) -> Result<()> {
        if let Some(cursor) = self.open(0) {
            cursor.seek_first()?;
        }
        self.settle_forward()
    }

    fn seek_last(&mut self) -> Result<()> {
        let Some(last) = self.tables.len().checked_sub(1) else { return Ok(()) };
        if let Some(cursor) = self.open(last) {
            cursor.seek_last()?;
        }
        self.settle_backward()
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        let index = self.tables.partition_point(|table| table.meta().largest.as_slice() < key);
        match self.open(index) {
            Some(cursor) => cursor.seek(key)?,
            None => {
                self.cursor = None;
                return Ok(());
            }
        }
        self.settle_forward()
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        let after = self.tables.partition_point(|table| table.meta().smallest.as_slice() < key);
        let Some(index) = after.checked_sub(1) else {
            self.cursor = None;
            return Ok(());
        };
        if let Some(cursor) = self.open(index) {
            cursor.seek_before(key)?;
        }
        self.settle_backward()
    }

    fn next(&mut self) -> Result<()> {
        let Some(cursor) = &mut self.cursor else { return Ok(()) };
        cursor.next()?;
        self.settle_forward()
    }

    fn prev(&mut self) -> Result<()> {
        let Some(cursor) = &mut self.cursor else { return Ok(()) };
        cursor.prev()?;
        self.settle_backward()
    }
}
