//! Requests about uploads that `s3s-fs` does not answer as S3 does.

use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use hyper::http::Extensions;
use hyper::{HeaderMap, Method, StatusCode, Uri};
use s3s::route::S3Route;
use s3s::{Body, S3Request, S3Response, S3Result, s3_error};

use crate::address::{is_of_bucket, value};
use crate::faults::Plan;
use crate::uploads::Upload;

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
    use crate::uploads::Uploads;

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
}
