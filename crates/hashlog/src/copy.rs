//! A copy of a database: what was written before one moment, as a database of its own.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::PoisonError;

use firn_engine::{DatabaseCopy, Error, Result};
use firn_format::file_name::{self, FileName};
use firn_format::hybrid::SEGMENT_HEADER_BYTES;
use firn_storage::Storage;
use firn_storage::file::manifest::Content;

use crate::database::Database;
use crate::device::Device;
use crate::error::from_storage;
use crate::extents::Extents;

/// Bytes that are copied at once.
const COPY_BYTES: u64 = 1 << 20;

impl Database {
    /// A copy at `path`: a checkpoint, its whole segments as links, the last one as a copy. Files
    /// that are on shared storage alone are copied.
    pub(crate) fn copy_to(&self, path: &Path) -> Result<DatabaseCopy> {
        // No other checkpoint is taken meanwhile.
        let _turn = self.moments.checkpointing.lock().unwrap_or_else(PoisonError::into_inner);
        let position = self.take_checkpoint().inspect_err(|error| self.note_final(error))?;
        let mut state = self.manifest.lock().unwrap_or_else(PoisonError::into_inner).state().clone();
        // All is in the log, and the copy lies in one directory.
        state.redo = state.redo_through + 1;
        (state.home, state.hybrid, state.cold.extents) = (0, Extents::default(), Extents::default());
        let (mut linked, mut copied) = (Vec::new(), Vec::new());
        let logs = [(&self.device, state.cut), (&self.store.cold.device, state.cold.cut)];
        for (device, cut) in logs {
            for base in device.bases().0.into_iter().filter(|base| *base < cut) {
                match device.is_here(base) && device.end_of(base) <= cut {
                    true => linked.push(device.name_of(base)),
                    false => copied.push((device, (base, cut.min(device.end_of(base))))),
                }
            }
        }
        let mut files: BTreeSet<String> =
            state.cold.runs.iter().map(|number| file_name::cold_run(*number)).collect();
        let there = self.tier.as_ref().map_or(Ok(Vec::new()), |tier| tier.list())?;
        let here = self.env.storage.list().map_err(from_storage)?;
        let is_value = |name: &String| matches!(file_name::parse(name), Some(FileName::Value(_)));
        files.extend(there.into_iter().chain(here.iter().cloned()).map(|(name, _)| name).filter(is_value));
        linked.extend(here.into_iter().map(|(name, _)| name).filter(|name| files.remove(name)));
        let copy = self.env.storage.link_into(&linked, path).map_err(from_storage)?;
        for (device, range) in copied {
            copy_segment(device, range, &*copy)?;
        }
        for name in files {
            let tier =
                self.tier.as_ref().ok_or_else(|| Error::bug("a file that is neither here nor there"))?;
            tier.copy_to(&name, &*copy)?;
        }
        copy.publish(&file_name::manifest_edit(1), &state.encode_base(1)).map_err(from_storage)?;
        copy.sync_dir().map_err(from_storage)?;
        Ok(DatabaseCopy { path: path.to_owned(), position })
    }
}

/// Copies the segment from `base` on, as far as `cut`, to `copy`, and syncs it.
fn copy_segment(device: &Device, (base, cut): (u64, u64), copy: &dyn Storage) -> Result<()> {
    let to = copy.create(&device.name_of(base)).map_err(from_storage)?;
    let end = SEGMENT_HEADER_BYTES as u64 + 8 * (cut - base);
    let mut at = 0;
    while at < end {
        let mut piece = vec![0; COPY_BYTES.min(end - at) as usize];
        device.read_file(base, at, &mut piece)?;
        to.write_at(at, &piece).map_err(from_storage)?;
        at += piece.len() as u64;
    }
    to.sync().map_err(from_storage)
}
