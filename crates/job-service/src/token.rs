//! The secret of all that may ask.

use std::fmt;

use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::{Request, Status};

/// A secret that databases, workers and control planes share; none = every peer may ask.
///
/// It travels with each request as `authorization: Bearer ...`, and is in nothing that `Debug`
/// writes.
#[derive(Clone, Default)]
pub struct SharedToken {
    value: Option<MetadataValue<Ascii>>,
}

impl SharedToken {
    /// Without one.
    pub fn none() -> Self {
        Self::default()
    }

    /// `secret`: 1 to 4096 visible ASCII characters; `None` otherwise.
    pub fn new(secret: &str) -> Option<Self> {
        let is_one = (1..=4096).contains(&secret.len()) && secret.bytes().all(|byte| byte.is_ascii_graphic());
        let mut value: MetadataValue<Ascii> = is_one.then(|| format!("Bearer {secret}").parse().ok())??;
        value.set_sensitive(true);
        Some(Self { value: Some(value) })
    }

    /// As the side that asks.
    pub(crate) fn attach(&self) -> Attach {
        Attach { value: self.value.clone() }
    }

    /// As the side that is asked.
    pub(crate) fn demand(&self) -> Demand {
        Demand { value: self.value.clone() }
    }
}

impl fmt::Debug for SharedToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.value.is_some() { "SharedToken(..)" } else { "SharedToken(none)" })
    }
}

/// Adds the token to requests.
#[derive(Clone)]
pub(crate) struct Attach {
    value: Option<MetadataValue<Ascii>>,
}

impl Interceptor for Attach {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(value) = &self.value {
            request.metadata_mut().insert("authorization", value.clone());
        }
        Ok(request)
    }
}

/// Lets requests with the token pass.
#[derive(Clone)]
pub(crate) struct Demand {
    value: Option<MetadataValue<Ascii>>,
}

impl Interceptor for Demand {
    fn call(&mut self, request: Request<()>) -> Result<Request<()>, Status> {
        let Some(expected) = &self.value else { return Ok(request) };
        let found = request.metadata().get("authorization").map(|found| found.as_encoded_bytes());
        match found {
            Some(found) if is_same(found, expected.as_encoded_bytes()) => Ok(request),
            Some(_) => Err(Status::unauthenticated(
                "the token is not this control plane's: see --control-plane-token-file",
            )),
            None => Err(Status::unauthenticated(
                "this control plane wants a token: give one with --control-plane-token-file",
            )),
        }
    }
}

/// Compares in a time that does not tell where the first difference is.
fn is_same(found: &[u8], expected: &[u8]) -> bool {
    let differences = found.iter().zip(expected).fold(0, |all, (a, b)| all | (a ^ b));
    found.len() == expected.len() && differences == 0
}
