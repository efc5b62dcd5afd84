//! A redis-server of a test's own.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::super::client::Client;

/// Keeps everything in memory; ends when dropped.
pub(crate) struct RedisServer {
    process: Child,
    port: u16,
}

impl RedisServer {
    /// Starts one on a free port of this machine.
    #[expect(clippy::disallowed_methods, reason = "another process says in no other way that it listens")]
    pub(crate) fn start() -> Self {
        let port = TcpListener::bind("127.0.0.1:0")
            .and_then(|listener| listener.local_addr())
            .expect("a port")
            .port();
        let process = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
            .args(["--save", "", "--appendonly", "no", "--daemonize", "no"])
            .args(["--enable-debug-command", "local"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server starts: install Debian's package redis-server");
        let server = Self { process, port };
        for _ in 0..500 {
            if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return server;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("redis-server does not listen on port {port}");
    }

    pub(crate) fn connect(&self) -> Client {
        Client::connect(SocketAddr::from(([127, 0, 0, 1], self.port)))
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
