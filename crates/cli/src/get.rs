//! `firn get`: one value.

use firn_engine::ReadAt;

use crate::database::{Access, Database, Place};
use crate::ending::{Ending, Failure, Result};
use crate::escape::Notation;
use crate::output::Output;

/// Print the value of a key. Exit code 4 if it has none.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    notation: Notation,
    /// Print the value's bytes as they are, without escapes and without a newline.
    #[arg(long)]
    raw: bool,
    /// The key: UTF-8 with the escapes \\xNN, \\n, \\r, \\t, \\0 and \\\\.
    key: String,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Ending> {
    let key = arguments.notation.parse(&arguments.key)?;
    let database = Database::open(&arguments.place, Access::Read)?;
    let value = database.session().get(ReadAt::Latest, database.keyspace(), &key);
    let value = value.map_err(|error| database.failure(&error))?;
    database.close()?;
    let Some(value) = value else {
        return Err(Failure::new(Ending::NotFound, format!("the key '{}' has no value", arguments.key)));
    };
    let mut output = Output::new();
    match arguments.raw {
        true => output.bytes(&value),
        false => output.line(&arguments.notation.show(&value)),
    };
    output.finish()?;
    Ok(Ending::Done)
}
