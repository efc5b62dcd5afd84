//! Uploads in parts that end only where there is no object of the name.
//!
//! S3 takes `If-None-Match: *` with the request that puts parts together. The client
//! (`object_store` 0.14) sends that where it copies in parts, and has no option for it where it
//! writes. But the HTTP client that it is given sees each request on its way. A signature covers
//! the headers that it names, and not this one.

use async_trait::async_trait;
use object_store::ClientOptions;
use object_store::client::{HttpClient, HttpConnector, HttpError, HttpRequest, HttpResponse, HttpService};

/// Connects as `C` does, and has uploads end only where the name is free.
#[derive(Debug)]
pub(crate) struct Conditional<C>(pub(crate) C);

impl<C: HttpConnector> HttpConnector for Conditional<C> {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        self.0.connect(options).map(|client| HttpClient::new(ConditionalClient(client)))
    }
}

#[derive(Debug)]
struct ConditionalClient(HttpClient);

/// What a server answers that does not know what it was asked for.
const NOT_IMPLEMENTED: u16 = 501;

#[async_trait]
impl HttpService for ConditionalClient {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        if !is_completion(&request) {
            return self.0.execute(request).await;
        }
        let mut conditional = request.clone();
        if let Ok(any) = "*".parse() {
            conditional.headers_mut().insert("if-none-match", any);
        }
        match self.0.execute(conditional).await {
            // Such a store has no condition there; the look before has to do.
            Ok(answer) if answer.status().as_u16() == NOT_IMPLEMENTED => self.0.execute(request).await,
            answer => answer,
        }
    }
}

/// Whether `request` puts the parts of an upload together: `POST /BUCKET/KEY?uploadId=ID`.
fn is_completion(request: &HttpRequest) -> bool {
    let query = request.uri().query().unwrap_or_default();
    request.method().as_str() == "POST" && query.split('&').any(|pair| pair.starts_with("uploadId="))
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use object_store::client::HttpRequestBody;

    use super::*;

    /// Requests as `METHOD QUERY CONDITION`, each answered with `status`, or 200 where it has no
    /// condition.
    #[derive(Clone, Debug)]
    struct Server {
        seen: Arc<Mutex<Vec<String>>>,
        status: u16,
    }

    impl HttpConnector for Server {
        fn connect(&self, _options: &ClientOptions) -> object_store::Result<HttpClient> {
            Ok(HttpClient::new(self.clone()))
        }
    }

    #[async_trait]
    impl HttpService for Server {
        async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
            let condition = request.headers().get("if-none-match").map(|value| value.to_str().unwrap());
            let query = request.uri().query().unwrap_or_default();
            let seen = format!("{} {query} {}", request.method(), condition.unwrap_or("none"));
            self.seen.lock().unwrap().push(seen);
            let mut answer = HttpResponse::new(String::new().into());
            if condition.is_some() {
                *answer.status_mut() = self.status.try_into().unwrap();
            }
            Ok(answer)
        }
    }

    /// What a server sees, and the client, where each condition is answered with `status`.
    fn asked(status: u16, method: &str, query: &str) -> (Vec<String>, u16) {
        let server = Server { seen: Arc::default(), status };
        let client = Conditional(server.clone()).connect(&ClientOptions::new()).unwrap();
        let mut request = HttpRequest::new(HttpRequestBody::empty());
        *request.method_mut() = method.parse().unwrap();
        *request.uri_mut() = format!("http://host/bucket/key?{query}").parse().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let answer = runtime.block_on(client.execute(request)).unwrap();
        let seen = server.seen.lock().unwrap().clone();
        (seen, answer.status().as_u16())
    }

    #[test]
    fn the_end_of_an_upload_alone_has_a_condition() {
        assert_eq!(asked(412, "POST", "uploadId=7"), (vec!["POST uploadId=7 *".to_owned()], 412));
        for (method, query) in
            [("POST", "uploads"), ("PUT", "partNumber=1&uploadId=7"), ("DELETE", "uploadId=7"), ("GET", "")]
        {
            assert_eq!(asked(412, method, query), (vec![format!("{method} {query} none")], 200));
        }
    }

    #[test]
    fn a_store_that_knows_no_condition_there_is_asked_without() {
        let seen = ["POST uploadId=7 *", "POST uploadId=7 none"].map(str::to_owned).to_vec();
        assert_eq!(asked(501, "POST", "uploadId=7"), (seen, 200));
    }
}
