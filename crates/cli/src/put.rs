//! `firn put`: one value.

use std::io::Read;

use crate::database::{Access, Database, Place};
use crate::ending::{Ending, Failure, Result};
use crate::escape::Notation;

/// Set the value of a key. On return the write survives loss of power.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    notation: Notation,
    /// Create the database and the keyspace if they do not exist.
    #[arg(long)]
    create: bool,
    /// The key: UTF-8 with the escapes \\xNN, \\n, \\r, \\t, \\0 and \\\\.
    key: String,
    /// The value, written as the key is; `-` takes standard input as it is.
    #[arg(allow_hyphen_values = true)]
    value: String,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Ending> {
    let key = arguments.notation.parse(&arguments.key)?;
    let value = match arguments.value.as_str() {
        "-" => standard_input()?,
        text => arguments.notation.parse(text)?,
    };
    let access = if arguments.create { Access::Create } else { Access::Write };
    let database = Database::open(&arguments.place, access)?;
    let written = database.session().put(database.keyspace(), &key, &value, database.durable());
    written.map_err(|error| database.failure(&error))?;
    database.close()?;
    Ok(Ending::Done)
}

fn standard_input() -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = std::io::stdin().lock().read_to_end(&mut bytes);
    read.map_err(|error| Failure::new(Ending::Failed, format!("cannot read standard input: {error}")))?;
    Ok(bytes)
}
