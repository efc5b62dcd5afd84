//! Writing outputs: one table after another, cut where they should be.

use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::Arc;

use firn_engine::Semantics;
use firn_format::file_name;
use firn_format::key::Entry;
use firn_format::manifest::TableMeta;
use firn_format::table::TableForm;
use firn_format::tombstone::FragmentList;
use firn_storage::Storage;
use firn_storage::file::table::{TableBuilder, Unsynced};

use crate::error::{Error, ErrorKind, Result};
use crate::spec::OutputForm;

/// Takes entries in order and leaves tables in order; the tables' ranges touch but do not overlap.
///
/// A table is closed at a split key, and at the first new key once it has its bytes: never between
/// versions of one key. Each gets the part of the range tombstones that lies between its first key
/// and the next table's. The first one's part reaches down, the last one's up, as far as the
/// tombstones do. Dropped unfinished, it removes what it created. It borrows its storage, or holds
/// it by `Arc`.
#[derive(Debug)]
pub struct TableWriter<S: Deref<Target: Storage>> {
    storage: S,
    stem: String,
    form: TableForm,
    target_bytes: u64,
    splits: Vec<Vec<u8>>,
    /// Index of the next split.
    split: usize,
    tombstones: FragmentList,
    open: Option<TableBuilder>,
    /// Where the open table's share of the keys begins.
    lower: Vec<u8>,
    created: Vec<String>,
    /// The newest tables: the device writes them while the next ones are made. Each holds its file
    /// open.
    completed: VecDeque<Unsynced>,
    /// Those before, in order.
    synced: Vec<TableMeta>,
}

/// Tables that wait for their sync, and hold files open, at most; one more is being written.
const UNSYNCED_MAX: usize = 16;

impl<S: Deref<Target: Storage>> TableWriter<S> {
    /// A writer of tables `<stem>-<index>.table` that together hold `tombstones` and the entries
    /// added.
    ///
    /// # Errors
    /// `Rejected` if `semantics` lacks the form's prefix extractor; `Invalid` for splits out of
    /// order.
    pub fn new(
        storage: S,
        stem: &str,
        form: &OutputForm,
        semantics: &Semantics,
        tombstones: FragmentList,
    ) -> Result<Self> {
        if !form.splits.is_sorted_by(|a, b| a < b) {
            return Err(Error::new(ErrorKind::Invalid, "expected split keys in rising order"));
        }
        if !file_name::is_valid(&file_name::table(stem, 0)) {
            return Err(Error::new(ErrorKind::Invalid, format!("{stem:?} cannot begin a file's name")));
        }
        Ok(Self {
            storage,
            stem: stem.to_owned(),
            form: table_form(form, semantics)?,
            target_bytes: form.table_bytes_target,
            splits: form.splits.clone(),
            split: 0,
            tombstones,
            open: None,
            lower: Vec::new(),
            created: Vec::new(),
            completed: VecDeque::new(),
            synced: Vec::new(),
        })
    }

    /// Adds the next entry. May write.
    ///
    /// # Errors
    /// `Storage`: creating, writing, or an entry out of order.
    #[inline]
    pub fn add(&mut self, entry: &Entry<'_>) -> Result<()> {
        let is_past_split = self.splits.get(self.split).is_some_and(|split| split.as_slice() <= entry.key);
        let is_full = self.open.as_ref().is_some_and(|open| open.estimated_bytes() >= self.target_bytes);
        if is_past_split || is_full {
            self.cut_before(entry.key)?;
        }
        if self.open.is_none() {
            self.create()?;
        }
        match &mut self.open {
            Some(open) => Ok(open.add(entry)?),
            None => Ok(()),
        }
    }

    /// Completes the last table and makes all names durable; the tables in order of keys.
    ///
    /// # Errors
    /// `Storage`.
    pub fn finish(mut self) -> Result<Vec<TableMeta>> {
        self.cut_at_splits(None)?;
        self.close(None)?;
        self.sync_but(0)?;
        self.storage.sync_dir()?;
        self.created.clear();
        Ok(std::mem::take(&mut self.synced))
    }

    /// Closes the open table if `key` belongs in another one.
    fn cut_before(&mut self, key: &[u8]) -> Result<()> {
        self.cut_at_splits(Some(key))?;
        let is_full = self.open.as_ref().is_some_and(|open| {
            open.estimated_bytes() >= self.target_bytes && open.entry_count() > 0 && open.last_key() != key
        });
        if is_full {
            self.close(Some(key))?;
        }
        Ok(())
    }

    /// Closes a table at every split not after `key` (all splits for `None`).
    fn cut_at_splits(&mut self, key: Option<&[u8]>) -> Result<()> {
        while let Some(split) = self.splits.get(self.split) {
            if key.is_some_and(|key| split.as_slice() > key) {
                break;
            }
            let split = split.clone();
            self.split += 1;
            self.close(Some(&split))?;
        }
        Ok(())
    }

    /// Completes the table whose keys end before `upper`, if it has entries or tombstones.
    fn close(&mut self, upper: Option<&[u8]>) -> Result<()> {
        let tombstones = self.tombstones.clip(&self.lower, upper);
        if self.open.is_none() && !tombstones.is_empty() {
            self.create()?;
        }
        if let Some(mut open) = self.open.take() {
            open.add_tombstones(&tombstones);
            self.completed.push_back(open.complete()?);
            self.sync_but(UNSYNCED_MAX)?;
        }
        if let Some(upper) = upper {
            self.lower.clear();
            self.lower.extend_from_slice(upper);
        }
        Ok(())
    }

    /// Syncs and closes the oldest completed tables until only `most` are left.
    fn sync_but(&mut self, most: usize) -> Result<()> {
        while self.completed.len() > most
            && let Some(oldest) = self.completed.pop_front()
        {
            self.synced.push(oldest.sync()?);
        }
        Ok(())
    }

    fn create(&mut self) -> Result<()> {
        let name = file_name::table(&self.stem, self.created.len() as u32);
        let file = self.storage.create(&name)?;
        self.created.push(name.clone());
        self.open = Some(TableBuilder::new(&name, file, self.form.clone()));
        Ok(())
    }
}

impl<S: Deref<Target: Storage>> Drop for TableWriter<S> {
    fn drop(&mut self) {
        self.open = None;
        self.completed.clear();
        for name in &self.created {
            // No edit names the file yet: if it stays, the committer removes it with the dead
            // attempt's stem.
            let _ = self.storage.remove(name);
        }
    }
}

/// The table form that `form` asks for.
pub(crate) fn table_form(form: &OutputForm, semantics: &Semantics) -> Result<TableForm> {
    let prefix = match &form.prefix_extractor {
        None => None,
        Some(name) => {
            let lacks = || Error::new(ErrorKind::Rejected, format!("no prefix extractor {name:?} here"));
            let extractor = semantics.prefix_extractor(name).ok_or_else(lacks)?;
            let prefix_bytes: firn_format::table::PrefixBytes =
                Arc::new(move |key: &[u8]| extractor.prefix_bytes(key));
            Some((name.clone(), prefix_bytes))
        }
    };
    Ok(TableForm {
        block_bytes: form.block_bytes,
        compression: form.compression,
        filter_bits_per_key: form.filter_bits_per_key,
        prefix,
    })
}
