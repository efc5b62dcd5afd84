//! Stores that are full, which the client believes at once.
//!
//! S3's likes say so by 507. The client (`object_store` 0.14) takes that for a failure that passes,
//! and asks again for as long as it may: the writer waits for nothing. After a try that failed
//! otherwise, it is not known which of the two was refused. What a client may not do (403) it asks
//! for once, and tells from a failure before.

use async_trait::async_trait;
use object_store::ClientOptions;
use object_store::client::{HttpClient, HttpConnector, HttpError, HttpRequest, HttpResponse, HttpService};

/// Connects as `C` does. It tells each request that the store refuses as full apart, so that the
/// client does not ask again.
#[derive(Debug)]
pub(crate) struct Filling<C>(pub(crate) C);

impl<C: HttpConnector> HttpConnector for Filling<C> {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        self.0.connect(options).map(|client| HttpClient::new(FillingClient(client)))
    }
}

#[derive(Debug)]
struct FillingClient(HttpClient);

/// Insufficient Storage.
const FULL: u16 = 507;
/// What is not asked for again.
const FORBIDDEN: u16 = 403;
/// How errors tell it from what is forbidden.
pub(crate) const WORDS: &str = "507 Insufficient Storage";

#[async_trait]
impl HttpService for FillingClient {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let answer = self.0.execute(request).await?;
        if answer.status().as_u16() != FULL {
            return Ok(answer);
        }
        let said = answer.into_body().bytes().await?;
        let mut refusal = HttpResponse::new(format!("{WORDS}: {}", String::from_utf8_lossy(&said)).into());
        if let Ok(forbidden) = FORBIDDEN.try_into() {
            *refusal.status_mut() = forbidden;
        }
        Ok(refusal)
    }
}
