//! `firn put`: one value.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use firn::EngineKind;
use firn_engine::Position;
use indicatif::{HumanBytes, ProgressBar};

use crate::access::Access;
use crate::database::{Database, Place};
use crate::ending::{Ending, Failure, Result};
use crate::escape::Notation;
use crate::progress;

/// Set the value of a key. On return the write survives loss of power.
///
/// Clients of `firn serve` do not see what it writes, and it refuses a database that `firn serve`
/// has written. A database of records (`firn put`, a program with the library) and one of clients
/// are best two directories.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    notation: Notation,
    /// Create the database and the keyspace if they do not exist.
    #[arg(long)]
    create: bool,
    /// The engine of a new database: tree, or hashlog, which keeps keys in no order [default: tree]
    #[arg(long, value_name = "NAME", requires = "create")]
    engine: Option<EngineKind>,
    /// Take the value from this file as it is, with a few MiB of it in memory. From 4 MiB on that
    /// needs `separate_bytes` in the settings.
    #[arg(long, value_name = "FILE", conflicts_with = "value")]
    file: Option<PathBuf>,
    /// The key: UTF-8 with the escapes \xNN, \n, \r, \t, \0 and \\.
    key: String,
    /// The value, written as the key is; `-` takes standard input as it is, all of it in memory.
    #[arg(allow_hyphen_values = true, required_unless_present = "file")]
    value: Option<String>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Ending> {
    let key = arguments.notation.parse(&arguments.key)?;
    let access = if arguments.create { Access::Create } else { Access::Write };
    let open = || Database::open_as(&arguments.place, access, arguments.engine);
    let database = match (&arguments.file, arguments.value.as_deref()) {
        (Some(path), _) => {
            // Before a database is created for it.
            let mut source = Source::open(path)?;
            let database = open()?;
            let written = progress::during(&format!("reading {}", path.display()), |bar| {
                Ok(source.put(&database, &key, bar))
            })?;
            written.map_err(|error| database.failure(&error))?;
            database
        }
        (None, value) => {
            let value = match value {
                Some("-") | None => standard_input()?,
                Some(text) => arguments.notation.parse(text)?,
            };
            let database = open()?;
            let written = database.session().put(database.keyspace(), &key, &value, database.durable());
            written.map_err(|error| database.failure(&error))?;
            database
        }
    };
    database.close()?;
    Ok(Ending::Done)
}

fn standard_input() -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = std::io::stdin().lock().read_to_end(&mut bytes);
    read.map_err(|error| Failure::new(Ending::Failed, format!("cannot read standard input: {error}")))?;
    Ok(bytes)
}

/// A file that is a value.
struct Source {
    file: File,
    bytes: u64,
}

impl Source {
    fn open(path: &Path) -> Result<Self> {
        let failed = |error| Failure::file("read", path, &error);
        let file = File::open(path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        if !metadata.is_file() {
            let path = path.display();
            let message = format!(
                "{path} is no regular file, so that the length of the value is unknown: write it to a file first, or to standard input with the value `-`"
            );
            return Err(Failure::new(Ending::Failed, message));
        }
        Ok(Self { file, bytes: metadata.len() })
    }

    /// Sets `key` to all of it; `bar` shows how far that has come.
    fn put(&mut self, database: &Database, key: &[u8], bar: &ProgressBar) -> firn_engine::Result<Position> {
        let mut metered = Metered { file: &self.file, read: 0, bytes: self.bytes, bar };
        database.records().with_options(database.durable()).put_from(key, self.bytes, &mut metered)
    }
}

/// A file of which a bar shows how much was read.
struct Metered<'f> {
    file: &'f File,
    read: u64,
    bytes: u64,
    bar: &'f ProgressBar,
}

impl Read for Metered<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(out)?;
        self.read += read as u64;
        self.bar.set_message(format!("{} of {}", HumanBytes(self.read), HumanBytes(self.bytes)));
        Ok(read)
    }
}
