//! A copy of a database: what was written before one moment, as a database of its own.

use std::path::Path;
use std::sync::PoisonError;

use firn_engine::{DatabaseCopy, Result};
use firn_format::file_name::{self, FileName};
use firn_format::hybrid::SEGMENT_HEADER_BYTES;
use firn_storage::Storage;
use firn_storage::file::manifest::Content;

use crate::database::Database;
use crate::device::Device;
use crate::error::from_storage;

/// Bytes that are copied at once.
const COPY_BYTES: u64 = 1 << 20;

impl Database {
    /// A copy at `path`: a checkpoint, its whole segments as links, the last one as a copy.
    pub(crate) fn copy_to(&self, path: &Path) -> Result<DatabaseCopy> {
        // No other checkpoint is taken meanwhile.
        let _turn = self.moments.checkpointing.lock().unwrap_or_else(PoisonError::into_inner);
        let position = self.take_checkpoint().inspect_err(|error| self.note_final(error))?;
        let mut state = self.manifest.lock().unwrap_or_else(PoisonError::into_inner).state().clone();
        // All is in the log.
        state.redo = state.redo_through + 1;
        let (bases, words) = self.device.bases();
        let mut linked = Vec::new();
        let mut last = None;
        for base in bases.into_iter().filter(|base| *base < state.cut) {
            match base + words <= state.cut {
                true => linked.push(file_name::hybrid_segment(base)),
                false => last = Some(base),
            }
        }
        let cold = &self.store.cold.device;
        let mut cold_last = None;
        for base in cold.bases().0.into_iter().filter(|base| *base < state.cold.cut) {
            match base + words <= state.cold.cut {
                true => linked.push(file_name::cold_segment(base)),
                false => cold_last = Some(base),
            }
        }
        linked.extend(state.cold.runs.iter().map(|number| file_name::cold_run(*number)));
        for (name, _) in self.env.storage.list().map_err(from_storage)? {
            if let Some(FileName::Value(_)) = file_name::parse(&name) {
                linked.push(name);
            }
        }
        let copy = self.env.storage.link_into(&linked, path).map_err(from_storage)?;
        if let Some(base) = last {
            copy_segment(&self.device, (base, state.cut), &*copy, &file_name::hybrid_segment(base))?;
        }
        if let Some(base) = cold_last {
            copy_segment(cold, (base, state.cold.cut), &*copy, &file_name::cold_segment(base))?;
        }
        copy.publish(&file_name::manifest_edit(1), &state.encode_base(1)).map_err(from_storage)?;
        copy.sync_dir().map_err(from_storage)?;
        Ok(DatabaseCopy { path: path.to_owned(), position })
    }
}

/// Copies the segment from `base` on, as far as `cut`, to file `name` of `copy`, and syncs it.
fn copy_segment(device: &Device, (base, cut): (u64, u64), copy: &dyn Storage, name: &str) -> Result<()> {
    let to = copy.create(name).map_err(from_storage)?;
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
