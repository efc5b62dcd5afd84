//! Certificates for one test.

use std::net::{IpAddr, SocketAddr};

use firn_job_service::{Authorities, ClientTls, Identity, Pem, ServerTls};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

/// The host of all control planes that show a certificate.
pub(crate) const HERE: &str = "127.0.0.1";

/// A port there.
pub(crate) fn here() -> SocketAddr {
    (HERE.parse::<IpAddr>().unwrap(), 0).into()
}

/// An authority that signs certificates.
pub(crate) struct Authority {
    certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key, as files have them.
pub(crate) struct Signed {
    pub(crate) certificate: Pem,
    pub(crate) key: Pem,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap().pem();
        Self { certificate, issuer: Issuer::new(params, key) }
    }

    /// For `params` as they are.
    pub(crate) fn sign_as(&self, params: &CertificateParams) -> Signed {
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap().pem();
        Signed { certificate: pem("cert.pem", &certificate), key: pem("key.pem", &key.serialize_pem()) }
    }

    /// For a host, or a client, called `name`.
    pub(crate) fn sign(&self, name: &str) -> Signed {
        self.sign_as(&CertificateParams::new(vec![name.to_owned()]).unwrap())
    }

    pub(crate) fn identity(&self, name: &str) -> Identity {
        self.sign(name).identity()
    }

    /// What others believe.
    pub(crate) fn authorities(&self) -> Authorities {
        Authorities::new(&pem("ca.pem", &self.certificate)).unwrap()
    }

    /// Of a control plane that shows a certificate, and asks for one.
    pub(crate) fn server(&self) -> ServerTls {
        ServerTls { identity: self.identity(HERE), clients: Some(self.authorities()) }
    }

    /// Of a client that believes it, and shows a certificate.
    pub(crate) fn client(&self) -> ClientTls {
        let identity = Some(self.identity("somebody"));
        ClientTls { authorities: Some(self.authorities()), identity, source: None }
    }
}

impl Signed {
    pub(crate) fn identity(&self) -> Identity {
        Identity::new(&self.certificate, &self.key).unwrap()
    }
}

pub(crate) fn pem(name: &str, text: &str) -> Pem {
    Pem { name: name.to_owned(), text: text.as_bytes().to_vec() }
}
