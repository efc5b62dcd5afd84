//! S15: 300 connections to the HTTP port that say nothing, and `/healthz` was not answered. S19: a
//! page of the web that calls this machine `evil.example` could read the counters. Neighbours: half
//! a request, answers that are not read, metrics and the page beside health, names of this machine.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use firn_server::ServeSettings;

use super::super::client::Served;
use super::super::http::{ANYWHERE, get};

fn served() -> Served {
    Served::with(ServeSettings { http: Some(ANYWHERE), ..ServeSettings::default() })
}

/// The answer to a request with this header for the host.
fn ask(address: SocketAddr, path: &str, host: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("an option");
    stream.write_all(format!("GET {path} HTTP/1.1\r\n{host}\r\n").as_bytes()).expect("it is sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    text
}

#[test]
fn s15_health_is_answered_beside_silent_connections() {
    let served = served();
    let address = served.server.http_address().expect("it listens");
    let silent: Vec<TcpStream> =
        (0..150).map(|_| TcpStream::connect(address).expect("a connection")).collect();
    for stream in &silent[..20] {
        (&*stream).write_all(b"GET / HTTP/1.1\r\n").expect("it is sent");
    }
    let since = Instant::now();
    for path in ["/healthz", "/readyz", "/metrics", "/healthz"] {
        assert_eq!(get(address, path).0, 200, "{path}");
    }
    // Without room it would come when the silent ones are given up, after five seconds.
    assert!(since.elapsed() < Duration::from_secs(4), "{:?}", since.elapsed());
}

#[test]
fn s19_from_this_machine_pages_are_asked_for_by_its_own_name() {
    let served = served();
    let address = served.server.http_address().expect("it listens");
    for path in ["/", "/metrics", "/slow", "/jobs", "/healthz", "/readyz"] {
        for host in [
            "Host: localhost\r\n",
            "Host: localhost:80\r\n",
            "Host: 127.0.0.1:8080\r\n",
            "Host: [::1]\r\n",
            "",
        ] {
            assert!(ask(address, path, host).starts_with("HTTP/1.1 200"), "{path} by {host:?}");
        }
        for host in
            ["Host: evil.example\r\n", "Host: localhost.evil.example\r\n", "Host: evil.example:80\r\n"]
        {
            assert!(ask(address, path, host).starts_with("HTTP/1.1 403"), "{path} by {host:?}");
        }
    }
}
