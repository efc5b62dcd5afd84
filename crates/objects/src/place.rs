//! The directory: names below one prefix of a bucket.

use std::borrow::Cow;
use std::collections::hash_map::RandomState;
use std::future::Future;
use std::hash::BuildHasher;
use std::ops::Range;
use std::path::Path as FilePath;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use firn_storage::place::{RequestClass, Throttle, UnfinishedUpload, check_name};
use firn_storage::{Error, ErrorKind, ReadFile, Result, Storage, StorageLock, WriteFile};
use futures_util::TryStreamExt;
use object_store::path::Path;
use object_store::{
    Attribute, GetOptions, MultipartUpload, ObjectStore, ObjectStoreExt, PutMode, PutMultipartOptions,
    PutOptions,
};

use crate::error::{from_store, is_beyond_end, is_refusal, of_uploads};
use crate::options::{Client, ObjectOptions};
use crate::read::ObjectReadFile;
use crate::runtime::Runtime;
use crate::uploads::{Listed, Uploads};
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
pub struct ObjectPlace {
    store: Arc<Store>,
}

/// What files and directory have in common.
#[derive(Debug)]
pub(crate) struct Store {
    objects: Arc<dyn ObjectStore>,
    uploads: Option<Uploads>,
    prefix: Path,
    url: String,
    throttle: Option<Arc<Throttle>>,
    pub(crate) runtime: Runtime,
    pub(crate) part_bytes: usize,
    owners: Owners,
}

/// Marks that name the owner of what is written in parts: no two writers have the same, wherever
/// they are.
#[derive(Debug, Default)]
struct Owners {
    /// Drawn for this handle.
    random: [RandomState; 2],
    given: AtomicU64,
}

impl Owners {
    fn next(&self) -> String {
        let number = self.given.fetch_add(1, Ordering::Relaxed);
        let [high, low] = self.random.each_ref().map(|random| random.hash_one(number));
        format!("{high:016x}{low:016x}")
    }
}

/// Where an object has the mark of its owner. Azure takes no signs but letters and digits in such a
/// name.
const OWNER: Attribute = Attribute::Metadata(Cow::Borrowed("firnowner"));

/// An object, as far as a request tells that asks for no bytes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) bytes: u64,
    /// The mark of the writer that wrote it in parts.
    pub(crate) owner: Option<String>,
}

impl ObjectPlace {
    /// The place of `options`. Sends no request: whether it is there shows with the first one.
    ///
    /// # Errors
    /// `Invalid`: the URL, or a setting, with what is expected.
    pub fn open(options: &ObjectOptions, runtime: &Runtime) -> Result<Self> {
        let (client, prefix) = options.store()?;
        Ok(Self::of(client, prefix, options, runtime))
    }

    /// The place below `prefix` of `objects`, which may be any store that has conditional writes.
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
        let store = Store {
            objects: client.objects,
            uploads: client.uploads,
            prefix,
            url: options.url.clone(),
            throttle: options.throttle.clone(),
            runtime: runtime.clone(),
            part_bytes: options.part_bytes.max(1),
            owners: Owners::default(),
        };
        Self { store: Arc::new(store) }
    }
}

