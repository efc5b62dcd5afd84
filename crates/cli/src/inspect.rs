//! `firn inspect`: what lies where in a file.

use std::path::{Path, PathBuf};

use firn_format::dump::describe;

use crate::ending::{Ending, Failure, Result};
use crate::output::Output;
use crate::shared_storage::open_backend;

/// Show what a database file holds, with offsets and meaning. Opens no database and changes
/// nothing.
///
/// Each line has the offset in the file, a count of bytes, a field and its meaning. The dump goes
/// on past a checksum that does not match as far as the bytes make sense, and ends with the first
/// error. The end of a log after a crash is such an error, although recovery takes it for what it
/// is.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// A log segment, manifest edit, table, blob segment, log object, or a segment or redo log of
    /// the hashed engine; the kind is told by its name, else by its first bytes.
    file: PathBuf,
    /// Where the file lies, if that is no path of this machine: as `firn serve --shared` has it
    /// (s3://BUCKET/PREFIX, ...). FILE is its name there.
    #[arg(long, value_name = "LOCATION")]
    shared: Option<String>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Ending> {
    let path = &arguments.file;
    let bytes = match &arguments.shared {
        Some(location) => read_shared(location, &path.to_string_lossy())?,
        None => read(path)?,
    };
    let mut output = Output::new();
    let described = describe(&path.to_string_lossy(), &bytes, &mut output);
    output.finish()?;
    match described {
        Ok(Some(error)) => {
            let message = format!("{} at offset {}: {error}", path.display(), error.offset);
            // What a newer release wrote is not damaged.
            let ending = if error.is_newer { Ending::Failed } else { Ending::Corrupt };
            Err(Failure::new(ending, message))
        }
        // A refused line is a reader gone away, or an error that `finish` has reported.
        Ok(None) | Err(_) => Ok(Ending::Done),
    }
}

fn read(path: &Path) -> Result<Vec<u8>> {
    if path.is_dir() {
        let message =
            format!("{} is a directory: name one of its files, or use `firn verify`", path.display());
        return Err(Failure::new(Ending::Failed, message));
    }
    std::fs::read(path).map_err(|error| Failure::file("read", path, &error))
}

/// The bytes of the file `name` of a backend that other machines reach.
fn read_shared(location: &str, name: &str) -> Result<Vec<u8>> {
    let storage = open_backend(location, None, false)?;
    let read = storage.open_read(name).and_then(|file| {
        let mut bytes = vec![0; file.len() as usize];
        file.read_at(0, &mut bytes).map(|()| bytes)
    });
    read.map_err(|error| Failure::new(Ending::Failed, format!("cannot read {name} of {location}: {error}")))
}
