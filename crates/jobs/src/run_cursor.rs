//! The disjoint tables of one sorted run as one cursor.

use std::sync::Arc;

use firn_format::key::Entry;
use firn_storage::Result;
use firn_storage::file::table::{CursorOptions, TableCursor, TableReader};

use crate::Cursor;

/// Disjoint tables in order of keys, held by the owner of the list: a cursor takes hold only of
/// those it walks.
pub trait Tables: Send {
    /// The table at `index`; `None` past the last.
    fn get(&self, index: usize) -> Option<&Arc<TableReader>>;

    /// How many there are.
    fn count(&self) -> usize;

    /// How many at the front satisfy `is_before`. All tables before one that satisfies it MUST
    /// satisfy it too.
    fn partition_point(&self, is_before: impl Fn(&TableReader) -> bool) -> usize
    where
        Self: Sized,
    {
        let (mut low, mut high) = (0, self.count());
        while low < high {
            let middle = low.midpoint(high);
            match self.get(middle).is_some_and(|table| is_before(table)) {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        low
    }
}

impl Tables for Vec<Arc<TableReader>> {
    fn get(&self, index: usize) -> Option<&Arc<TableReader>> {
        self.as_slice().get(index)
    }

    fn count(&self) -> usize {
        self.len()
    }
}

/// Walks tables one after the other; a table's blocks are read when the walk reaches it.
#[derive(Debug)]
pub struct RunCursor<T = Vec<Arc<TableReader>>> {
    tables: T,
    options: CursorOptions,
    index: usize,
    cursor: Option<TableCursor>,
}

impl<T: Tables> RunCursor<T> {
    /// A cursor over `tables`, which MUST be disjoint and in order of keys.
    pub fn new(tables: T, options: CursorOptions) -> Self {
        Self { tables, options, index: 0, cursor: None }
    }

    /// Asks for what [`seek`](Cursor::seek) to `key` will read, if the options say that files are
    /// read ahead. So several cursors wait for their files at once. Does not wait.
    pub fn ask(&self, key: &[u8]) {
        let index =
            Tables::partition_point(&self.tables, |table| table.properties().largest.as_slice() < key);
        if let Some(table) = self.tables.get(index) {
            self.options.ask(table, key);
        }
    }

    /// Makes the table at `index` the open one.
    fn open(&mut self, index: usize) -> Option<&mut TableCursor> {
        let table = self.tables.get(index)?;
        if self.index != index || self.cursor.is_none() {
            self.cursor = Some(TableCursor::new(Arc::clone(table), self.options));
            self.index = index;
            // A walk goes on there.
            if let Some(next) = self.tables.get(index + 1) {
                self.options.ask(next, b"");
            }
        }
        self.cursor.as_mut()
    }

    /// Goes on to later tables until one has an entry.
    fn settle_forward(&mut self) -> Result<()> {
        while self.cursor.as_ref().is_some_and(|cursor| !cursor.is_positioned()) {
            match self.open(self.index + 1) {
                Some(cursor) => cursor.seek_first()?,
                None => self.cursor = None,
            }
        }
        Ok(())
    }

    /// Goes back to earlier tables until one has an entry.
    fn settle_backward(&mut self) -> Result<()> {
        while self.cursor.as_ref().is_some_and(|cursor| !cursor.is_positioned()) {
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

impl<T: Tables> Cursor for RunCursor<T> {
    #[inline]
    fn entry(&self) -> Option<Entry<'_>> {
        self.cursor.as_ref()?.entry()
    }

    #[inline]
    fn has_given_sequence(&self) -> bool {
        self.cursor.as_ref().is_some_and(TableCursor::has_given_sequence)
    }

    fn seek_first(&mut self) -> Result<()> {
        self.place(0, |cursor| cursor.seek_first())?;
        self.settle_forward()
    }

    fn seek_last(&mut self) -> Result<()> {
        self.place(self.tables.count().wrapping_sub(1), |cursor| cursor.seek_last())?;
        self.settle_backward()
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        let index =
            Tables::partition_point(&self.tables, |table| table.properties().largest.as_slice() < key);
        self.place(index, |cursor| cursor.seek(key))?;
        self.settle_forward()
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        let after =
            Tables::partition_point(&self.tables, |table| table.properties().smallest.as_slice() < key);
        self.place(after.wrapping_sub(1), |cursor| cursor.seek_before(key))?;
        self.settle_backward()
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        let Some(cursor) = &mut self.cursor else { return Ok(()) };
        cursor.next()?;
        match cursor.is_positioned() {
            true => Ok(()),
            false => self.settle_forward(),
        }
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        let Some(cursor) = &mut self.cursor else { return Ok(()) };
        cursor.prev()?;
        match cursor.is_positioned() {
            true => Ok(()),
            false => self.settle_backward(),
        }
    }
}
