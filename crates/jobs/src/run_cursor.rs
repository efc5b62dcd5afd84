//! The disjoint tables of one sorted run as one cursor.

use std::sync::Arc;

use firn_format::key::Entry;
use firn_storage::Result;
use firn_storage::file::table::{CursorOptions, TableCursor, TableReader};

use crate::Cursor;

/// Walks tables one after the other; a table's blocks are read when the walk reaches it.
#[derive(Debug)]
pub struct RunCursor {
    tables: Vec<Arc<TableReader>>,
    options: CursorOptions,
    index: usize,
    cursor: Option<TableCursor>,
}

impl RunCursor {
    /// A cursor over `tables`, which MUST be disjoint and in order of keys.
    pub fn new(tables: Vec<Arc<TableReader>>, options: CursorOptions) -> Self {
        Self { tables, options, index: 0, cursor: None }
    }

    /// Makes the table at `index` the open one.
    fn open(&mut self, index: usize) -> Option<&mut TableCursor> {
        let table = self.tables.get(index)?;
        if self.index != index || self.cursor.is_none() {
            self.cursor = Some(TableCursor::new(Arc::clone(table), self.options));
            self.index = index;
        }
        self.cursor.as_mut()
    }

    /// Goes on to later tables until one has an entry.
    fn settle_forward(&mut self) -> Result<()> {
        while self.cursor.is_some() && self.entry().is_none() {
            match self.open(self.index + 1) {
                Some(cursor) => cursor.seek_first()?,
                None => self.cursor = None,
            }
        }
        Ok(())
    }

    /// Goes back to earlier tables until one has an entry.
    fn settle_backward(&mut self) -> Result<()> {
        while self.cursor.is_some() && self.entry().is_none() {
            match self.index.checked_sub(1).and_then(|index| self.open(index)) {
                Some(cursor) => cursor.seek_last()?,
                None => self.cursor = None,
            }
        }
        Ok(())
    }

    fn place(&mut self, index: usize, place: impl FnOnce(&mut TableCursor) -> Result<()>) -> Result<()> {
        match self.open(index) {
            Some(cursor) => place(cursor),
            None => {
                self.cursor = None;
                Ok(())
            }
        }
    }
}

impl Cursor for RunCursor {
    #[inline]
    fn entry(&self) -> Option<Entry<'_>> {
        self.cursor.as_ref()?.entry()
    }

    fn seek_first(&mut self) -> Result<()> {
        self.place(0, |cursor| cursor.seek_first())?;
        self.settle_forward()
    }

    fn seek_last(&mut self) -> Result<()> {
        self.place(self.tables.len().wrapping_sub(1), |cursor| cursor.seek_last())?;
        self.settle_backward()
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        let index = self.tables.partition_point(|table| table.properties().largest.as_slice() < key);
        self.place(index, |cursor| cursor.seek(key))?;
        self.settle_forward()
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        let after = self.tables.partition_point(|table| table.properties().smallest.as_slice() < key);
        self.place(after.wrapping_sub(1), |cursor| cursor.seek_before(key))?;
        self.settle_backward()
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        let Some(cursor) = &mut self.cursor else { return Ok(()) };
        cursor.next()?;
        match cursor.entry() {
            Some(_) => Ok(()),
            None => self.settle_forward(),
        }
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        let Some(cursor) = &mut self.cursor else { return Ok(()) };
        cursor.prev()?;
        match cursor.entry() {
            Some(_) => Ok(()),
            None => self.settle_backward(),
        }
    }
}
