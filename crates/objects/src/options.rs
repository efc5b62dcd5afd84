//! Where objects are, and how they are asked for.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use firn_storage::backend::Throttle;
use firn_storage::{Error, ErrorKind, Result};
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::client::ReqwestConnector;
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::path::Path;
use object_store::{
    BackoffConfig, ClientConfigKey, ClientOptions, ObjectStore, ObjectStoreScheme, RetryConfig,
};
use url::Url;

use crate::condition::Conditional;
use crate::full::Filling;
use crate::uploads::Uploads;

/// Bytes of one part of a large object, by default.
pub const PART_BYTES: usize = 8 << 20;

/// What [`ObjectBackend::open`](crate::ObjectBackend::open) is told.
#[derive(Clone)]
pub struct ObjectOptions {
    /// `s3://BUCKET/PREFIX`, `gs://BUCKET/PREFIX` or `az://CONTAINER/PREFIX`.
    pub url: String,
    /// Endpoint, region, credentials: by the names that the stores' own tools read from the
    /// environment, in either case (`AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT`, `GOOGLE_SERVICE_ACCOUNT`,
    /// `AZURE_STORAGE_ACCOUNT_NAME`, ...). Names that the store does not know are left out.
    pub settings: BTreeMap<String, String>,
    /// How long one request may take. Default 30 s.
    pub request_timeout: Duration,
    /// How long a request that fails in a way that may pass is tried again. Pauses grow to 5 s at
    /// most, and differ. Default 20 s.
    pub retry_timeout: Duration,
    /// How often such a request is tried again at most. Default 200, which only a limit of many
    /// minutes meets: pauses may stay short for a while.
    pub retries_max: usize,
    /// How often the store is asked. Default: as often as there is something to ask.
    pub throttle: Option<Arc<Throttle>>,
    /// Bytes of one part of a large object, and below which an object is written in one request; S3
    /// wants at least 5 MiB. Default [`PART_BYTES`].
    pub part_bytes: usize,
}

impl ObjectOptions {
    /// Defaults for what is at `url`.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            settings: BTreeMap::new(),
            request_timeout: Duration::from_secs(30),
            retry_timeout: Duration::from_secs(20),
            retries_max: 200,
            throttle: None,
            part_bytes: PART_BYTES,
        }
    }

    /// The store, and what the names of this backend's objects begin with.
    pub(crate) fn store(&self) -> Result<(Client, Path)> {
        let wrong = |why: String| Error::new(ErrorKind::Invalid, "", format!("{}: {why}", self.url));
        let expected = format!("expected {S3}, {GOOGLE} or {AZURE}");
        let url = Url::parse(&self.url).map_err(|error| wrong(format!("{expected} ({error})")))?;
        let (scheme, prefix) =
            ObjectStoreScheme::parse(&url).map_err(|error| wrong(format!("{expected} ({error})")))?;
        let store = match scheme {
            ObjectStoreScheme::AmazonS3 => self.s3(),
            ObjectStoreScheme::GoogleCloudStorage => self.google().map(Client::without_uploads),
            ObjectStoreScheme::MicrosoftAzure => self.azure().map(Client::without_uploads),
            _ => return Err(wrong(expected)),
        };
        let explained = |error: object_store::Error| match error.to_string() {
            why if why.contains("Account must be specified") => {
                wrong(format!("set AZURE_STORAGE_ACCOUNT_NAME to the storage account ({why})"))
            }
            why => wrong(why),
        };
        Ok((store.map_err(explained)?, prefix))
    }

    fn s3(&self) -> object_store::Result<Client> {
        let mut builder = AmazonS3Builder::new()
            .with_url(&self.url)
            .with_http_connector(Filling(Conditional(ReqwestConnector::default())))
            .with_client_options(self.client())
            .with_retry(self.retry());
        for (key, value) in self.known::<AmazonS3ConfigKey>() {
            builder = builder.with_config(key, value);
        }
        let is_set = |key| builder.get_config_value(&key).is_some_and(|value| is_true(&value));
        // A client that signs nothing may list nothing, and buckets of that kind want signatures of
        // their own.
        let is_signed = !is_set(AmazonS3ConfigKey::SkipSignature) && !is_set(AmazonS3ConfigKey::S3Express);
        let s3 = builder.build()?;
        let uploads = is_signed.then(|| Uploads::new(s3.clone(), self.client(), self.retries_max));
        Ok(Client { objects: Arc::new(s3), uploads })
    }

    fn google(&self) -> object_store::Result<Arc<dyn ObjectStore>> {
        let mut builder = GoogleCloudStorageBuilder::new()
            .with_url(&self.url)
            .with_client_options(self.client())
            .with_retry(self.retry());
        for (key, value) in self.known::<GoogleConfigKey>() {
            builder = builder.with_config(key, value);
        }
        Ok(Arc::new(builder.build()?))
    }

    fn azure(&self) -> object_store::Result<Arc<dyn ObjectStore>> {
        let mut builder = MicrosoftAzureBuilder::new()
            .with_url(&self.url)
            .with_client_options(self.client())
            .with_retry(self.retry());
        for (key, value) in self.known::<AzureConfigKey>() {
            builder = builder.with_config(key, value);
        }
        Ok(Arc::new(builder.build()?))
    }

    /// Settings that the store knows.
    fn known<K: std::str::FromStr>(&self) -> impl Iterator<Item = (K, String)> + '_ {
        let parse = |key: &str| key.to_ascii_lowercase().parse().ok();
        self.settings.iter().filter_map(move |(key, value)| Some((parse(key)?, value.clone())))
    }

    fn client(&self) -> ClientOptions {
        // The process has one provider, which the client asks for; one that was installed before is
        // as good.
        let _installed = rustls::crypto::ring::default_provider().install_default();
        let mut client = ClientOptions::new().with_timeout(self.request_timeout);
        // A named endpoint says itself whether it is encrypted.
        let is_plain = |(key, value): (&String, &String)| {
            let key = key.to_ascii_lowercase();
            (key.contains("endpoint") || key.ends_with("base_url")) && value.starts_with("http://")
        };
        if self.settings.iter().any(is_plain) {
            client = client.with_allow_http(true);
        }
        for (key, value) in self.known::<ClientConfigKey>() {
            client = client.with_config(key, value);
        }
        client
    }

    fn retry(&self) -> RetryConfig {
        RetryConfig {
            backoff: BackoffConfig {
                init_backoff: Duration::from_millis(50),
                max_backoff: Duration::from_secs(5),
                // The next pause is anything between the first one and so many times the last one:
                // with 2 they would stay as they are.
                base: 3.0,
            },
            max_retries: self.retries_max,
            retry_timeout: self.retry_timeout,
        }
    }
}

