//! What processes of the service answer by HTTP: their numbers, and whether they take work.

use std::net::SocketAddr;
use std::sync::Arc;

use firn_server::http::{Answer, Exposition, HttpServer, Kind, Reply, Request, Site};
use firn_storage::SystemClock;

use crate::ending::{Ending, Failure, Result};

/// What a process says of itself.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) metrics: Exposition,
    /// It takes no more work.
    pub(crate) is_draining: bool,
}

/// Answers at `address`, if there is one, what `look` says, and what `more` has at its own `paths`
/// (each with a `, ` behind).
///
/// # Errors
/// The address cannot be listened at.
pub(crate) fn start(
    address: Option<SocketAddr>,
    look: impl Fn() -> Said + Send + 'static,
    paths: &'static str,
    more: impl Fn(&str) -> Option<Answer> + Send + 'static,
) -> Result<Option<HttpServer>> {
    let Some(address) = address else { return Ok(None) };
    let server =
        HttpServer::start(address, Arc::new(SystemClock::new()), Box::new(ServiceSite { look, paths, more }));
    let failed = |error| Failure::new(Ending::Failed, format!("cannot answer by HTTP on {address}: {error}"));
    server.map(Some).map_err(failed)
}

/// Where it answers, as a part of a process's first line.
pub(crate) fn shown(http: Option<&HttpServer>) -> String {
    http.map_or_else(String::new, |http| format!(" HTTP at http://{};", http.address()))
}

/// Text that begins with what every process says.
pub(crate) fn begin() -> Exposition {
    let mut text = Exposition::default();
    text.family("firn_build_info", Kind::Gauge, "The release, as a label; always 1.");
    text.sample("firn_build_info", &[("version", &env!("CARGO_PKG_VERSION"))], 1);
    text
}

struct ServiceSite<F, G> {
    look: F,
    paths: &'static str,
    more: G,
}

impl<F, G> Site for ServiceSite<F, G>
where
    F: Fn() -> Said + Send,
    G: Fn(&str) -> Option<Answer> + Send,
{
    fn answer(&self, _peer: SocketAddr, request: &Request) -> Reply {
        let find = |path: &str| match path {
            "/metrics" => Answer::metrics((self.look)().metrics),
            "/healthz" => Answer::text(200, "alive\n"),
            "/health" | "/readyz" if (self.look)().is_draining => Answer::text(503, "draining\n"),
            "/health" | "/readyz" => Answer::text(200, "ready\n"),
            other => (self.more)(other).unwrap_or_else(|| {
                let paths = self.paths;
                let what = format!(
                    "there are {paths}/metrics, /health (and /readyz, which is the same) and /healthz\n"
                );
                Answer::text(404, what)
            }),
        };
        Answer::to_get(request, find).into()
    }
}
