//! What each path of a server answers.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::answer::{Answer, Reply, Site};
use super::backup::{Backups, is_address};
use super::database_metrics;
use super::request::Request;
use crate::net::Alarm;
use crate::server_thread::Shared;

const BODY: &str = include_str!("page/database.html");
const SCRIPT: &str = include_str!("page/database.js");

/// Slow commands that the page shows.
const SLOW_MAX: usize = 20;

/// A server, as operators see it.
pub(crate) struct DatabaseSite {
    shared: Arc<Shared>,
    backups: Backups,
}

impl DatabaseSite {
    /// `alarm` is rung when an answer is there that was promised.
    pub(crate) fn new(shared: Arc<Shared>, alarm: Arc<Alarm>) -> Self {
        Self { shared, backups: Backups::new(alarm) }
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
        Answer::to_get(request, |path| found(&self.shared, path)).into()
    }
}

fn found(shared: &Shared, path: &str) -> Answer {
    match path {
        "/" => Answer::page("Firn", BODY, SCRIPT),
        "/metrics" => Answer::metrics(database_metrics::of(shared)),
        "/slow" => Answer::json(slow(shared)),
        "/jobs" => Answer::json(jobs(shared)),
        "/healthz" => Answer::text(200, "alive\n"),
        "/readyz" => match unready(shared) {
            None => Answer::text(200, "ready\n"),
            Some(why) => Answer::text(503, format!("{why}\n")),
        },
        _ => Answer::text(404, "there are /, /metrics, /slow, /jobs, /healthz, /readyz and POST /backup\n"),
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
    let mut text = String::from("[");
    for (index, (number, call)) in shared.diagnostics.slow_log.newest(SLOW_MAX).iter().enumerate() {
        let name = call.arguments.first().map(|name| String::from_utf8_lossy(name).to_ascii_lowercase());
        // Nothing that would have to be escaped.
        let name: String =
            name.into_iter().flat_map(|it| it.chars().collect::<Vec<_>>()).filter(is_plain).collect();
        let comma = if index == 0 { "" } else { "," };
        let (unix_s, us) = (call.unix_s, call.us);
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "{comma}{{\"number\":{number},\"unix_s\":{unix_s},\"us\":{us},\"command\":\"{name}\"}}"
        );
    }
    text.push_str("]\n");
    text
}

/// The last background jobs as JSON, newest first: where each ran, and what its stages took.
fn jobs(shared: &Shared) -> String {
    let mut text = String::from("[");
    for (index, job) in shared.store.db.stats().jobs.last.iter().enumerate() {
        // Workers call themselves as they like: nothing that would have to be escaped.
        let place: String = job
            .place()
            .chars()
            .map(|letter| if is_plain(&letter) || ". _:".contains(letter) { letter } else { '?' })
            .collect();
        let comma = if index == 0 { "" } else { "," };
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "{comma}{{\"ended_unix_ms\":{},\"kind\":\"{}\",\"place\":\"{place}\",\"read_bytes\":{},\"write_bytes\":{},\
             \"queued_us\":{},\"opened_us\":{},\"ran_us\":{},\"read_us\":{},\"write_us\":{},\"checked_us\":{}}}",
            job.ended_unix_ms,
            job.kind,
            job.read_bytes,
            job.write_bytes,
            job.queued_us,
            job.opened_us,
            job.ran_us,
            job.read_us,
            job.write_us,
            job.checked_us
        );
    }
    text.push_str("]\n");
    text
}

fn is_plain(letter: &char) -> bool {
    letter.is_ascii_alphanumeric() || *letter == '-'
}
