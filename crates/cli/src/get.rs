//! `firn get`: one value.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use firn_engine::{Error, ErrorKind, ReadAt};
use indicatif::{HumanBytes, ProgressBar};

use crate::access::Access;
use crate::database::{Database, Place};
use crate::ending::{Ending, Failure, Result};
use crate::escape::Notation;
use crate::output::Output;
use crate::progress;

/// Print the value of a key. Exit code 4 if it has none.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    notation: Notation,
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
    let is_found = match &arguments.file {
        Some(path) => progress::during(&format!("writing {}", path.display()), |bar| {
            to_file(&database, &key, path, bar)
        })?,
        None if arguments.raw => to_output(&database, &key)?,
        None => {
            let value = database.session().get(ReadAt::Latest, database.keyspace(), &key);
            let value = value.map_err(|error| database.failure(&error))?;
            let mut output = Output::new();
            if let Some(value) = &value {
                output.line(&arguments.notation.show(value));
            }
            output.finish()?;
            value.is_some()
        }
    };
    database.close()?;
    match is_found {
        true => Ok(Ending::Done),
        false => Err(Failure::new(Ending::NotFound, format!("the key '{}' has no value", arguments.key))),
    }
}

/// Prints the value as it is; whether there is one.
fn to_output(database: &Database, key: &[u8]) -> Result<bool> {
    let mut output = Output::new();
    let read = database.records().read_into(key, &mut output);
    // What the output has refused says more.
    output.finish()?;
    match read {
        Ok(bytes) => Ok(bytes.is_some()),
        Err(error) if is_broken_pipe(&error) => Ok(true),
        Err(error) => Err(database.failure(&error)),
    }
}

/// Writes the value to the file `path` as it is; whether there is one.
fn to_file(database: &Database, key: &[u8], path: &Path, bar: &ProgressBar) -> Result<bool> {
    let failed = |error| Failure::file("write", path, &error);
    // What is no file can only be written to.
    let is_special = fs::metadata(path).is_ok_and(|found| !found.is_file());
    let (partial, file) = match is_special {
        true => (None, File::options().write(true).open(path).map_err(failed)?),
        false => {
            let partial = Partial::beside(path);
            let file = File::create_new(&partial.0).map_err(|e| Failure::file("create", &partial.0, &e))?;
            (Some(partial), file)
        }
    };
    let mut target = Metered { file, written: 0, bar };
    let read = database.records().read_into(key, &mut target);
    let is_found = read.map_err(|error| database.failure(&error))?.is_some();
    if let (Some(partial), true) = (partial, is_found) {
        fs::rename(&partial.0, path).map_err(failed)?;
    }
    Ok(is_found)
}

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
