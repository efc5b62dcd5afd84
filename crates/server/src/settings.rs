//! What a server is started with.

use std::net::{IpAddr, Ipv4Addr};

/// Settings of a server, apart from its database's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServeSettings {
    /// Address to listen on. Default 127.0.0.1.
    pub bind: IpAddr,
    /// Port to listen on; 0 = one that is free. Default 6379.
    pub port: u16,
    /// Workers, each a thread with its own connections. Default 1; at least 1.
    pub threads: usize,
    /// Connections at a time; more are told so and closed. Default 10 000.
    pub clients_max: usize,
    /// Bytes of one request; a connection that sends a longer one is closed. Default 1 GiB.
    pub request_bytes_max: usize,
    /// Bytes of replies that were not read by their client, above which none of its requests are executed. Default 1 MiB.
    pub unread_bytes_max: usize,
}

impl Default for ServeSettings {
    fn default() -> Self {
        Self {
            bind: IpAddr::V4(Ipv4Addr::LOCALHOST),
            port: 6379,
            threads: 1,
            clients_max: 10_000,
            request_bytes_max: 1 << 30,
            unread_bytes_max: 1 << 20,
        }
    }
}
