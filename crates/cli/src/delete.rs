//! `firn delete`: one key.

use crate::access::Access;
use crate::database::{Database, Place};
use crate::ending::{Ending, Result};
use crate::escape::Notation;

/// Remove a key. On return the removal survives loss of power; a key without a value is no error.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    notation: Notation,
    /// The key: UTF-8 with the escapes \xNN, \n, \r, \t, \0 and \\.
    key: String,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Ending> {
    let key = arguments.notation.parse(&arguments.key)?;
    let database = Database::open(&arguments.place, Access::Write)?;
    let written = database.session().delete(database.keyspace(), &key, database.durable());
    written.map_err(|error| database.failure(&error))?;
    database.close()?;
    Ok(Ending::Done)
}
