//! `firn get`: one value.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use firn_engine::{Error, ErrorKind, ReadAt};
use firn_server::served::{Served, ServedKey};
use indicatif::{HumanBytes, ProgressBar};

use crate::access::Access;
use crate::database::{Database, Place};
use crate::ending::{Ending, Failure, Result};
use crate::escape::Notation;
use crate::output::Output;
use crate::progress;
use crate::served::{self, Selected};

/// Print the value of a key. Exit code 4 if it has none.
///
/// Of a database that `firn serve` has written it prints what clients have at the key: a string, or
/// the elements of a hash, list, set or sorted set, one a line.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    notation: Notation,
    #[command(flatten)]
    selected: Selected,
    /// Print the value's bytes as they are, without escapes and without a newline, a few MiB at a
    /// time.
    #[arg(long)]
    raw: bool,
    /// Write the value's bytes as they are to this file, a few MiB at a time. It is replaced once
    /// all of them are there.
    #[arg(long, value_name = "FILE", conflicts_with = "raw")]
    file: Option<PathBuf>,
    /// The key: UTF-8 with the escapes \xNN, \n, \r, \t, \0 and \\.
    key: String,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Ending> {
    let key = arguments.notation.parse(&arguments.key)?;
    let database = Database::open(&arguments.place, Access::Read)?;
    database.warn_of_unseen()?;
    let value = Value::find(&database, arguments.selected, &key)?;
    let is_found = match &arguments.file {
        Some(path) => {
            progress::during(&format!("writing {}", path.display()), |bar| to_file(&value, path, bar))?
        }
        None if arguments.raw => to_output(&value)?,
        None => {
            let mut output = Output::new();
            let is_found = value.print(arguments.notation, &mut output);
            output.finish()?;
            is_found?
        }
    };
    database.close()?;
    match is_found {
        true => Ok(Ending::Done),
        false => Err(Failure::new(Ending::NotFound, format!("the key '{}' has no value", arguments.key))),
    }
}

/// A value, wherever it is read from.
enum Value<'d> {
    /// Of the keyspace that is named, if there is one.
    Record { database: &'d Database, key: Vec<u8> },
    /// What a client of `firn serve` has, if it has something.
    Served { database: &'d Database, served: &'d Served, key: Option<ServedKey> },
}

impl<'d> Value<'d> {
    fn find(database: &'d Database, selected: Selected, key: &[u8]) -> Result<Self> {
        match database.served() {
            None if selected.database.is_some() => Err(served::not_served()),
            None => Ok(Self::Record { database, key: key.to_vec() }),
            Some(served) => {
                Ok(Self::Served { database, served, key: served::find(database, served, selected, key)? })
            }
        }
    }

    /// Prints it for people; whether there is one.
    fn print(&self, notation: Notation, output: &mut Output) -> Result<bool> {
        match self {
            Self::Record { database, key } => {
                let value = database.session().get(ReadAt::Latest, database.keyspace(), key);
                let value = value.map_err(|error| database.failure(&error))?;
                if let Some(value) = &value {
                    output.line(&notation.show(value));
                }
                Ok(value.is_some())
            }
            Self::Served { key: None, .. } => Ok(false),
            Self::Served { database, served, key: Some(key) } => {
                served::print(database, served, key, notation, output).map(|()| true)
            }
        }
    }

    /// Writes it as it is; whether there is one. A reader that has gone away is no failure.
    fn write(&self, out: &mut dyn Write) -> Result<bool> {
        match self {
            Self::Record { database, key } => match database.records().read_into(key, out) {
                Ok(bytes) => Ok(bytes.is_some()),
                Err(error) if is_broken_pipe(&error) => Ok(true),
                Err(error) => Err(database.failure(&error)),
            },
            Self::Served { key: None, .. } => Ok(false),
            Self::Served { database, served, key: Some(key) } => {
                served::write_string(database, served, key, out).map(|()| true)
            }
        }
    }
}

/// Prints the value as it is; whether there is one.
fn to_output(value: &Value<'_>) -> Result<bool> {
    let mut output = Output::new();
    let is_found = value.write(&mut output);
    // What the output has refused says more.
    output.finish()?;
    is_found
}

/// Writes the value to the file `path` as it is; whether there is one.
fn to_file(value: &Value<'_>, path: &Path, bar: &ProgressBar) -> Result<bool> {
    let failed = |error| Failure::file("write", path, &error);
    // What is no file can only be written to.
    let is_special = fs::metadata(path).is_ok_and(|found| !found.is_file());
    let (partial, file) = match is_special {
        true => (None, File::options().write(true).open(path).map_err(failed)?),
        false => {
            let partial = Partial::beside(path);
            let file = File::options().write(true).create_new(true).mode(FILE_MODE).open(&partial.0);
            (Some(partial), file.map_err(|error| Failure::file("create", path, &error))?)
        }
    };
    let is_found = value.write(&mut Metered { file, written: 0, bar })?;
    if let (Some(partial), true) = (partial, is_found) {
        fs::rename(&partial.0, path).map_err(failed)?;
    }
    Ok(is_found)
}

/// What a file of a database's content lets in: its user alone, as those of the database do.
const FILE_MODE: u32 = 0o600;

/// A file that is not whole, and goes with this.
struct Partial(PathBuf);

impl Partial {
    fn beside(path: &Path) -> Self {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{}.part", std::process::id()));
        Self(name.into())
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        // Once it has its name there is none.
        let _removed = fs::remove_file(&self.0);
    }
}

/// A file of which a bar shows how much was written.
struct Metered<'b> {
    file: File,
    written: u64,
    bar: &'b ProgressBar,
}

impl Write for Metered<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.written += written as u64;
        self.bar.set_message(HumanBytes(self.written).to_string());
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Whether the reader of the output has gone away, which is no failure.
fn is_broken_pipe(error: &Error) -> bool {
    let cause = std::error::Error::source(error).and_then(|cause| cause.downcast_ref::<io::Error>());
    let is_broken_pipe = cause.is_some_and(|cause| cause.kind() == io::ErrorKind::BrokenPipe);
    is_broken_pipe && error.kind() == ErrorKind::Invalid
}
