//! What each path of a server answers.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use super::answer::{Answer, Reply, Site};
use super::backup::{Backups, is_address};
use super::database_metrics;
use super::disk::Disk;
use super::request::Request;
use super::status;
use crate::net::Alarm;
use crate::server_thread::Shared;

const BODY: &str = include_str!("page/database.html");
const SCRIPT: &str = concat!(include_str!("page/chart.js"), include_str!("page/database.js"));

/// Slow commands that the page shows.
const SLOW_MAX: usize = 20;

/// A server, as operators see it.
pub(crate) struct DatabaseSite {
    shared: Arc<Shared>,
    backups: Backups,
    disk: Disk,
}

impl DatabaseSite {
    /// `alarm` is rung when an answer is there that was promised.
    pub(crate) fn new(shared: Arc<Shared>, alarm: Arc<Alarm>) -> Self {
        Self { shared, backups: Backups::new(alarm), disk: Disk::default() }
    }
}

impl Site for DatabaseSite {
    fn answer(&self, peer: SocketAddr, request: &Request) -> Reply {
        if request.method == "POST" && request.path == "/backup" {
            return self.backups.begin(&self.shared, peer, request).map_or_else(Reply::from, Reply::from);
        }
        // A page of the web can call this machine by a name of its own, and have its reader's
        // browser ask here.
        let is_rebound = peer.ip().to_canonical().is_loopback()
            && request.header("host").is_some_and(|host| !is_address(host));
        if is_rebound {
            return Answer::text(403, "from this machine, call it localhost or by its address\n").into();
        }
        Answer::to_get(request, |path| self.found(path)).into()
    }
}

impl DatabaseSite {
    fn found(&self, path: &str) -> Answer {
        let shared = &*self.shared;
        match path {
            "/" => Answer::page("Firn", BODY, SCRIPT),
            "/metrics" => Answer::metrics(database_metrics::of(shared, &self.disk)),
            "/slow" => Answer::json(slow(shared)),
            "/jobs" => Answer::json(jobs(shared)),
            "/status" => Answer::json(status::of(shared)),
            "/healthz" => Answer::text(200, "alive\n"),
            "/readyz" => match unready(shared) {
                None => Answer::text(200, "ready\n"),
                Some(why) => Answer::text(503, format!("{why}\n")),
            },
            _ => Answer::text(
                404,
                "there are /, /metrics, /slow, /jobs, /status, /healthz, /readyz and POST /backup\n",
            ),
        }
    }
}

/// Why writes are not served; `None` = they are.
fn unready(shared: &Shared) -> Option<String> {
    if shared.threads.is_ending.load(Ordering::Acquire) {
        return Some("stopping".to_owned());
    }
    let stats = shared.store.db.stats();
    let why = stats.write_failure.or(stats.write_refusal);
    why.map(|why| format!("no writes are taken: {why}"))
}

/// The newest slow commands as JSON: their names and times, not their arguments.
fn slow(shared: &Shared) -> String {
    let newest = shared.diagnostics.slow_log.newest(SLOW_MAX);
    let calls = newest.iter().map(|(number, call)| {
        let name = call.arguments.first().map(|name| String::from_utf8_lossy(name).to_ascii_lowercase());
        json!({ "number": number, "unix_s": call.unix_s, "us": call.us, "command": name.unwrap_or_default() })
    });
    Value::from_iter(calls).to_string() + "\n"
}

/// The last background jobs as JSON, newest first: where each ran, and what its stages took.
fn jobs(shared: &Shared) -> String {
    let stats = shared.store.db.stats();
    let jobs = stats.jobs.last.iter().map(|job| {
        json!({
            "ended_unix_ms": job.ended_unix_ms,
            "kind": job.kind,
            "place": job.place(),
            "read_bytes": job.read_bytes,
            "write_bytes": job.write_bytes,
            "queued_us": job.queued_us,
            "opened_us": job.opened_us,
            "ran_us": job.ran_us,
            "read_us": job.read_us,
            "write_us": job.write_us,
            "checked_us": job.checked_us,
        })
    });
    Value::from_iter(jobs).to_string() + "\n"
}
