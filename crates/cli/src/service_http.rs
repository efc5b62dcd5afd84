//! What processes of the service answer by HTTP: their numbers, and whether they take work.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use firn_server::http::{Answer, Exposition, HttpServer, Reply, Request, Site};
use firn_storage::SystemClock;

use crate::build_info::BUILD;
use crate::ending::{Ending, Failure, Result};

/// What a process says of itself.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) metrics: Exposition,
    /// It takes no more work.
    pub(crate) is_draining: bool,
}

/// Answers at `address`, if there is one, what `look` says, and what `more` has at its own `paths`
/// (each with a `, ` behind). `takes_any`: at a free port if another process has that one.
///
/// # Errors
/// The address cannot be listened at.
pub(crate) fn start(
    address: Option<SocketAddr>,
    takes_any: bool,
    look: impl Fn() -> Said + Send + 'static,
    paths: &'static str,
    more: impl Fn(&str) -> Option<Answer> + Send + 'static,
) -> Result<Option<HttpServer>> {
    let Some(address) = address else { return Ok(None) };
    let site = Box::new(ServiceSite { look, paths, more });
    let listener = TcpListener::bind(address).or_else(|error| match error.kind() {
        ErrorKind::AddrInUse if takes_any => TcpListener::bind(SocketAddr::new(address.ip(), 0)),
        _ => Err(error),
    });
    let server =
        listener.and_then(|listener| HttpServer::start(listener, Arc::new(SystemClock::new()), site));
    server.map(Some).map_err(|error| {
        let remedy = match error.kind() {
            ErrorKind::AddrInUse => "; name another port with --http-port: 0 takes a free one",
            _ => "",
        };
        Failure::new(Ending::Failed, format!("cannot answer by HTTP on {address}: {error}{remedy}"))
    })
}

/// Text that begins with what every process says.
pub(crate) fn begin() -> Exposition {
    let mut text = Exposition::default();
    text.build(&BUILD);
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
