//! Large values leave the frame for a blob segment.

use firn_engine::{OrderedOp, OrderedOpKind, Result};
use firn_format::Kind;

use super::Item;
use crate::blobs::BlobStore;
use crate::blobs::write::{References, Separated};
use crate::settings::Settings;
use crate::version::catalog::Catalog;
use crate::version::set::separate_bytes;

impl References {
    /// The record that operation `index` becomes.
    pub(crate) fn item<'o>(&'o self, index: usize, op: OrderedOp<'o>) -> Item<'o> {
        match self.by_op.get(index) {
            Some(Some(reference)) => Item { kind: Kind::PutReference, value: reference, ..Item::from(op) },
            _ => Item::from(op),
        }
    }
}

impl BlobStore {
    /// Writes the values of those operations that are to be separated; `None` if there are
    /// none. They survive the process when this returns.
    ///
    /// # Errors
    /// As [`BlobStore::put`].
    pub(crate) fn separate<'o>(
        &self,
        catalog: &Catalog,
        settings: &Settings,
        ops: impl Iterator<Item = OrderedOp<'o>>,
    ) -> Result<Option<Separated>> {
        if !self.are_wanted() {
            return Ok(None);
        }
        let version = catalog.version.load();
        let mut large = Vec::new();
        for (index, op) in ops.enumerate() {
            let Ok(state) = version.keyspace(op.keyspace.0) else { continue };
            if op.kind == OrderedOpKind::Put && op.value.len() >= separate_bytes(state, settings) as usize {
                large.push((index, op, state.codec()));
            }
        }
        // What follows may take long, and other threads want arenas that the version holds.
        drop(version);
        if large.is_empty() {
            return Ok(None);
        }
        self.put(&large).map(Some)
    }
}
