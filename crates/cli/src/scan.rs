//! `firn scan`: records in order.

use firn_engine::{Direction, ReadAt, ScanRange};

use crate::access::Access;
use crate::database::{Database, Place};
use crate::ending::{Ending, Result};
use crate::escape::Notation;
use crate::output::Output;

/// Print records in the order of their keys: key, tab, value, one record a line.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    notation: Notation,
    /// The first key, included.
    #[arg(long, value_name = "KEY")]
    from: Option<String>,
    /// The key before which the scan ends.
    #[arg(long, value_name = "KEY")]
    to: Option<String>,
    /// Only keys that begin with these bytes.
    #[arg(long, value_name = "KEY")]
    prefix: Option<String>,
    /// From the greatest key down.
    #[arg(long)]
    reverse: bool,
    /// Most records printed.
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Print keys without values.
    #[arg(long)]
    keys: bool,
}

impl Arguments {
    fn range(&self) -> Result<ScanRange> {
        let parse = |text: &Option<String>| text.as_deref().map(|text| self.notation.parse(text)).transpose();
        Ok(ScanRange {
            start: parse(&self.from)?.unwrap_or_default(),
            end: parse(&self.to)?,
            prefix: parse(&self.prefix)?,
            direction: if self.reverse { Direction::Backward } else { Direction::Forward },
        })
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<Ending> {
    let range = arguments.range()?;
    let database = Database::open(&arguments.place, Access::Read)?;
    let printed = print(arguments, &database, range);
    database.close()?;
    printed?;
    Ok(Ending::Done)
}

fn print(arguments: &Arguments, database: &Database, range: ScanRange) -> Result<()> {
    let mut session = database.session();
    let scan = session.scan(ReadAt::Latest, database.keyspace(), range);
    let mut records = scan.map_err(|error| database.failure(&error))?;
    let mut output = Output::new();
    let mut left = arguments.limit.unwrap_or(u64::MAX);
    while left > 0 {
        let record = records.next_record().map_err(|error| database.failure(&error));
        let (key, value) = match record {
            Ok(Some(record)) => record,
            Ok(None) => break,
            Err(failure) => {
                // What was found before the damage is still worth printing.
                output.finish()?;
                return Err(failure);
            }
        };
        let mut line = arguments.notation.show(key);
        if !arguments.keys {
            line.push('\t');
            line.push_str(&arguments.notation.show(value));
        }
        if !output.line(&line) {
            break;
        }
        left -= 1;
    }
    output.finish()
}
