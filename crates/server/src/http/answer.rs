//! What each path answers.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;

use super::backup::Pending;
use super::request::Request;
use super::{Site, metrics};
use crate::worker::Shared;

const PAGE: &str = include_str!("page.html");

/// Slow commands that the page shows.
const SLOW_MAX: usize = 20;

/// What is sent back.
#[derive(Debug)]
pub(super) struct Answer {
    status: u16,
    content: &'static str,
    body: String,
    /// Only the head is sent: it tells what the body would be.
    is_head: bool,
}

/// An answer, or the promise of one.
pub(super) enum Reply {
    Now(Answer),
    Later(Pending),
}

impl Answer {
    /// Plain text.
    pub(super) fn text(status: u16, body: impl Into<String>) -> Self {
        Self { status, content: "text/plain; charset=utf-8", body: body.into(), is_head: false }
    }

    fn ok(content: &'static str, body: impl Into<String>) -> Self {
        Self { content, ..Self::text(200, body) }
    }

    /// Its bytes on the wire.
    pub(super) fn encode(&self) -> Vec<u8> {
        let reason = match self.status {
            200 => "OK",
            400 => "Bad Request",
            403 => "Forbidden",
            404 => "Not Found",
            405 => "Method Not Allowed",
            409 => "Conflict",
            431 => "Request Header Fields Too Large",
            503 => "Service Unavailable",
            _ => "Error",
        };
        let (status, content, bytes) = (self.status, self.content, self.body.len());
        let allow = if status == 405 { "Allow: GET, HEAD\r\n" } else { "" };
        // The page holds all that it needs, and nobody else's page may hold it.
        let head = format!(
            "HTTP/1.1 {status} {reason}\r\nContent-Type: {content}\r\nContent-Length: {bytes}\r\n{allow}\
             Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nContent-Security-Policy: default-src 'none'; \
             style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; frame-ancestors 'none'\r\n\
             Connection: close\r\n\r\n"
        );
        [head.as_bytes(), if self.is_head { b"" } else { self.body.as_bytes() }].concat()
    }
}

/// The answer to `request`, which came from `peer`.
pub(super) fn of(site: &Site, peer: SocketAddr, request: &Request) -> Reply {
    if request.method == "POST" && request.path == "/backup" {
        return site.backups.begin(&site.shared, peer, request).map_or_else(Reply::Now, Reply::Later);
    }
    Reply::Now(found(&site.shared, request))
}

fn found(shared: &Shared, request: &Request) -> Answer {
    let is_head = request.method == "HEAD";
    if request.method != "GET" && !is_head {
        return Answer::text(405, "only GET is answered here\n");
    }
    let answer = match request.path.as_str() {
        "/" => Answer::ok("text/html; charset=utf-8", PAGE),
        "/metrics" => Answer::ok("text/plain; version=0.0.4; charset=utf-8", metrics::text(shared)),
        "/slow" => Answer::ok("application/json", slow(shared)),
        "/jobs" => Answer::ok("application/json", jobs(shared)),
        "/healthz" => Answer::text(200, "alive\n"),
        "/readyz" => match unready(shared) {
            None => Answer::text(200, "ready\n"),
            Some(why) => Answer::text(503, format!("{why}\n")),
        },
        _ => Answer::text(404, "there are /, /metrics, /slow, /jobs, /healthz, /readyz and POST /backup\n"),
    };
    Answer { is_head, ..answer }
}

/// Why writes are not served; `None` = they are.
fn unready(shared: &Shared) -> Option<String> {
    if shared.is_ending.load(Ordering::Acquire) {
        return Some("stopping".to_owned());
    }
    shared.store.db.stats().write_failure.map(|failure| format!("no writes are taken: {failure}"))
}

/// The newest slow commands as JSON: their names and times, not their arguments.
fn slow(shared: &Shared) -> String {
    let mut text = String::from("[");
    for (index, (number, call)) in shared.slow_log.newest(SLOW_MAX).iter().enumerate() {
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
             \"queued_us\":{},\"opened_us\":{},\"ran_us\":{},\"checked_us\":{}}}",
            job.ended_unix_ms,
            job.kind,
            job.read_bytes,
            job.write_bytes,
            job.queued_us,
            job.opened_us,
            job.ran_us,
            job.checked_us
        );
    }
    text.push_str("]\n");
    text
}

fn is_plain(letter: &char) -> bool {
    letter.is_ascii_alphanumeric() || *letter == '-'
}
