//! Where the part of a database lies that other machines reach.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use firn::Builder;
use firn_storage::backend::{Cached, Divided, Local, LocalOptions};
use firn_storage::{ErrorKind, Storage};
use firn_tree::storage_error;

use crate::access::Access;
use crate::backends::{open_with, registry};
use crate::ending::{Ending, Failure, Result};
use crate::output::report;
use crate::store_rates::StoreRates;

/// The location of a shared backend, if there is one.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct SharedName {
    /// Where tables, sealed blob segments and the manifest lie, if that is not the directory too:
    /// a directory that several machines mount, s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or
    /// az://CONTAINER/PREFIX. The directory keeps the log. Endpoint, region and credentials are the
    /// environment's, by the names that the stores' own tools use (AWS_ENDPOINT, AWS_REGION,
    /// AWS_ACCESS_KEY_ID, ...).
    #[arg(long, value_name = "LOCATION")]
    pub(crate) shared: Option<String>,
    /// How much an object store is asked in a second, at most: any of reads=N, writes=N, lists=N,
    /// removals=N (requests), read-bytes=B and write-bytes=B, with commas between them:
    /// reads=500,write-bytes=20M. Of requests 1 to 1M, of bytes 1M to 1T; after a rest a second's
    /// worth goes at once, and what is more waits. Default: no limits.
    #[arg(long, value_name = "RATES", requires = "shared")]
    pub(crate) store_rates: Option<StoreRates>,
}

/// A shared backend, if there is one, of a database that is opened.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct SharedStorage {
    #[command(flatten)]
    pub(crate) name: SharedName,
    /// Open it although its log lies in another directory. What was written there and is neither in
    /// a table nor acknowledged as `shared` is given up. A process that has it open there writes
    /// nothing any more.
    #[arg(long, requires = "shared")]
    pub(crate) take_over: bool,
    /// Where ranges that were read are kept, by commands that read for long enough.
    #[arg(skip)]
    pub(crate) cache: Option<RangeCache>,
}

/// A directory for ranges of files that lie in the shared backend.
#[derive(Clone, Debug)]
pub(crate) struct RangeCache {
    pub(crate) dir: PathBuf,
    /// What it may take.
    pub(crate) bytes: u64,
}

impl SharedStorage {
    /// What a command that wants `access` to the database does to the directory. Where the manifest
    /// lies elsewhere, a machine may see it for the first time.
    pub(crate) fn access_to_directory(&self, access: Access) -> Access {
        match self.name.shared {
            Some(_) if access != Access::Read => Access::Create,
            Some(_) => Access::ReadLog,
            None => access,
        }
    }

    /// Tells `builder`.
    ///
    /// # Errors
    /// The backend cannot be opened, with what is expected.
    pub(crate) fn set(&self, builder: Builder, access: Access) -> Result<Builder> {
        let Some(name) = &self.name.shared else { return Ok(builder) };
        let backend = open_backend(name, self.name.store_rates, access == Access::Create)?;
        let backend = match &self.cache {
            Some(cache) => cache.before(backend),
            None => backend,
        };
        Ok(builder.shared(backend).take_over(self.take_over))
    }
}

impl SharedName {
    /// The files of the database in `dir`, wherever they lie, for a command that changes nothing.
    ///
    /// # Errors
    /// A backend cannot be opened, or the directory has no log of a database on shared storage.
    pub(crate) fn files(&self, dir: &Path) -> Result<Arc<dyn Storage>> {
        let refused = |error| Failure::database(dir, &storage_error(error));
        let local = Arc::new(Local::open(dir, LocalOptions { create: false }).map_err(refused)?);
        let Some(name) = &self.shared else { return Ok(local) };
        let backend = open_backend(name, self.store_rates, false)?;
        let divided = Divided::open_known(local, backend).map_err(|error| match error.kind {
            ErrorKind::NotFound => {
                let why =
                    "has no log of a database on shared storage; name the directory that it was opened from";
                Failure::new(Ending::Failed, format!("{} {why}", dir.display()))
            }
            _ => refused(error),
        })?;
        Ok(Arc::new(divided))
    }
}

impl RangeCache {
    /// `backend`, whose ranges are kept here; without that, and people are told, if the directory
    /// cannot be used.
    fn before(&self, backend: Arc<dyn Storage>) -> Arc<dyn Storage> {
        let cached = Cached::in_directory(backend, &self.dir, self.bytes);
        if let Some(error) = cached.failure() {
            report(format_args!("firn: nothing is cached in {}: {error}", self.dir.display()));
        }
        Arc::new(cached)
    }
}

/// The backend called `name`, asked as often as `rates` say. `create`: a directory that is missing
/// is made.
///
/// # Errors
/// The name is none, with what is expected; there are rates for a directory; what opening says.
pub(crate) fn open_backend(name: &str, rates: Option<StoreRates>, create: bool) -> Result<Arc<dyn Storage>> {
    let backend = registry().open(name, &open_with(rates.map(StoreRates::throttle), create));
    backend.map_err(|error| Failure::new(Ending::Failed, format!("cannot use {name}: {error}")))
}
