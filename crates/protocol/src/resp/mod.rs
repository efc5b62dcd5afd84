//! The Redis serialization protocol, versions 2 and 3.
//!
//! ```text
//!   request  *2\r\n$3\r\nGET\r\n$1\r\nk\r\n   an array of bulk strings, or inline: GET k\r\n
//!   reply    $5\r\nvalue\r\n                   one value, of a type that its first byte tells
//! ```
//! Source: the protocol's public specification, and the error texts that clients of Redis 7.0 see.

mod owned;
mod request;
mod inline;
mod reply;
mod value;

pub use owned::OwnedArguments;
pub use reply::{Mark, Protocol, Reply};
pub use request::{Arguments, Limits, Parsed, Parser, ProtocolError, Span};
pub use value::{DecodeError, Value, decode, measure};
