//! The directory: names below one prefix of a bucket.

use std::path::Path as FilePath;
use std::sync::Arc;

use bytes::Bytes;
use firn_storage::backend::{RequestClass, UnfinishedUpload, check_name};
use firn_storage::{Error, ErrorKind, ReadFile, Result, Storage, StorageLock, WriteFile};
use futures_util::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};

use crate::error::of_uploads;
use crate::options::{Client, ObjectOptions};
use crate::read::ObjectReadFile;
use crate::runtime::Runtime;
use crate::store::{Store, cannot};
use crate::uploads::Listed;
use crate::write::ObjectWriteFile;

/// The objects below one prefix, as a flat directory of files.
///
/// As [`Storage`] says, but:
/// 1. A file is written in order, and is there once it is synced: as a whole, durable with its
///    name, and never changed. Until then it has no name, and [`create`](Storage::create) does not
///    tell whether the name is free; the first sync does.
/// 2. What is published MUST differ from what any other publisher publishes under that name. Bytes
///    that are there already are taken for the publisher's own, whose confirmation was lost.
/// 3. There is no renaming, no linking, no writing to what exists (`Invalid`), and a lock excludes
///    nothing.
/// 4. Removing what is not there may succeed.
/// 5. Uploads that have not ended are known on S3 and what speaks its language, a request for each
///    thousand. Google's and Azure's stores remove unended uploads by themselves, or by a rule of
///    the bucket.
/// 6. A request that fails in a way that may pass is made again, as its options say. Then it is
///    `Refused`, or `Undecided` where it published.
///
/// Every call blocks on the network. MUST NOT be called by an asynchronous task.
#[derive(Debug)]
pub struct ObjectBackend {
    store: Arc<Store>,
}

impl ObjectBackend {
    /// The backend of `options`. Sends no request: whether it is there shows with the first one.
    ///
    /// # Errors
    /// `Invalid`: the URL, or a setting, with what is expected.
    pub fn open(options: &ObjectOptions, runtime: &Runtime) -> Result<Self> {
        let (client, prefix) = options.store()?;
        Ok(Self::of(client, prefix, options, runtime))
    }

    /// The backend below `prefix` of `objects`, which may be any store that has conditional writes.
    /// The URL of `options` is what people are told. Uploads that have not ended cannot be asked
    /// for.
    pub fn over(
        objects: Arc<dyn ObjectStore>,
        prefix: Path,
        options: &ObjectOptions,
        runtime: &Runtime,
    ) -> Self {
        Self::of(Client::without_uploads(objects), prefix, options, runtime)
    }

    fn of(client: Client, prefix: Path, options: &ObjectOptions, runtime: &Runtime) -> Self {
        Self { store: Arc::new(Store::new(client, prefix, options, runtime)) }
    }
}

impl Storage for ObjectBackend {
    fn create(&self, name: &str) -> Result<Arc<dyn WriteFile>> {
        check_name(name)?;
        Ok(Arc::new(ObjectWriteFile::new(Arc::clone(&self.store), name)))
    }

    fn open_write(&self, name: &str) -> Result<Arc<dyn WriteFile>> {
        check_name(name)?;
        Err(cannot(name, "an object is never changed"))
    }

    fn open_read(&self, name: &str) -> Result<Arc<dyn ReadFile>> {
        check_name(name)?;
        let len = self.store.len(name)?;
        Ok(Arc::new(ObjectReadFile::new(Arc::clone(&self.store), name, len)))
    }

    fn open_read_known(&self, name: &str, bytes: u64) -> Result<Arc<dyn ReadFile>> {
        check_name(name)?;
        Ok(Arc::new(ObjectReadFile::new(Arc::clone(&self.store), name, bytes)))
    }

    fn publish(&self, name: &str, bytes: &[u8]) -> Result<()> {
        check_name(name)?;
        self.store.put(name, Bytes::copy_from_slice(bytes), "publish")
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        check_name(from)?;
        check_name(to)?;
        Err(cannot(from, "an object is never renamed"))
    }

    fn remove(&self, name: &str) -> Result<()> {
        check_name(name)?;
        let path = self.store.path(name);
        self.store
            .ask(RequestClass::Remove, 0, self.store.objects().delete(&path))
            .map_err(|error| self.store.error(name, "remove", &error))
    }

    fn list(&self) -> Result<Vec<(String, u64)>> {
        let prefix = &self.store.prefix;
        let found = self.store.objects().list(Some(prefix)).try_collect::<Vec<_>>();
        let found = self
            .store
            .ask(RequestClass::List, 0, found)
            .map_err(|error| self.store.error("", "list the objects", &error))?;
        let mut names: Vec<(String, u64)> = found
            .into_iter()
            .filter_map(|object| {
                let mut parts = object.location.prefix_match(prefix)?;
                let name = parts.next()?.as_ref().to_owned();
                (parts.next().is_none() && check_name(&name).is_ok()).then_some((name, object.size))
            })
            .collect();
        names.sort_unstable();
        Ok(names)
    }

    fn unfinished_uploads(&self) -> Result<Vec<UnfinishedUpload>> {
        let (store, prefix) = (&self.store, self.store.prefix.as_ref());
        let Some(uploads) = &store.uploads else { return Ok(Vec::new()) };
        let prefix = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
        let found = store
            .ask(RequestClass::List, 0, uploads.list(&prefix))
            .map_err(|error| of_uploads(&store.url, "", "list the unfinished uploads", &error))?;
        let own = |Listed { key, upload_id }: Listed| {
            let name = key.strip_prefix(&prefix).filter(|name| check_name(name).is_ok())?.to_owned();
            Some(UnfinishedUpload { name, id: upload_id })
        };
        Ok(found.into_iter().filter_map(own).collect())
    }

    fn abort_upload(&self, upload: &UnfinishedUpload) -> Result<()> {
        let (store, name) = (&self.store, &upload.name);
        check_name(name)?;
        let Some(uploads) = &store.uploads else {
            return Err(Error::new(ErrorKind::NotFound, name, "uploads to this store cannot be asked for"));
        };
        let path = store.path(name);
        store
            .ask(RequestClass::Remove, 0, uploads.abort(&path, &upload.id))
            .map_err(|error| of_uploads(&store.url, name, "abort an upload", &error))
    }

    fn sync_dir(&self) -> Result<()> {
        // Names are durable with what they name.
        Ok(())
    }

    fn lock(&self, _exclusive: bool) -> Result<Box<dyn StorageLock>> {
        Ok(Box::new(Unlocked))
    }

    fn link_into(&self, _names: &[String], _path: &FilePath) -> Result<Arc<dyn Storage>> {
        Err(cannot("", "objects cannot be linked into a directory"))
    }

    fn free_bytes(&self) -> Result<Option<u64>> {
        Ok(None)
    }

    fn describe(&self) -> String {
        self.store.url.clone()
    }
}

/// A lock that excludes nothing.
#[derive(Debug)]
struct Unlocked;

impl StorageLock for Unlocked {}
