//! Uploads in parts that have begun and not ended.
//!
//! The client (`object_store` 0.14) begins, ends and aborts uploads, and has no call that lists
//! them. But it signs any request with its credentials, and tells the address of its bucket. A list
//! is one more request of the same kind, over a connection that is made as its own are. S3 alone
//! has it: Google's and Azure's stores remove unended uploads by rules.

use std::time::Duration;

use object_store::aws::{AmazonS3, AwsAuthorizer};
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody, ReqwestConnector,
};
use object_store::multipart::MultipartStore;
use object_store::path::Path;
use object_store::signer::Signer;
use object_store::{ClientOptions, Error, Result};
use serde::Deserialize;
use url::form_urlencoded::byte_serialize;

/// Lists and aborts uploads to one bucket.
#[derive(Debug)]
pub(crate) struct Uploads {
    s3: AmazonS3,
    client: ClientOptions,
    tries_max: usize,
}

/// An upload as a bucket knows it.
#[derive(Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Listed {
    pub(crate) key: String,
    pub(crate) upload_id: String,
}

/// A part of a list. A bucket that ends it before all was said says where to go on.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Page {
    #[serde(default)]
    is_truncated: bool,
    #[serde(default)]
    next_key_marker: String,
    #[serde(default)]
    next_upload_id_marker: String,
    #[serde(default, rename = "Upload")]
    uploads: Vec<Listed>,
}

/// A page is asked for so often while it fails in a way that may pass at once. What is left then is
/// found by the next list.
const TRIES_MAX: usize = 3;

/// The first pause between two tries; each further one is four times as long.
const PAUSE: Duration = Duration::from_millis(100);

/// A list ends after so many pages, of a thousand uploads each: what is beyond is found once these
/// are gone.
const PAGES_MAX: usize = 100;

impl Uploads {
    /// Those to the bucket of `s3`, over connections as `client` says; what fails is asked for
    /// again `retries_max` times at most.
    pub(crate) fn new(s3: AmazonS3, client: ClientOptions, retries_max: usize) -> Self {
        Self { s3, client, tries_max: retries_max.saturating_add(1).min(TRIES_MAX) }
    }

    /// Uploads of keys that begin with `prefix` and have no `/` after it; a request for each
    /// thousand.
    ///
    /// # Errors
    /// `PermissionDenied`; `NotSupported`: the store does not know the request, or answers it as no
    /// other does. Others may pass.
    pub(crate) async fn list(&self, prefix: &str) -> Result<Vec<Listed>> {
        let client = ReqwestConnector::default().connect(&self.client)?;
        let mut found = Vec::new();
        let mut after = (String::new(), String::new());
        for _ in 0..PAGES_MAX {
            let page = self.page(&client, &query(prefix, &after)).await?;
            found.extend(page.uploads);
            let next = (page.next_key_marker, page.next_upload_id_marker);
            if !page.is_truncated {
                break;
            }
            if next == after {
                return Err(not_understood("it says that there is more, and not where"));
            }
            after = next;
        }
        Ok(found)
    }

    async fn page(&self, client: &HttpClient, query: &str) -> Result<Page> {
        let mut pause = PAUSE;
        for _ in 1..self.tries_max {
            match ask(client, self.signed(query).await?).await {
                Ok(answer) => return read(&answer),
                Err(Failure { error, is_brief: false }) => return Err(error),
                Err(Failure { is_brief: true, .. }) => {}
            }
            tokio::time::sleep(pause).await;
            pause *= 4;
        }
        let answer = ask(client, self.signed(query).await?).await.map_err(|failure| failure.error)?;
        read(&answer)
    }

    /// Has the store forget the upload `id` of `path`; `NotFound` if there is none.
    pub(crate) async fn abort(&self, path: &Path, id: &str) -> Result<()> {
        self.s3.abort_multipart(path, &id.to_owned()).await
    }

    /// A request of the bucket with `query`, in the form and for the region that the client uses.
    async fn signed(&self, query: &str) -> Result<HttpRequest> {
        let mut request = HttpRequest::new(HttpRequestBody::empty());
        let method = request.method().clone();
        let mut url = self.s3.signed_url(method, &Path::default(), Duration::from_secs(60)).await?;
        let said =
            |name: &str| url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned());
        // KEY/DATE/REGION/s3/aws4_request
        let scope = said("X-Amz-Credential").unwrap_or_default();
        let region = scope.rsplit('/').nth(2).unwrap_or_default().to_owned();
        let is_payer = said("x-amz-request-payer").is_some();
        let path = url.path().trim_end_matches('/').to_owned();
        url.set_path(&path);
        url.set_query(Some(query));
        *request.uri_mut() = url.as_str().parse().map_err(|error| failed(format!("{url}: {error}")))?;
        let credential = self.s3.credentials().get_credential().await?;
        let signer = AwsAuthorizer::new(&credential, "s3", &region).with_request_payer(is_payer);
        signer.try_authorize(&mut request, None)?;
        Ok(request)
    }
}

/// Which uploads are asked for: of keys that begin with `prefix`, behind the key and the id
/// `after`, if they are not empty.
fn query(prefix: &str, after: &(String, String)) -> String {
    let mut query = "uploads=&delimiter=%2F".to_owned();
    let pairs = [("prefix", prefix), ("key-marker", &after.0), ("upload-id-marker", &after.1)];
    for (name, value) in pairs.iter().filter(|(_, value)| !value.is_empty()) {
        // Signatures have spaces as `%20`.
        let value = byte_serialize(value.as_bytes()).collect::<String>().replace('+', "%20");
        query.push_str(&format!("&{name}={value}"));
    }
    query
}

