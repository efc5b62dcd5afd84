//! Certificates: what a control plane shows, what its clients believe, and what they show.
//!
//! Everything is looked at when it is made, so that what is wrong is said before the first
//! connection.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use firn_storage::{Error, ErrorKind, Result};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{InconsistentKeys, RootCertStore};
use tonic::transport::{Certificate, ClientTlsConfig, Identity as Shown, ServerTlsConfig};

/// How long the two sides may take to agree on keys.
const HANDSHAKE_MAX: Duration = Duration::from_secs(5);

/// Text in PEM, and what people call it.
#[derive(Clone)]
pub struct Pem {
    /// A file's name, as a rule: it stands in messages.
    pub name: String,
    /// The text.
    pub text: Vec<u8>,
}

/// A certificate, the ones that lead from it to its authority, and its key.
#[derive(Clone, PartialEq, Eq)]
pub struct Identity {
    chain: Vec<u8>,
    key: Vec<u8>,
}

/// Certificates of authorities that are believed when they sign others.
#[derive(Clone, PartialEq, Eq)]
pub struct Authorities {
    certificates: Vec<u8>,
}

/// How a control plane is reached: without one, requests and answers travel as they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerTls {
    /// What it shows each client.
    pub identity: Identity,
    /// Authorities that must have signed the certificate that a client shows; `None` = a client
    /// needs none.
    pub clients: Option<Authorities>,
}

/// What clients of control planes at `https://` believe and show.
#[derive(Clone, Debug, Default)]
pub struct ClientTls {
    /// Authorities that must have signed a control plane's certificate; `None` = the system's.
    pub authorities: Option<Authorities>,
    /// What is shown to a control plane that asks for a certificate.
    pub identity: Option<Identity>,
    /// Where the two are looked up again once a control plane cannot be reached; `None` = they stay
    /// what they are.
    pub source: Option<Arc<dyn ClientTlsSource>>,
}

/// Where what clients believe and show can be looked up again: it is renewed while they run.
pub trait ClientTlsSource: fmt::Debug + Send + Sync {
    /// What it is now. Called on the thread that talks, some times a second while a control plane
    /// cannot be reached: it should read small files at most.
    ///
    /// # Errors
    /// It cannot be read, or is not what it should be, as it may be for a moment while files are
    /// written. What was there before is kept, and people are told if nothing is reached by that.
    fn look(&self) -> Result<ClientTls>;
}

impl Identity {
    /// `chain`: the certificate first, then the ones that lead to its authority. `key`: the first
    /// one's, as PKCS #8, PKCS #1 or SEC 1.
    ///
    /// # Errors
    /// `Invalid`: one of them is not what it should be, or the key belongs to another certificate.
    pub fn new(chain: &Pem, key: &Pem) -> Result<Self> {
        let certificates = chain.certificates()?;
        let secret = PrivateKeyDer::from_pem_slice(&key.text).map_err(|error| match error {
            pem::Error::NoItemsFound => key.wrong(
                "expected a private key in PEM (-----BEGIN PRIVATE KEY-----) without a passphrase, found none",
            ),
            error => key.wrong(&format!("is not PEM: {error}")),
        })?;
        let provider = rustls::crypto::ring::default_provider();
        CertifiedKey::from_der(certificates, secret, &provider).map_err(|error| match error {
            rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
                let what = format!(
                    "is not the key of the first certificate in {}: give the two that were made together",
                    chain.name
                );
                key.wrong(&what)
            }
            rustls::Error::InvalidCertificate(_) => chain.wrong("its first certificate cannot be read"),
            error => key.wrong(&format!("cannot be used (RSA, ECDSA and Ed25519 can): {error}")),
        })?;
        Ok(Self { chain: chain.text.clone(), key: key.text.clone() })
    }

    fn shown(&self) -> Shown {
        Shown::from_pem(&self.chain, &self.key)
    }
}

impl Authorities {
    /// One certificate or several.
    ///
    /// # Errors
    /// `Invalid`: there are none, or one cannot be read.
    pub fn new(certificates: &Pem) -> Result<Self> {
        let mut store = RootCertStore::empty();
        for one in certificates.certificates()? {
            store.add(one).map_err(|error| {
                certificates.wrong(&format!("holds a certificate that cannot be read: {error}"))
            })?;
        }
        Ok(Self { certificates: certificates.text.clone() })
    }

    fn shown(&self) -> Certificate {
        Certificate::from_pem(&self.certificates)
    }
}

impl ServerTls {
    pub(crate) fn config(&self) -> ServerTlsConfig {
        let config = ServerTlsConfig::new().identity(self.identity.shown()).timeout(HANDSHAKE_MAX);
        match &self.clients {
            Some(clients) => config.client_ca_root(clients.shown()),
            None => config,
        }
    }
}

impl ClientTls {
    /// Whether anything was said, which is of use only with `https://`.
    pub(crate) fn is_said(&self) -> bool {
        self.authorities.is_some() || self.identity.is_some()
    }

    /// Whether the same is believed and shown.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        (&self.authorities, &self.identity) == (&other.authorities, &other.identity)
    }

    pub(crate) fn config(&self) -> ClientTlsConfig {
        let config = ClientTlsConfig::new().timeout(HANDSHAKE_MAX);
        let config = match &self.authorities {
            Some(authorities) => config.ca_certificate(authorities.shown()),
            None => config.with_native_roots(),
        };
        match &self.identity {
            Some(identity) => config.identity(identity.shown()),
            None => config,
        }
    }
}

impl Pem {
    fn certificates(&self) -> Result<Vec<CertificateDer<'static>>> {
        let found: std::result::Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&self.text).collect();
        let found = found.map_err(|error| self.wrong(&format!("is not PEM: {error}")))?;
        if found.is_empty() {
            return Err(self.wrong("expected a certificate in PEM (-----BEGIN CERTIFICATE-----), found none"));
        }
        Ok(found)
    }

    fn wrong(&self, what: &str) -> Error {
        Error::new(ErrorKind::Invalid, "", format!("{}: {what}", self.name))
    }
}

/// Without the text, which may be a key.
impl fmt::Debug for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pem({})", self.name)
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Identity(..)")
    }
}

impl fmt::Debug for Authorities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Authorities({} bytes)", self.certificates.len())
    }
}
