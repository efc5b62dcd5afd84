//! What is sent back.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use super::exposition::Exposition;
use super::request::Request;

/// Answers requests, on a thread that has others to answer too: it MUST NOT wait.
pub trait Site: Send {
    /// The answer to `request`, which came from `peer`.
    fn answer(&self, peer: SocketAddr, request: &Request) -> Reply;
}

/// What is sent back.
#[derive(Debug)]
pub struct Answer {
    status: u16,
    content: &'static str,
    body: String,
    /// Only the head is sent: it tells what the body would be.
    is_head: bool,
}

/// An answer that comes later.
pub(super) type Pending = Arc<Mutex<Option<Answer>>>;

/// An answer, or the promise of one.
#[derive(Debug)]
pub struct Reply(pub(super) When);

#[derive(Debug)]
pub(super) enum When {
    Now(Answer),
    Later(Pending),
}

impl From<Answer> for Reply {
    fn from(answer: Answer) -> Self {
        Self(When::Now(answer))
    }
}

impl From<Pending> for Reply {
    fn from(pending: Pending) -> Self {
        Self(When::Later(pending))
    }
}

impl Answer {
    /// Plain text.
    pub fn text(status: u16, body: impl Into<String>) -> Self {
        Self { status, content: "text/plain; charset=utf-8", body: body.into(), is_head: false }
    }

    /// Numbers for Prometheus.
    pub fn metrics(numbers: Exposition) -> Self {
        Self::ok("text/plain; version=0.0.4; charset=utf-8", numbers.into_text())
    }

    pub(super) fn ok(content: &'static str, body: impl Into<String>) -> Self {
        Self { content, ..Self::text(200, body) }
    }

    /// What `find` answers to a request that only reads: GET, or HEAD, which is told what the body
    /// would be.
    pub fn to_get(request: &Request, find: impl FnOnce(&str) -> Self) -> Self {
        let is_head = request.method == "HEAD";
        if request.method != "GET" && !is_head {
            return Self::text(405, "only GET is answered here\n");
        }
        Self { is_head, ..find(&request.path) }
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
        // The page holds all that it needs, and no other page may embed it.
        let head = format!(
            "HTTP/1.1 {status} {reason}\r\nContent-Type: {content}\r\nContent-Length: {bytes}\r\n{allow}\
             Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nContent-Security-Policy: default-src 'none'; \
             style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; frame-ancestors 'none'\r\n\
             Connection: close\r\n\r\n"
        );
        [head.as_bytes(), if self.is_head { b"" } else { self.body.as_bytes() }].concat()
    }
}