impl Storage for ObjectPlace {
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
            .ask(RequestClass::Remove, 0, self.store.objects.delete(&path))
            .map_err(|error| self.store.error(name, "remove", &error))
    }

    fn list(&self) -> Result<Vec<(String, u64)>> {
        let prefix = &self.store.prefix;
        let found = self.store.objects.list(Some(prefix)).try_collect::<Vec<_>>();
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

pub(crate) fn cannot(name: &str, why: &str) -> Error {
    Error::new(ErrorKind::Invalid, name, why)
}

/// A range of an object.
#[derive(Debug)]
pub(crate) struct Fetched {
    pub(crate) bytes: Bytes,
    /// How long the whole object is.
    pub(crate) object_bytes: u64,
}

/// Asks for `range` of the object at `path`.
pub(crate) async fn fetch(
    objects: Arc<dyn ObjectStore>,
    path: Path,
    range: Range<u64>,
) -> object_store::Result<Fetched> {
    let options = GetOptions { range: Some(range.into()), ..GetOptions::default() };
    let answer = objects.get_opts(&path, options).await?;
    let object_bytes = answer.meta.size;
    Ok(Fetched { bytes: answer.bytes().await?, object_bytes })
}

impl Store {
    pub(crate) fn path(&self, name: &str) -> Path {
        self.prefix.clone().join(name)
    }

    pub(crate) fn objects(&self) -> &Arc<dyn ObjectStore> {
        &self.objects
    }

    /// Waits until a request of `class` that moves `bytes` may be made.
    pub(crate) fn pass(&self, class: RequestClass, bytes: u64) {
        if let Some(throttle) = &self.throttle {
            throttle.pass(class, bytes);
        }
    }

    /// Makes the request, of `class`, that moves `bytes`.
    pub(crate) fn ask<T>(
        &self,
        class: RequestClass,
        bytes: u64,
        request: impl Future<Output = object_store::Result<T>>,
    ) -> object_store::Result<T> {
        self.pass(class, bytes);
        self.runtime.wait(request)
    }

    pub(crate) fn error(&self, name: &str, action: &str, error: &object_store::Error) -> Error {
        from_store(&self.url, name, action, error)
    }

    /// The object's length; `NotFound`.
    pub(crate) fn len(&self, name: &str) -> Result<u64> {
        let path = self.path(name);
        match self.ask(RequestClass::Read, 0, self.objects.head(&path)) {
            Ok(meta) => Ok(meta.size),
            // Answers to this request have no body, which would say whether the object or its
            // bucket is missing.
            Err(object_store::Error::NotFound { .. }) => {
                let got = self.ask(RequestClass::Read, 0, self.objects.get(&path));
                got.map(|got| got.meta.size).map_err(|error| self.error(name, "open", &error))
            }
            Err(error) => Err(self.error(name, "open", &error)),
        }
    }

    /// Begins to write the object in parts; with the mark that it will have.
    pub(crate) fn begin_parts(&self, name: &str) -> object_store::Result<(Box<dyn MultipartUpload>, String)> {
        let owner = self.owners.next();
        let mut options = PutMultipartOptions::default();
        options.attributes.insert(OWNER, owner.clone().into());
        let path = self.path(name);
        let parts = self.ask(RequestClass::Write, 0, self.objects.put_multipart_opts(&path, options))?;
        Ok((parts, owner))
    }

    /// What there is of the name.
    pub(crate) fn look(&self, name: &str) -> object_store::Result<Seen> {
        let path = self.path(name);
        let options = GetOptions { head: true, ..GetOptions::default() };
        let found = self.ask(RequestClass::Read, 0, self.objects.get_opts(&path, options))?;
        let owner = found.attributes.get(&OWNER).map(|owner| owner.as_ref().to_owned());
        Ok(Seen { bytes: found.meta.size, owner })
    }

    /// Whether there is such an object, as far as this user may know. S3 calls a missing object
    /// denied to a user that may read but not list.
    pub(crate) fn is_there(&self, name: &str) -> Result<bool> {
        let path = self.path(name);
        match self.ask(RequestClass::Read, 0, self.objects.head(&path)) {
            Ok(_) => Ok(true),
            Err(object_store::Error::NotFound { .. } | object_store::Error::PermissionDenied { .. }) => {
                Ok(false)
            }
            Err(error) => Err(self.error(name, "open", &error)),
        }
    }

    /// Bytes `range` of the object, which has `len` bytes.
    ///
    /// # Errors
    /// `Corrupt` if it has more or fewer, which every answer says; `NotFound`; what the store says.
    pub(crate) fn read(&self, name: &str, range: Range<u64>, len: u64) -> Result<Bytes> {
        let bytes = range.end - range.start;
        let request = fetch(Arc::clone(&self.objects), self.path(name), range);
        match self.ask(RequestClass::Read, bytes, request) {
            Ok(Fetched { object_bytes, .. }) if object_bytes != len => {
                Err(Error::wrong_length(name, len, object_bytes))
            }
            Ok(Fetched { bytes, .. }) => Ok(bytes),
            // The object ends before the range, which the store does not say in numbers.
            Err(error) if is_beyond_end(&error) => match self.len(name) {
                Ok(found) if found != len => Err(Error::wrong_length(name, len, found)),
                Ok(_) => Err(self.error(name, "read", &error)),
                Err(error) => Err(error),
            },
            Err(error) => Err(self.error(name, "read", &error)),
        }
    }

    /// Creates the object, whole, if there is none of the name or it has these very bytes.
    ///
    /// # Errors
    /// `Exists`; `Undecided` where neither the store's answer nor a look tells.
    pub(crate) fn put(&self, name: &str, bytes: Bytes, action: &str) -> Result<()> {
        let path = self.path(name);
        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        let request = self.objects.put_opts(&path, bytes.clone().into(), options);
        match self.ask(RequestClass::Write, bytes.len() as u64, request) {
            Ok(_) => Ok(()),
            Err(error) if is_refusal(&error) => Err(self.error(name, action, &error)),
            Err(error) => self.settle(name, &bytes, self.error(name, action, &error)),
        }
    }

    /// What became of a creation that the store answered with `error`. That may be about a second
    /// try whose first one came through.
    fn settle(&self, name: &str, bytes: &[u8], error: Error) -> Result<()> {
        match self.read_all(name) {
            Ok(found) if found == bytes => Ok(()),
            Ok(_) => Err(Error::new(ErrorKind::Exists, name, error.message)),
            Err(look) => {
                let message =
                    format!("{}; and it is not known whether that was done ({look})", error.message);
                Err(Error::new(ErrorKind::Undecided, name, message))
            }
        }
    }

    fn read_all(&self, name: &str) -> Result<Bytes> {
        let path = self.path(name);
        let request = async { self.objects.get(&path).await?.bytes().await };
        self.ask(RequestClass::Read, 0, request).map_err(|error| self.error(name, "read", &error))
    }
}