/// What asks a store.
pub(crate) struct Client {
    pub(crate) objects: Arc<dyn ObjectStore>,
    /// `None` where there is no way to ask for uploads.
    pub(crate) uploads: Option<Uploads>,
}

impl Client {
    pub(crate) fn without_uploads(objects: Arc<dyn ObjectStore>) -> Self {
        Self { objects, uploads: None }
    }
}

/// Whether the client takes `value` for yes.
fn is_true(value: &str) -> bool {
    ["1", "true", "on", "yes", "y"].contains(&value.to_ascii_lowercase().as_str())
}

/// How names of backends in the stores look.
const S3: &str = "s3://BUCKET/PREFIX";
const GOOGLE: &str = "gs://BUCKET/PREFIX";
const AZURE: &str = "az://CONTAINER/PREFIX";

/// What URLs of object stores begin with, and how names look that do. Empty: the scheme is another
/// spelling of one before it.
pub(crate) const SCHEMES: [(&str, &str); 8] = [
    ("s3", S3),
    ("s3a", ""),
    ("gs", GOOGLE),
    ("az", AZURE),
    ("azure", ""),
    ("adl", ""),
    ("abfs", ""),
    ("abfss", ""),
];

impl fmt::Debug for ObjectOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&String> = self.settings.keys().collect();
        f.debug_struct("ObjectOptions")
            .field("url", &self.url)
            .field("settings", &names)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_of_other_things_are_refused_with_what_is_expected() {
        let error = ObjectOptions::new("ftp://host/x").store().err().unwrap();
        assert_eq!(error.kind, ErrorKind::Invalid);
        assert!(error.to_string().contains("ftp://host/x: expected s3://BUCKET/PREFIX"), "{error}");
    }

    #[test]
    fn secrets_are_not_written() {
        let mut options = ObjectOptions::new("s3://bucket/p");
        options.settings.insert("AWS_SECRET_ACCESS_KEY".to_owned(), "hidden".to_owned());
        let error = options.store().err().unwrap().to_string();
        assert!(error.contains("Missing AccessKeyId") && !error.contains("hidden"), "{error}");
        options.settings.insert("aws_access_key_id".to_owned(), "known".to_owned());
        let (Client { objects, uploads }, prefix) = options.store().unwrap();
        assert_eq!(prefix.as_ref(), "p");
        for text in [format!("{options:?}"), objects.to_string(), format!("{uploads:?}")] {
            assert!(!text.contains("hidden"), "{text}");
        }
    }
}
