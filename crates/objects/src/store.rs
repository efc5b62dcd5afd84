//! Requests for the objects below one prefix: what files and directory have in common.

use std::borrow::Cow;
use std::collections::hash_map::RandomState;
use std::future::Future;
use std::hash::BuildHasher;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use firn_storage::backend::{RequestClass, Throttle};
use firn_storage::{Error, ErrorKind, Result};
use object_store::path::Path;
use object_store::{
    Attribute, GetOptions, MultipartUpload, ObjectStore, ObjectStoreExt, PutMode, PutMultipartOptions,
    PutOptions,
};

use crate::error::{from_store, is_beyond_end, is_refusal};
use crate::options::{Client, ObjectOptions};
use crate::runtime::Runtime;
use crate::uploads::Uploads;

/// What files and directory have in common.
#[derive(Debug)]
pub(crate) struct Store {
    objects: Arc<dyn ObjectStore>,
    pub(crate) uploads: Option<Uploads>,
    pub(crate) prefix: Path,
    pub(crate) url: String,
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
    /// What `client` has below `prefix`, asked as `options` say.
    pub(crate) fn new(client: Client, prefix: Path, options: &ObjectOptions, runtime: &Runtime) -> Self {
        Self {
            objects: client.objects,
            uploads: client.uploads,
            prefix,
            url: options.url.clone(),
            throttle: options.throttle.clone(),
            runtime: runtime.clone(),
            part_bytes: options.part_bytes.max(1),
            owners: Owners::default(),
        }
    }

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

pub(crate) fn cannot(name: &str, why: &str) -> Error {
    Error::new(ErrorKind::Invalid, name, why)
}
