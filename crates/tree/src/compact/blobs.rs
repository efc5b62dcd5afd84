//! What a compaction is told of separated values.

use std::sync::{Arc, PoisonError};

use firn_engine::{Error, Result};
use firn_format::table::ReferenceSet;
use firn_jobs::{BlobPolicy, ValueSource};

use crate::blobs::{BlobStore, Home, Sealed};
use crate::version::catalog::Catalog;
use crate::version::set::separate_bytes;
use crate::version::{Keyspace, Table};

/// What a compaction is told of values; files of segments that it may read stay as long as this is
/// there.
#[derive(Debug, Default)]
pub(crate) struct HeldPolicy {
    /// `None` if no value is separated or ever shall.
    pub(crate) policy: Option<BlobPolicy>,
    pub(crate) held: Vec<Arc<Sealed>>,
}

/// Where values are that `inputs`, tables of `keyspace`, refer to by their `references`, and
/// where they are to be; `None` if the keyspace was dropped since it was looked up. A
/// compaction that reads no value is told of none. GCs go on beside it, and what they
/// leave would take its place on disk until it is done.
///
/// # Errors
/// A segment that is not there: a bug.
pub(crate) fn blob_policy<'t>(
    catalog: &Catalog,
    blobs: &BlobStore,
    keyspace: &Keyspace,
    inputs: impl Iterator<Item = &'t Arc<Table>>,
    references: &ReferenceSet,
) -> Result<Option<HeldPolicy>> {
    let separate_bytes = separate_bytes(keyspace, &blobs.settings);
    if references.is_empty() && separate_bytes == u32::MAX {
        return Ok(Some(HeldPolicy::default()));
    }
    // Under the lock, so that the map and the manifest say the same.
    let manifest = catalog.manifest.lock().unwrap_or_else(PoisonError::into_inner);
    if catalog.version.load().keyspace(keyspace.id()).is_err() {
        // And its values with it.
        return Ok(None);
    }
    let (state, map) = (manifest.state(), blobs.map());
    let (mut sources, mut held) = (Vec::new(), Vec::new());
    let obsolete = state.blobs.obsolete.get(&keyspace.id());
    let obsolete = obsolete.map(|obsolete| obsolete.common(references)).unwrap_or_default();
    let mut followed = ReferenceSet::default();
    if reads_values(keyspace, inputs, separate_bytes) {
        followed = references.clone();
        followed.remove_all(&obsolete);
    }
    for (born, _) in followed.segments() {
        let (sealed, relocation) = match map.known(born) {
            Some(Home::Sealed(sealed)) => (sealed, None),
            Some(Home::Moved(_, sealed)) => (sealed, state.blobs.relocations.get(&born).copied()),
            _ => return Err(Error::bug(format!("tables refer to segment {born}, which is not sealed"))),
        };
        sources.push(ValueSource { born, segment: sealed.meta.clone(), relocation });
        held.push(Arc::clone(sealed));
    }
    let (compression, database) = (keyspace.codec(), state.database);
    let policy = Some(BlobPolicy { separate_bytes, sources, obsolete, output: None, compression, database });
    Ok(Some(HeldPolicy { policy, held }))
}

/// Whether a compaction of `inputs` may read separated values. It does for a filter, to merge
/// operands with them, or since they are too short to lie there. A table without such values does
/// not tell whether it has operands: that is taken to be a reason.
fn reads_values<'t>(
    keyspace: &Keyspace,
    mut inputs: impl Iterator<Item = &'t Arc<Table>>,
    separate_bytes: u32,
) -> bool {
    let settings = &keyspace.definition.settings;
    let has_operator = settings.merge_operator.is_some();
    let reads = |table: &Arc<Table>| {
        let references = table.reader().properties().references;
        let moves = references.is_some_and(|summary| summary.value_bytes_min < separate_bytes);
        moves || (has_operator && references.is_none_or(|summary| summary.operand_count > 0))
    };
    settings.compaction_filter.is_some() || inputs.any(reads)
}
