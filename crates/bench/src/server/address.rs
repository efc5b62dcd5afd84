//! Where a server is.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;

use firn_engine::{Error, ErrorKind, Result};

/// The port that servers of this protocol listen on unless they are told otherwise.
pub const PORT_DEFAULT: u16 = 6379;

/// A server that speaks RESP, and which of its databases: `resp://host:port/database`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerAddress {
    /// Name or address of the machine.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Number of the database, chosen by `SELECT` unless it is 0.
    pub database: u32,
}

impl ServerAddress {
    /// Where that is on the network.
    ///
    /// # Errors
    /// `Retry` if the name is not known.
    pub fn resolve(&self) -> Result<SocketAddr> {
        let unknown = || Error::new(ErrorKind::Retry, format!("{self}: no machine `{}` is known", self.host));
        let mut found =
            (self.host.as_str(), self.port).to_socket_addrs().map_err(|error| unknown().because(error))?;
        found.next().ok_or_else(unknown)
    }
}

impl FromStr for ServerAddress {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let refused = |what: &str| {
            Error::invalid(format!(
                "`{text}` is no server ({what}): expected resp://host:port or resp://host:port/database"
            ))
        };
        let rest = text.strip_prefix("resp://").ok_or_else(|| refused("it does not begin with resp://"))?;
        let (place, database) = rest.split_once('/').unwrap_or((rest, ""));
        let database = match database {
            "" => 0,
            number => number.parse().map_err(|_| refused("what follows the slash is no number"))?,
        };
        // An address of version 6 has colons of its own and stands in brackets.
        let (host, port) = match place.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, "")) => (host, None),
            Some((host, port)) => (host, Some(port.strip_prefix(':').ok_or_else(|| refused("no port"))?)),
            None => place.split_once(':').map_or((place, None), |(host, port)| (host, Some(port))),
        };
        let port = port.map_or(Ok(PORT_DEFAULT), str::parse).map_err(|_| refused("the port is no number"))?;
        if host.is_empty() || port == 0 {
            return Err(refused("host or port is missing"));
        }
        Ok(Self { host: host.to_owned(), port, database })
    }
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "resp://[{}]:{}", self.host, self.port)?,
            false => write!(f, "resp://{}:{}", self.host, self.port)?,
        }
        if self.database > 0 { write!(f, "/{}", self.database) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_shown() {
        let address = |host: &str, port, database| ServerAddress { host: host.to_owned(), port, database };
        for (text, expected, shown) in [
            ("resp://localhost", address("localhost", 6379, 0), "resp://localhost:6379"),
            ("resp://10.0.0.1:7000/", address("10.0.0.1", 7000, 0), "resp://10.0.0.1:7000"),
            ("resp://h:1/15", address("h", 1, 15), "resp://h:1/15"),
            ("resp://[::1]:7000/2", address("::1", 7000, 2), "resp://[::1]:7000/2"),
        ] {
            let found: ServerAddress = text.parse().unwrap();
            assert_eq!(found, expected);
            assert_eq!(found.to_string(), shown);
        }
    }

    #[test]
    fn what_is_no_address_is_refused_by_its_text() {
        for text in [
            "localhost:6379",
            "redis://h",
            "resp://",
            "resp://:1",
            "resp://h:x",
            "resp://h:0",
            "resp://h/x",
            "resp://[::1]x",
        ] {
            let error = text.parse::<ServerAddress>().unwrap_err();
            assert!(error.message().contains(text), "{text}: {error}");
        }
    }
}