/// Why a request came to nothing.
struct Failure {
    error: Error,
    /// Whether it may pass at once: a request that has taken its time is not made again.
    is_brief: bool,
}

/// What `request` is answered with.
async fn ask(client: &HttpClient, request: HttpRequest) -> std::result::Result<Vec<u8>, Failure> {
    let answered = async {
        let answer = client.execute(request).await?;
        let status = answer.status();
        Ok((status, answer.into_body().bytes().await?))
    };
    let (status, body) = answered.await.map_err(|error: HttpError| Failure {
        is_brief: error.kind() != HttpErrorKind::Timeout,
        error: failed(error),
    })?;
    if status.is_success() {
        return Ok(body.to_vec());
    }
    let said = format!("{status}: {}", String::from_utf8_lossy(&body));
    let is_brief =
        status.is_server_error() && status.as_u16() != NOT_IMPLEMENTED || PASSING.contains(&status.as_u16());
    let may_pass = is_brief || PASSING_CODES.iter().any(|code| said.contains(code));
    let error = match status.as_u16() {
        _ if may_pass => failed(said),
        401 | 403 => Error::PermissionDenied { path: "?uploads".to_owned(), source: said.into() },
        _ => not_understood(said),
    };
    Err(Failure { error, is_brief })
}

const NOT_IMPLEMENTED: u16 = 501;

/// A request that took too long, a conflicting one, one too many.
const PASSING: [u16; 3] = [408, 409, 429];

/// What else passes: a store that has just started may lack its buckets, credentials are renewed,
/// clocks are set.
const PASSING_CODES: [&str; 4] = ["NoSuchBucket", "RequestTimeout", "ExpiredToken", "RequestTimeTooSkewed"];

fn read(answer: &[u8]) -> Result<Page> {
    quick_xml::de::from_reader(answer).map_err(not_understood)
}

fn failed(why: impl Into<BoxError>) -> Error {
    Error::Generic { store: "S3", source: why.into() }
}

fn not_understood(why: impl Into<BoxError>) -> Error {
    Error::NotSupported { source: why.into() }
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

#[cfg(test)]
mod tests {
    use object_store::aws::AmazonS3Builder;

    use super::*;

    fn uploads(settings: impl Fn(AmazonS3Builder) -> AmazonS3Builder) -> Uploads {
        let builder = AmazonS3Builder::new().with_bucket_name("b").with_region("here");
        let builder = settings(builder.with_access_key_id("a/b").with_secret_access_key("hidden"));
        Uploads::new(builder.build().unwrap(), ClientOptions::new(), 0)
    }

    #[test]
    fn requests_go_where_the_client_has_its_bucket_and_are_signed_for_its_region() {
        let _installed = rustls::crypto::ring::default_provider().install_default();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let query = query("a b/", &("a b/1.table".to_owned(), "x+y=".to_owned()));
        assert_eq!(
            query,
            "uploads=&delimiter=%2F&prefix=a%20b%2F&key-marker=a%20b%2F1.table&upload-id-marker=x%2By%3D"
        );
        let hosted = |builder: AmazonS3Builder| {
            builder.with_virtual_hosted_style_request(true).with_endpoint("https://b.host/")
        };
        let named = |builder: AmazonS3Builder| builder.with_endpoint("https://host:9000").with_token("token");
        for (uploads, address) in [
            (uploads(|builder| builder), "https://s3.here.amazonaws.com/b"),
            (uploads(named), "https://host:9000/b"),
            (uploads(hosted), "https://b.host/"),
        ] {
            let request = runtime.block_on(uploads.signed(&query)).unwrap();
            assert_eq!(request.uri().to_string(), format!("{address}?{query}"));
            let header = |name: &str| request.headers().get(name).map(|value| value.to_str().unwrap());
            let signed = header("authorization").unwrap();
            assert!(
                signed.contains("Credential=a/b/") && signed.contains("/here/s3/aws4_request"),
                "{signed}"
            );
            assert_eq!(header("x-amz-security-token").is_some(), address.contains("9000"));
        }
    }

    #[test]
    fn answers_are_read_by_the_names_of_what_they_have() {
        let upload = |key: &str, id: &str| {
            format!(
                "<Upload><Key>{key}</Key><UploadId>{id}</UploadId><Initiator><ID>1</ID></Initiator></Upload>"
            )
        };
        let (one, other) = (upload("a/1", "x&amp;y"), upload("a/1", "z"));
        let page = |inside: &str| {
            let name = "ListMultipartUploadsResult";
            read(format!("<?xml version=\"1.0\"?><{name} xmlns=\"s3\">{inside}</{name}>").as_bytes()).unwrap()
        };
        let markers = "<NextKeyMarker>a/1</NextKeyMarker><NextUploadIdMarker>z</NextUploadIdMarker>";
        let some = page(&format!(
            "<Bucket>b</Bucket><KeyMarker/>{markers}<IsTruncated>true</IsTruncated>{one}{other}"
        ));
        let listed = |id: &str| Listed { key: "a/1".to_owned(), upload_id: id.to_owned() };
        assert_eq!(some.uploads, [listed("x&y"), listed("z")]);
        assert!(some.is_truncated && some.next_key_marker == "a/1" && some.next_upload_id_marker == "z");
        let none =
            page("<NextKeyMarker></NextKeyMarker><NextUploadIdMarker/><IsTruncated>false</IsTruncated>");
        assert!(none.uploads.is_empty() && !none.is_truncated);
        assert!(matches!(read(b"all is well"), Err(Error::NotSupported { .. })));
    }
}
