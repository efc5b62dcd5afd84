//! Files of keys: 8 bytes each, the lowest first, as FASTER's benchmark takes them.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;

use firn_engine::{Error, ErrorKind, Result};

/// Operations as YCSB's `basic` database prints them, each before the table and the key.
const OPERATIONS: [&str; 6] = ["INSERT", "READ", "UPDATE", "SCAN", "READMODIFYWRITE", "DELETE"];

/// What each of YCSB's keys begins with.
const USER: &str = "user";

/// The keys of `path`.
///
/// # Errors
/// `Invalid` if it cannot be read, is empty, or ends amid a key.
pub(super) fn read(path: &Path) -> Result<Vec<u64>> {
    let bytes = std::fs::read(path).map_err(failed("read", path))?;
    let (keys, rest) = bytes.as_chunks::<8>();
    if keys.is_empty() || !rest.is_empty() {
        let (path, found) = (path.display(), bytes.len());
        return Err(Error::invalid(format!(
            "{path} has {found} bytes, and a file of keys has 8 for each: `firn bench ycsb process-ycsb` makes one"
        )));
    }
    Ok(keys.iter().map(|key| u64::from_le_bytes(*key)).collect())
}

/// Writes the keys of the operations that YCSB has printed to `from` into `to`, 8 bytes each, the
/// lowest first; answers how many.
///
/// # Errors
/// `Invalid` if a file cannot be read or written, an operation has no key of YCSB's, or there is
/// none.
pub fn process_ycsb(from: &Path, to: &Path) -> Result<u64> {
    let mut lines = BufReader::new(File::open(from).map_err(failed("read", from))?).split(b'\n');
    let mut out = BufWriter::new(File::create(to).map_err(failed("create", to))?);
    let (mut count, mut number) = (0, 0_u64);
    while let Some(line) = lines.next().transpose().map_err(failed("read", from))? {
        number += 1;
        let line = String::from_utf8_lossy(&line);
        let mut words = line.split_ascii_whitespace();
        if !words.next().is_some_and(|word| OPERATIONS.contains(&word)) {
            continue;
        }
        let key = words.nth(1).and_then(|key| key.strip_prefix(USER)?.parse::<u64>().ok());
        let key = key.ok_or_else(|| {
            Error::invalid(format!(
                "{}, line {number}: expected a table and a key such as user42",
                from.display()
            ))
        })?;
        out.write_all(&key.to_le_bytes()).map_err(failed("write", to))?;
        count += 1;
    }
    out.flush().map_err(failed("write", to))?;
    match count {
        0 => Err(Error::invalid(format!(
            "{} has no operations: it is to be what YCSB prints with its database `basic`, as in \
             `ycsb load basic -P workloads/workloada`",
            from.display()
        ))),
        count => Ok(count),
    }
}

fn failed(what: &str, path: &Path) -> impl Fn(std::io::Error) -> Error {
    move |error| {
        let message = format!("cannot {what} {}", path.display());
        Error::new(ErrorKind::Invalid, message).because(error)
    }
}
