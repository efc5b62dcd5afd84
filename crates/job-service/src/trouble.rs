//! Why a control plane is not heard, and what can be done about it.

use std::error::Error;
use std::io;

use rustls::CertificateError;
use tonic::{Code, Status, TimeoutExpired};

/// What a client knows about the control plane that does not answer it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    /// By `https://`.
    pub(crate) is_encrypted: bool,
    /// A certificate would have been shown.
    pub(crate) has_identity: bool,
    /// It has answered before, so that it is no question of certificates.
    pub(crate) has_answered: bool,
}

/// What went wrong, with its causes and what to do.
pub(crate) fn explain(asked: Asked, status: &Status) -> String {
    let text = causes(status);
    match advice(asked, status) {
        Some(advice) => format!("{text}: {advice}"),
        None => text,
    }
}

/// Whether nothing listens where the control plane should be.
pub(crate) fn is_absent(status: &Status) -> bool {
    let said = |error: &(dyn Error + 'static)| error.downcast_ref().map(io::Error::kind);
    chain(status).any(|error| said(error) == Some(io::ErrorKind::ConnectionRefused))
}

/// What `error` and its causes say, each thing once.
pub(crate) fn causes(error: &(dyn Error + 'static)) -> String {
    let mut text = error.downcast_ref::<Status>().map_or_else(|| error.to_string(), |it| it.message().into());
    for cause in chain(error).skip(1) {
        let said = cause.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
    }
    text
}

/// `error` and what caused it.
fn chain<'e>(error: &'e (dyn Error + 'static)) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error| (*error).source())
}

/// What the client can change, where that is known.
fn advice(asked: Asked, status: &Status) -> Option<&'static str> {
    let of_tls = |error: &'_ (dyn Error + 'static)| {
        let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        error.downcast_ref().or_else(|| inner.and_then(|inner| inner.downcast_ref())).and_then(of_handshake)
    };
    chain(status).find_map(of_tls).or_else(|| of_end(asked, status))
}

/// The two sides could not agree.
fn of_handshake(error: &rustls::Error) -> Option<&'static str> {
    use CertificateError as Wrong;
    use rustls::Error::{InvalidCertificate, InvalidMessage};
    match error {
        InvalidMessage(_) => {
            Some("it does not speak TLS: say http://, or start it with --tls-cert and --tls-key")
        }
        InvalidCertificate(Wrong::UnknownIssuer) => {
            Some("name the CA that signed its certificate with --control-plane-ca")
        }
        InvalidCertificate(Wrong::NotValidForName | Wrong::NotValidForNameContext { .. }) => {
            Some("call it by a name that is in its certificate, or start it with one for this name")
        }
        InvalidCertificate(Wrong::Expired | Wrong::ExpiredContext { .. }) => {
            Some("start it with a certificate that is valid")
        }
        _ => None,
    }
}

/// A connection that came about is closed without an answer. With TLS 1.3 a client may hear no more
/// if its certificate is refused: it has agreed before the other side has seen it. A side that
/// speaks TLS hears nothing that it understands from a side that does not.
fn of_end(asked: Asked, status: &Status) -> Option<&'static str> {
    let is_closed = matches!(status.code(), Code::Unknown | Code::Cancelled | Code::Internal)
        && status.source().is_some_and(|source| source.is::<tonic::transport::Error>())
        && !chain(status).any(|cause| cause.is::<TimeoutExpired>());
    if asked.has_answered || !is_closed {
        return None;
    }
    Some(match (asked.is_encrypted, asked.has_identity) {
        (false, _) => {
            "it closed the connection: if it was started with --tls-cert, say https://; or it has as many as its --connections-max"
        }
        (true, false) => {
            "it closed the connection: if it was started with --tls-client-ca, give a certificate with --control-plane-cert and \
             --control-plane-key; or it has as many as its --connections-max"
        }
        (true, true) => {
            "it closed the connection: the CA of its --tls-client-ca must have signed the certificate of --control-plane-cert; or it has as \
             many as its --connections-max"
        }
    })
}
