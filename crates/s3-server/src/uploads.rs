//! Uploads in parts that have begun and not ended.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use hyper::http::Extensions;
use hyper::{HeaderMap, Method, StatusCode, Uri};
use s3s::route::S3Route;
use s3s::{Body, S3Request, S3Response, S3Result, s3_error};

use crate::faults::Plan;
use crate::grants::decoded;

/// An upload that has begun, and is neither an object nor given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upload {
    /// Its name for the server.
    pub id: String,
    /// The object that it is to become, as `BUCKET/KEY`.
    pub key: String,
    /// Parts that have come; a part that came twice counts twice. 0: perhaps its client does not
    /// know of it.
    pub parts: u64,
}

/// What a request does with an upload, named by its id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Begin,
    Part(String),
    Complete(String),
    Abort(String),
}

impl Step {
    /// Of a request with `method` for `uri`; `None` if it is about no upload.
    pub(crate) fn of(method: &Method, uri: &Uri) -> Option<Self> {
        let query = uri.query().unwrap_or_default();
        let id = query.split('&').find_map(|pair| pair.strip_prefix("uploadId=")).map(str::to_owned);
        match *method {
            Method::POST if query.split('&').any(|pair| pair.trim_end_matches('=') == "uploads") => {
                Some(Self::Begin)
            }
            Method::POST => id.map(Self::Complete),
            Method::PUT => id.map(Self::Part),
            Method::DELETE => id.map(Self::Abort),
            _ => None,
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Uploads {
    /// By id.
    unfinished: BTreeMap<String, Upload>,
    /// What uploads that have ended well became, as `BUCKET/KEY`.
    completed: BTreeSet<String>,
}

impl Uploads {
    /// An upload of `key` has begun, and is called `id`.
    pub(crate) fn begin(&mut self, key: &str, id: &str) {
        let upload = Upload { id: id.to_owned(), key: key.to_owned(), parts: 0 };
        self.unfinished.insert(id.to_owned(), upload);
    }

    /// `step` was taken with parts of `key`.
    pub(crate) fn note(&mut self, key: &str, step: &Step) {
        match step {
            Step::Begin => {}
            Step::Part(id) => {
                // The beginning of an upload may have been seen by an earlier server.
                let new = || Upload { id: id.clone(), key: key.to_owned(), parts: 0 };
                self.unfinished.entry(id.clone()).or_insert_with(new).parts += 1;
            }
            Step::Complete(id) => {
                self.unfinished.remove(id);
                self.completed.insert(key.to_owned());
            }
            Step::Abort(id) => drop(self.unfinished.remove(id)),
        }
    }

    pub(crate) fn unfinished(&self) -> Vec<Upload> {
        self.unfinished.values().cloned().collect()
    }

    pub(crate) fn completed(&self) -> BTreeSet<String> {
        self.completed.clone()
    }
}

/// The id that `answer` gives to an upload that has begun.
pub(crate) fn id_of(answer: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(answer).ok()?;
    text.split("<UploadId>").nth(1)?.split("</UploadId>").next().map(str::to_owned)
}

/// Answers what `s3s-fs` does otherwise than S3: it lists no uploads, and lets only the user that
/// began an upload abort it, whatever the grants.
pub(crate) struct UploadRoute {
    pub(crate) plan: Arc<Plan>,
    /// Where `s3s-fs` keeps what it knows of uploads, in files that have their ids in their names.
    pub(crate) directory: PathBuf,
    pub(crate) page_max: usize,
}

#[async_trait]
impl S3Route for UploadRoute {
    fn is_match(
        &self,
        method: &Method,
        uri: &Uri,
        _headers: &HeaderMap,
        _extensions: &mut Extensions,
    ) -> bool {
        match *method {
            Method::GET => is_of_bucket(uri) && value(uri, "uploads").is_some(),
            Method::DELETE => value(uri, "uploadId").is_some(),
            _ => false,
        }
    }

    async fn call(&self, request: S3Request<Body>) -> S3Result<S3Response<Body>> {
        if let Some(id) = value(&request.uri, "uploadId") {
            return match forget(&self.directory, &id) {
                Ok(true) => Ok(S3Response::with_status(Body::empty(), StatusCode::NO_CONTENT)),
                Ok(false) => Err(s3_error!(NoSuchUpload)),
                Err(error) => Err(s3_error!(InternalError, "{error}")),
            };
        }
        let page = page(self.plan.unfinished_uploads(), &request.uri, self.page_max);
        Ok(S3Response::new(Body::from(page)))
    }
}

/// Removes what `directory` has of the upload `id`; whether there was anything.
fn forget(directory: &Path, id: &str) -> io::Result<bool> {
    let mut is_any = false;
    for file in std::fs::read_dir(directory)? {
        let file = file?;
        if id.len() >= ID_LEN && file.file_name().to_string_lossy().contains(id) {
            std::fs::remove_file(file.path())?;
            is_any = true;
        }
    }
    Ok(is_any)
}

/// Of a UUID as text.
const ID_LEN: usize = 36;

pub(crate) fn is_of_bucket(uri: &Uri) -> bool {
    uri.path().trim_matches('/').split('/').nth(1).is_none()
}

/// What the query of `uri` has under `name`.
fn value(uri: &Uri, name: &str) -> Option<String> {
    let mut pairs =
        uri.query().unwrap_or_default().split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    pairs.find(|(key, _)| *key == name).map(|(_, value)| decoded(value))
}

/// The first `page_max` of `uploads` that the query of `uri` asks for: of its bucket and of keys
/// with its prefix, behind its markers. Keys have no sign that XML or an address would have to
/// write otherwise.
fn page(uploads: Vec<Upload>, uri: &Uri, page_max: usize) -> String {
    let said = |name: &str| value(uri, name).unwrap_or_default();
    let bucket = format!("{}/", uri.path().trim_matches('/'));
    let (prefix, after) = (said("prefix"), (said("key-marker"), said("upload-id-marker")));
    let is_deep = said("delimiter").is_empty();
    let mut asked: Vec<(String, String)> = uploads
        .into_iter()
        .filter_map(|upload| Some((upload.key.strip_prefix(&bucket)?.to_owned(), upload.id)))
        .filter(|(key, _)| key.strip_prefix(&prefix).is_some_and(|rest| is_deep || !rest.contains('/')))
        .filter(|upload| *upload > after && (upload.0 != after.0 || !after.1.is_empty()))
        .collect();
    asked.sort_unstable();
    let is_truncated = asked.len() > page_max;
    asked.truncate(page_max);
    let mut text = format!("<IsTruncated>{is_truncated}</IsTruncated>");
    if let Some((key, id)) = asked.last().filter(|_| is_truncated) {
        let markers =
            format!("<NextKeyMarker>{key}</NextKeyMarker><NextUploadIdMarker>{id}</NextUploadIdMarker>");
        text.push_str(&markers);
    }
    for (key, id) in asked {
        // A text takes whatever is written to it.
        let _ = write!(text, "<Upload><Key>{key}</Key><UploadId>{id}</UploadId></Upload>");
    }
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?><ListMultipartUploadsResult>{text}</ListMultipartUploadsResult>"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_have_the_uploads_of_a_prefix_in_pages() {
        let mut uploads = Uploads::default();
        for (key, id) in [("b/p/x", "2"), ("b/p/x", "1"), ("b/p/y", "0"), ("b/q/x", "3"), ("c/p/x", "4")] {
            uploads.begin(key, id);
        }
        let ids = |query: &str, page_max: usize| {
            let uri = format!("/b?uploads=&{query}").parse().expect("an address");
            let page = page(uploads.unfinished(), &uri, page_max);
            let ids = page.split("<UploadId>").skip(1).filter_map(|rest| rest.split('<').next());
            (ids.collect::<String>(), page.contains("<IsTruncated>true"))
        };
        assert_eq!(ids("", 9), ("1203".to_owned(), false));
        assert_eq!(ids("prefix=p%2F", 9), ("120".to_owned(), false));
        assert_eq!(ids("prefix=p%2F", 2), ("12".to_owned(), true));
        assert_eq!(ids("prefix=p%2F&key-marker=p%2Fx&upload-id-marker=1", 9), ("20".to_owned(), false));
        assert_eq!(ids("prefix=p%2F&key-marker=p%2Fx", 9), ("0".to_owned(), false));
        assert_eq!(ids("prefix=&delimiter=%2F", 9), (String::new(), false));
        assert_eq!(ids("prefix=p%2F&delimiter=%2F", 9), ("120".to_owned(), false));
    }

    #[test]
    fn uploads_are_known_from_their_beginning_to_their_end() {
        let step = |method: Method, uri: &str| Step::of(&method, &uri.parse().expect("an address"));
        let part = step(Method::PUT, "/b/p/x?partNumber=1&uploadId=u");
        assert_eq!(part, Some(Step::Part("u".to_owned())));
        assert_eq!(step(Method::POST, "/b/p/x?uploads="), Some(Step::Begin));
        for (method, uri) in [(Method::PUT, "/b/p/x"), (Method::POST, "/b?delete"), (Method::GET, "/b/p/x")] {
            assert_eq!(step(method, uri), None);
        }
        for (end, becomes) in [(Method::POST, Some("b/p/x".to_owned())), (Method::DELETE, None)] {
            let mut uploads = Uploads::default();
            let id = id_of(b"<X><Key>p/x</Key><UploadId>u</UploadId></X>").expect("it has one");
            uploads.begin("b/p/x", &id);
            assert_eq!(uploads.unfinished().len(), 1);
            (0..2).for_each(|_| uploads.note("b/p/x", &Step::Part("u".to_owned())));
            let known = Upload { id: "u".to_owned(), key: "b/p/x".to_owned(), parts: 2 };
            assert_eq!(uploads.unfinished(), [known]);
            uploads.note("b/p/x", &step(end, "/b/p/x?uploadId=u").expect("an end"));
            assert_eq!(uploads.unfinished(), []);
            assert_eq!(uploads.completed(), becomes.into_iter().collect());
        }
    }
}
