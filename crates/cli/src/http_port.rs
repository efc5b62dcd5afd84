//! The port that a process answers at by HTTP, as people say it.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

/// A port, or that there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HttpPort {
    /// `none`: there is no HTTP.
    None,
    /// 0 = one that is free.
    At(u16),
}

impl HttpPort {
    /// Where `firn serve` answers if nothing is said.
    pub(crate) const SERVE: Self = Self::At(9379);

    /// Where `firn control-plane` answers if nothing is said.
    pub(crate) const CONTROL_PLANE: Self = Self::At(9380);

    /// This port of `ip`, if there is HTTP.
    pub(crate) fn at(self, ip: IpAddr) -> Option<SocketAddr> {
        match self {
            Self::None => None,
            Self::At(port) => Some(SocketAddr::new(ip, port)),
        }
    }
}

impl FromStr for HttpPort {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(Self::None),
            port => port.parse().map(Self::At).map_err(|error| {
                format!("{error}; expected a port, 0 for a free one, or `none` for no HTTP")
            }),
        }
    }
}

impl fmt::Display for HttpPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::At(port) => write!(f, "{port}"),
        }
    }
}

/// Where HTTP is, as clauses of a process's first line, each with a `; ` before it: `at`, which may
/// not be what was `wanted`.
pub(crate) fn shown(wanted: Option<SocketAddr>, at: Option<SocketAddr>) -> String {
    let Some(at) = at else { return String::new() };
    let taken = wanted.filter(|wanted| wanted.port() != 0 && wanted.port() != at.port());
    let taken = taken.map_or_else(String::new, |wanted| format!("; port {} is taken", wanted.port()));
    format!("; HTTP at http://{at}{taken}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_a_number_or_none() {
        for (text, port) in [("none", HttpPort::None), ("0", HttpPort::At(0)), ("9379", HttpPort::SERVE)] {
            assert_eq!(text.parse(), Ok(port));
            assert_eq!(port.to_string(), text);
        }
        for text in ["", "None", "65536", "localhost:1"] {
            assert!(text.parse::<HttpPort>().expect_err(text).contains("`none` for no HTTP"), "{text}");
        }
    }

    #[test]
    fn a_port_in_place_of_another_is_said_with_the_reason() {
        let address = |text: &str| Some(text.parse().expect("an address"));
        let (wanted, other, any) = (address("127.0.0.1:9"), address("127.0.0.1:10"), address("127.0.0.1:0"));
        assert_eq!(shown(wanted, wanted), "; HTTP at http://127.0.0.1:9");
        assert_eq!(shown(any, other), "; HTTP at http://127.0.0.1:10");
        assert_eq!(shown(wanted, other), "; HTTP at http://127.0.0.1:10; port 9 is taken");
        assert_eq!(shown(None, None), "");
    }
}
