//! Certificates of the service, from files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use firn_job_service::{Authorities, ClientTls, ClientTlsSource, Identity, Pem, ServerTls};
use firn_storage::{Error, ErrorKind};

use crate::ending::{Ending, Failure, Result};

/// What a client of control planes at https:// believes and shows.
#[derive(clap::Args, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClientFiles {
    /// For https://: the certificate, in PEM, of the CA that has signed the control planes'; of
    /// several, one behind the other in the file. The system's are not believed then. Without it
    /// they are. This file, and those below, are read again when a control plane cannot be reached.
    #[arg(long = "control-plane-ca", value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
    /// The certificate, in PEM, to show to control planes that ask for one; then those that lead
    /// from it to its CA. Goes with --control-plane-key.
    #[arg(long = "control-plane-cert", value_name = "FILE")]
    pub(crate) cert: Option<PathBuf>,
    /// Its key, in PEM.
    #[arg(long = "control-plane-key", value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
}

/// What a control plane shows, and asks for.
#[derive(clap::Args)]
pub(crate) struct ServerFiles {
    /// Be reached by https:// alone: the certificate, in PEM, then those that lead from it to its
    /// CA. The files of certificates and keys are read again every few seconds: what is renewed
    /// holds for connections from then on.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The certificate's key, in PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Let in only clients that show a certificate that this CA has signed: its certificate, in
    /// PEM; of several CAs, one behind the other.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_client_ca: Option<PathBuf>,
}

impl ClientFiles {
    pub(crate) fn is_said(&self) -> bool {
        *self != Self::default()
    }

    /// Reads them.
    ///
    /// # Errors
    /// A file cannot be read, is not what it should be, or lacks the other one that it goes with.
    pub(crate) fn read(&self) -> Result<ClientTls> {
        let source = self.is_said().then(|| Arc::new(self.clone()) as Arc<dyn ClientTlsSource>);
        let authorities = self.ca.as_deref().map(authorities).transpose()?;
        let identity = match (&self.cert, &self.key) {
            (None, None) => None,
            (Some(cert), Some(key)) => Some(identity(cert, key)?),
            _ => {
                let what = "a certificate and its key go together: give both --control-plane-cert and --control-plane-key";
                return Err(Failure::new(Ending::Usage, what));
            }
        };
        Ok(ClientTls { authorities, identity, source })
    }
}

impl ClientTlsSource for ClientFiles {
    fn look(&self) -> firn_storage::Result<ClientTls> {
        self.read().map_err(|failure| Error::new(ErrorKind::Invalid, "", failure.to_string()))
    }
}

impl ServerFiles {
    /// The file with the key.
    pub(crate) fn key(&self) -> Option<&Path> {
        self.tls_key.as_deref()
    }

    /// Whether only clients that show a certificate are let in.
    pub(crate) fn asks_for_certificates(&self) -> bool {
        self.tls_client_ca.is_some()
    }

    /// Reads them; `None` = requests and answers travel unencrypted.
    ///
    /// # Errors
    /// One cannot be read, or is not what it should be.
    pub(crate) fn read(&self) -> Result<Option<ServerTls>> {
        // The command line asks for both or neither.
        let (Some(cert), Some(key)) = (&self.tls_cert, &self.tls_key) else { return Ok(None) };
        let clients = self.tls_client_ca.as_deref().map(authorities).transpose()?;
        Ok(Some(ServerTls { identity: identity(cert, key)?, clients }))
    }
}

fn authorities(path: &Path) -> Result<Authorities> {
    Authorities::new(&read(path)?).map_err(wrong)
}

fn identity(cert: &Path, key: &Path) -> Result<Identity> {
    Identity::new(&read(cert)?, &read(key)?).map_err(wrong)
}

fn read(path: &Path) -> Result<Pem> {
    let name = path.display().to_string();
    match std::fs::read(path) {
        Ok(text) => Ok(Pem { name, text }),
        Err(error) => Err(Failure::new(Ending::Usage, format!("cannot read {name}: {error}"))),
    }
}

fn wrong(error: firn_storage::Error) -> Failure {
    Failure::new(Ending::Usage, error.to_string())
}
