//! The port that a process answers at by HTTP, as people say it.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use crate::output::report;

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
            port => port.parse().map(Self::At).map_err(|_| {
                "expected a number from 0 to 65535 (0 = a free port), or `none` for no HTTP".to_owned()
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

/// A port to listen on, as `--port` says it.
///
/// # Errors
/// It is none, with what is expected.
pub(crate) fn parse_port(text: &str) -> Result<u16, String> {
    text.parse().map_err(|_| "expected a number from 0 to 65535".to_owned())
}

/// Where HTTP is, as a clause of a process's first line with a `; ` before it. Where `at` is not
/// what was `wanted`, a line on standard error says why.
pub(crate) fn shown(wanted: Option<SocketAddr>, at: Option<SocketAddr>) -> String {
    let Some(at) = at else { return String::new() };
    if let Some(warning) = warning(wanted, at) {
        report(warning);
    }
    format!("; HTTP at http://{at}")
}

/// That HTTP is `at` another port than was `wanted`.
fn warning(wanted: Option<SocketAddr>, at: SocketAddr) -> Option<String> {
    let wanted = wanted.filter(|wanted| wanted.port() != 0 && wanted.port() != at.port())?;
    let port = wanted.port();
    Some(format!(
        "firn: HTTP is at http://{at}, since another process has port {port}: --http-port names one that stays"
    ))
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
        for at in [wanted, other].into_iter().flatten() {
            assert_eq!(shown(Some(at), Some(at)), format!("; HTTP at http://{at}"));
            assert_eq!((warning(Some(at), at), warning(any, at)), (None, None));
        }
        assert_eq!(shown(None, None), "");
        let warning = warning(wanted, other.expect("an address")).expect("a warning");
        assert!(warning.starts_with("firn: HTTP is at http://127.0.0.1:10, since"), "{warning}");
        assert!(warning.contains("has port 9: --http-port"), "{warning}");
    }
}
