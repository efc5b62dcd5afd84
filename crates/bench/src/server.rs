//! A server that speaks RESP, as a client meets it: where it is, and a connection that says one
//! thing at a time.

mod address;
mod dialog;

pub use address::{PORT_DEFAULT, ServerAddress};
pub(crate) use dialog::{Dialog, SILENCE_MAX};
