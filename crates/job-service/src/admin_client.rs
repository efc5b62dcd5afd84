//! What people ask a control plane.

use std::time::Duration;

use firn_jobs::{Error, ErrorKind, Result};
use firn_storage::Spawn;
use tonic::{Request, Status};

use crate::channel::Planes;
use crate::control::pool::JobKey;
use crate::runtime::Runtime;
use crate::tls::ClientTls;
use crate::token::SharedToken;
use crate::trouble::is_absent;
use crate::wire::{proto, put_key};

const ANSWER_MAX: Duration = Duration::from_secs(10);

/// A client of one control plane, for people; its calls block.
pub struct AdminClient {
    planes: Planes,
    runtime: Runtime,
}

impl std::fmt::Debug for AdminClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AdminClient").field("at", &self.planes.name(0)).finish_non_exhaustive()
    }
}

impl AdminClient {
    /// At the control plane called `name` (`http://HOST:PORT` or `https://HOST:PORT`); connects
    /// with the first question.
    ///
    /// # Errors
    /// `Invalid`: the name is none, or does not fit what was said of certificates. `Storage`: the
    /// system gives no thread.
    pub fn at(name: &str, token: &SharedToken, tls: &ClientTls, spawn: &dyn Spawn) -> Result<Self> {
        let runtime = Runtime::start("firn-admin", spawn)?;
        let planes = Planes::new(&[name.to_owned()], token, tls, &runtime)
            .map_err(|error| Error::new(ErrorKind::Invalid, error.to_string()))?;
        Ok(Self { planes, runtime })
    }

    /// Its jobs and workers.
    ///
    /// # Errors
    /// `Unavailable`: nothing listens there. `Rejected`: it does not answer, or refuses, with what
    /// was said.
    pub fn list(&self) -> Result<proto::ListReply> {
        let Some(mut client) = self.planes.jobs(0) else { return Ok(proto::ListReply::default()) };
        let mut request = Request::new(proto::ListRequest {});
        request.set_timeout(ANSWER_MAX);
        let answer = self.runtime.wait(async move { client.list(request).await });
        answer.map(tonic::Response::into_inner).map_err(|status| self.refused(&status))
    }

    /// Ends a job; whether it was there and had not ended. Its database does it itself then, or
    /// hands it in again.
    ///
    /// # Errors
    /// As for [`list`](Self::list).
    pub fn cancel(&self, key: JobKey) -> Result<bool> {
        let Some(mut client) = self.planes.jobs(0) else { return Ok(false) };
        let mut request = Request::new(proto::CancelRequest { key: put_key(key) });
        request.set_timeout(ANSWER_MAX);
        let answer = self.runtime.wait(async move { client.cancel(request).await });
        answer.map(|answer| answer.into_inner().found).map_err(|status| self.refused(&status))
    }

    fn refused(&self, status: &Status) -> Error {
        let _inside = self.runtime.enter();
        self.planes.renew(0);
        let name = self.planes.name(0);
        match is_absent(status) {
            true => Error::new(ErrorKind::Unavailable, format!("no control plane answers at {name}")),
            false => {
                let why = self.planes.explain(0, status);
                Error::new(ErrorKind::Rejected, format!("control plane {name}: {why}"))
            }
        }
    }
}
