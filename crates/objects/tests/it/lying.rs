//! A store with answers that a test chooses.

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    Attribute, CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, UploadPart,
};

/// What a store does with one creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It is done, and there is no answer.
    DoneAndLost,
    /// It is done twice, as when a client tries again what came through: the second time the name
    /// is taken.
    DoneTwice,
    /// It is not done, and there is no answer.
    Lost,
    /// It is refused.
    Denied,
    /// Of parts: another writer's object of the name is there first, as long, and there is no
    /// answer.
    Another,
    /// Of parts: the store does not know the upload.
    Gone,
    /// Of parts: it is done twice, as when a client tries again, and reads of what is there fail.
    DoneOutOfSight,
}

/// Objects in memory, created as the next answers say.
#[derive(Debug, Default)]
pub(crate) struct Lying {
    inner: InMemory,
    answers: Mutex<VecDeque<Answer>>,
    /// Whether reads fail.
    is_unreadable: Arc<Mutex<bool>>,
}

impl Lying {
    pub(crate) fn new(answers: &[Answer]) -> Arc<Self> {
        let answers = Mutex::new(answers.iter().copied().collect());
        Arc::new(Self { answers, ..Self::default() })
    }

    pub(crate) fn answer_next(&self, answer: Answer) {
        self.answers.lock().unwrap().push_back(answer);
    }

    pub(crate) fn set_unreadable(&self, is_unreadable: bool) {
        *self.is_unreadable.lock().unwrap() = is_unreadable;
    }
}

/// Parts that are put together as the answer says.
#[derive(Debug)]
struct LyingUpload {
    inner: Box<dyn MultipartUpload>,
    /// Another writer's.
    other: Box<dyn MultipartUpload>,
    answer: Option<Answer>,
    is_unreadable: Arc<Mutex<bool>>,
}

#[async_trait]
impl MultipartUpload for LyingUpload {
    fn put_part(&mut self, part: PutPayload) -> UploadPart {
        let (inner, other) = (self.inner.put_part(part.clone()), self.other.put_part(part));
        Box::pin(async move {
            other.await?;
            inner.await
        })
    }

    async fn complete(&mut self) -> Result<PutResult> {
        match self.answer {
            None => self.inner.complete().await,
            Some(Answer::DoneAndLost) => {
                self.inner.complete().await?;
                Err(lost())
            }
            Some(Answer::Another) => {
                self.other.complete().await?;
                Err(lost())
            }
            Some(Answer::DoneOutOfSight) => {
                self.inner.complete().await?;
                *self.is_unreadable.lock().unwrap() = true;
                Err(Error::Precondition { path: String::new(), source: "the name is taken".into() })
            }
            Some(Answer::Gone) => {
                Err(Error::NotFound { path: String::new(), source: "no such upload".into() })
            }
            Some(_) => Err(lost()),
        }
    }

    async fn abort(&mut self) -> Result<()> {
        self.inner.abort().await
    }
}

fn lost() -> Error {
    Error::Generic { store: "lying", source: "the connection broke".into() }
}

impl fmt::Display for Lying {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("lying")
    }
}

#[async_trait]
impl ObjectStore for Lying {
    async fn put_opts(&self, path: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        let answer = self.answers.lock().unwrap().pop_front();
        match answer {
            None => self.inner.put_opts(path, payload, options).await,
            Some(Answer::DoneAndLost) => {
                self.inner.put_opts(path, payload, options).await?;
                Err(lost())
            }
            Some(Answer::DoneTwice) => {
                self.inner.put_opts(path, payload.clone(), options.clone()).await?;
                self.inner.put_opts(path, payload, options).await
            }
            Some(Answer::Denied) => {
                Err(Error::PermissionDenied { path: path.to_string(), source: "no".into() })
            }
            Some(_) => Err(lost()),
        }
    }

    async fn put_multipart_opts(
        &self,
        path: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let inner = self.inner.put_multipart_opts(path, options).await?;
        let mut others = PutMultipartOptions::default();
        others.attributes.insert(Attribute::Metadata("firnowner".into()), "another".into());
        let other = self.inner.put_multipart_opts(path, others).await?;
        let answer = self.answers.lock().unwrap().pop_front();
        let is_unreadable = Arc::clone(&self.is_unreadable);
        Ok(Box::new(LyingUpload { inner, other, answer, is_unreadable }))
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        let is_unreadable = *self.is_unreadable.lock().unwrap();
        if is_unreadable { Err(lost()) } else { self.inner.get_opts(path, options).await }
    }

    async fn get_ranges(&self, path: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.inner.get_ranges(path, ranges).await
    }

    fn delete_stream(&self, paths: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(paths)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}
