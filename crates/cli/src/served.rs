//! A database that `firn serve` has written, as `firn get`, `firn scan`, `firn stats` and
//! `firn verify` show it.

use std::io::{self, Write};

use firn_server::served::{Element, Finding, Kind, Served, ServedKey, ServedTotals};
use firn_storage::{Clock, SystemClock};

use crate::database::Database;
use crate::ending::{Ending, Failure, Result};
use crate::escape::Notation;
use crate::output::Output;

/// Findings that are printed; more are counted.
const FINDINGS_MAX: u64 = 1000;

/// Which of the databases that clients select.
#[derive(clap::Args, Clone, Copy, Debug)]
pub(crate) struct Selected {
    /// Of a database that `firn serve` has written: the number that clients select.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..i64::from(Served::DATABASES)))]
    pub(crate) database: Option<u32>,
}

/// Why `--database` is refused.
pub(crate) fn not_served() -> Failure {
    let what = "--database is for what `firn serve` has written, and it has not written this: leave it out, or name \
                another --dir; it does not go with --keyspace";
    Failure::new(Ending::Usage, what)
}

/// Which keys are printed.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) selected: Selected,
    pub(crate) prefix: Vec<u8>,
    /// So many at most.
    pub(crate) limit: u64,
}

/// The time that decides what has expired.
fn now_ms() -> u64 {
    SystemClock::new().unix_ms()
}

/// What stands at `key`, if anything does.
///
/// # Errors
/// As [`Served::get`].
pub(crate) fn find(
    database: &Database,
    served: &Served,
    selected: Selected,
    key: &[u8],
) -> Result<Option<ServedKey>> {
    let found = served.get(selected.database.unwrap_or(0), key, now_ms());
    found.map_err(|error| database.failure(&error))
}

/// Prints what stands at `key`: a string, or an element a line.
///
/// # Errors
/// As [`Served::elements`].
pub(crate) fn print(
    database: &Database,
    served: &Served,
    key: &ServedKey,
    notation: Notation,
    output: &mut Output,
) -> Result<()> {
    if key.kind() == Kind::String {
        let mut bytes = Vec::new();
        write_string(database, served, key, &mut bytes)?;
        output.line(&notation.show(&bytes));
        return Ok(());
    }
    let show = |bytes: &[u8]| notation.show(bytes);
    let printed = served.elements(key, &mut |element| {
        output.line(&match element {
            Element::Field(field, value) => format!("{}\t{}", show(&field), show(&value)),
            Element::Item(bytes) | Element::Member(bytes) => show(&bytes),
            Element::Scored(score, member) => format!("{score}\t{}", show(&member)),
        })
    });
    printed.map_err(|error| database.failure(&error))
}

/// Writes the string that stands at `key`, as it is.
///
/// # Errors
/// It is no string; as [`Served::string`]; what `out` says, but for a reader that has gone away.
pub(crate) fn write_string(
    database: &Database,
    served: &Served,
    key: &ServedKey,
    out: &mut dyn Write,
) -> Result<()> {
    if key.kind() != Kind::String {
        let what = format!(
            "the key holds a {}, which has no bytes of its own: print it without --raw and --file",
            key.kind()
        );
        return Err(Failure::new(Ending::Failed, what));
    }
    let mut refused = None;
    let written = served.string(key, &mut |bytes| {
        refused = out.write_all(bytes).err();
        refused.is_none()
    });
    written.map_err(|error| database.failure(&error))?;
    match refused {
        Some(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::new(Ending::Failed, format!("cannot write the value: {error}")))
        }
        _ => Ok(()),
    }
}

/// Prints the keys of clients, one a line: database, key, type, seconds until it expires, value.
///
/// # Errors
/// As [`Served::keys`]; what was found before is printed.
pub(crate) fn scan(
    database: &Database,
    served: &Served,
    wanted: &Wanted,
    show: impl Fn(&ServedKey, u64) -> String,
    output: &mut Output,
) -> Result<()> {
    let now_ms = now_ms();
    let mut left = wanted.limit;
    let keys = served.keys(wanted.selected.database, now_ms).map_err(|error| database.failure(&error))?;
    for key in keys {
        if left == 0 {
            return Ok(());
        }
        let key = key.map_err(|error| database.failure(&error))?;
        if key.key().starts_with(&wanted.prefix) {
            if !output.line(&show(&key, now_ms)) {
                return Ok(());
            }
            left -= 1;
        }
    }
    Ok(())
}

/// The names of the columns of [`line_of`].
pub(crate) fn head(with_value: bool) -> String {
    let head = "DATABASE\tKEY\tTYPE\tEXPIRES";
    if with_value { format!("{head}\tVALUE") } else { head.to_owned() }
}

/// A key as a line of `firn scan`, with or without what stands there.
pub(crate) fn line_of(key: &ServedKey, now_ms: u64, notation: Notation, with_value: bool) -> String {
    let expires = match key.expires_at_ms() {
        0 => "-".to_owned(),
        at_ms => format!("{} s", at_ms.saturating_sub(now_ms).div_ceil(1000)),
    };
    let mut line = format!("{}\t{}\t{}\t{expires}", key.database(), notation.show(key.key()), key.kind());
    if with_value {
        line.push('\t');
        match key.short_string() {
            Some(bytes) => line.push_str(&notation.show(bytes)),
            None => line.push_str(&format!("{} {}", key.count(), key.kind().parts(key.count()))),
        }
    }
    line
}

/// Says whose database it is, and which of its databases have keys.
///
/// # Errors
/// As [`Served::used_databases`].
pub(crate) fn summary(database: &Database, served: &Served) -> Result<String> {
    let used = served.used_databases().map_err(|error| database.failure(&error))?;
    let Some(used) = used else {
        return Ok("written by `firn serve`; `firn scan` shows its keys".to_owned());
    };
    let used: Vec<String> = used.iter().map(u32::to_string).collect();
    let used = match used.as_slice() {
        [] => "no keys".to_owned(),
        [one] => format!("keys in database {one}"),
        several => format!("keys in databases {}", several.join(", ")),
    };
    Ok(format!("written by `firn serve`: {used}; `firn scan` shows them"))
}

/// Looks at all that a server has written, and prints what is wrong; how many things are.
///
/// # Errors
/// As [`Served::verify`].
pub(crate) fn verify(
    database: &Database,
    served: &Served,
    output: &mut Output,
) -> Result<(ServedTotals, u64)> {
    let mut count = 0;
    let mut found = |finding: Finding| {
        count += 1;
        if count <= FINDINGS_MAX {
            output.line(&format!("damage: {finding}"));
        }
    };
    let totals = served.verify(&mut found).map_err(|error| database.failure(&error))?;
    if count > FINDINGS_MAX {
        output.line(&format!("and {} more", count - FINDINGS_MAX));
    }
    Ok((totals, count))
}
