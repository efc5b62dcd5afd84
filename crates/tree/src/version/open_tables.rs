//! Tables that the manifest or an edit names are opened.

use std::sync::Arc;

use firn_engine::{Error, Location, Result};
use firn_format::manifest::TableMeta;
use firn_storage::Storage;
use firn_storage::file::cache::BlockCache;
use firn_storage::file::table::{ReaderOptions, TableReader};

use crate::error::from_storage;

/// Opens the tables that `metas` describe, in their order; the next ones while one is waited for.
pub(crate) fn open_tables<'a>(
    storage: &'a Arc<dyn Storage>,
    metas: impl IntoIterator<Item = &'a TableMeta, IntoIter: Clone + 'a>,
    cache: &'a Arc<BlockCache>,
) -> impl Iterator<Item = Result<Arc<TableReader>>> + 'a {
    let metas = metas.into_iter();
    let opened = TableReader::open_all(&**storage, metas.clone(), cache, ReaderOptions::default());
    metas.zip(opened).map(|(meta, opened)| match opened {
        Ok(reader) => Ok(Arc::new(reader)),
        Err(error) if error.kind == firn_storage::ErrorKind::NotFound => {
            let location = Location { file: meta.file.clone(), offset: None };
            Err(Error::corrupt(
                location,
                "the table is missing: the manifest names it, but there is no such file",
            ))
        }
        Err(error) => Err(from_storage(error)),
    })
}
