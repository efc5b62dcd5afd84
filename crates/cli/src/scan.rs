//! `firn scan`: records in order, or of an engine without order all of them.

use firn::{EngineKind, StoredRecord};
use firn_engine::{Direction, ReadAt, ScanRange};
use firn_server::served::{Served, ServedKey};

use crate::access::Access;
use crate::database::{Database, Place};
use crate::ending::{Ending, Failure, Result};
use crate::escape::Notation;
use crate::output::{Output, report};
use crate::served::{self, Selected, Wanted};

/// Print records in the order of their keys: key, tab, value, one record a line. The engine hashlog
/// keeps no order: of its databases they come by the hashes of their keys, which is said on
/// standard error, and --from, --to and --reverse are refused.
///
/// Of a database that `firn serve` has written it prints the keys of clients, with tabs between:
/// database, key, type, seconds until it expires (`-`: never), and the value of a string of up to
/// 64 KiB, or how many elements there are. `firn get` prints those. A terminal is shown a line with
/// the names of these columns first; a file or a pipe gets keys alone. Keys lie in the order of
/// their slots, so that --from, --to and --reverse go with --keyspace alone.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    notation: Notation,
    #[command(flatten)]
    selected: Selected,
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
    /// A record as a line.
    fn line(&self, key: &[u8], value: &[u8]) -> String {
        let mut line = self.notation.show(key);
        if !self.keys {
            line.push('\t');
            line.push_str(&self.notation.show(value));
        }
        line
    }

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
    database.warn_of_unseen()?;
    let printed = match database.served() {
        None if arguments.selected.database.is_some() => Err(served::not_served()),
        None if database.is_ordered() => print(arguments, &database, range),
        None => print_by_hash(arguments, &database, &range),
        Some(served) => print_served(arguments, &database, served, &range),
    };
    database.close()?;
    printed?;
    Ok(Ending::Done)
}

/// Prints keys of clients.
fn print_served(
    arguments: &Arguments,
    database: &Database,
    served: &Served,
    range: &ScanRange,
) -> Result<()> {
    if arguments.reverse || arguments.from.is_some() || arguments.to.is_some() {
        let what = "`firn serve` keeps keys in the order of their slots: use --prefix in place of --from, --to and --reverse";
        return Err(Failure::new(Ending::Usage, what));
    }
    let prefix = range.prefix.clone().unwrap_or_default();
    let mut output = Output::new();
    if output.is_terminal() {
        output.line(&served::head(!arguments.keys));
    }
    let wanted = Wanted { selected: arguments.selected, prefix, limit: arguments.limit.unwrap_or(u64::MAX) };
    let show = |key: &ServedKey, now_ms| served::line_of(key, now_ms, arguments.notation, !arguments.keys);
    let printed = served::scan(database, served, &wanted, show, &mut output);
    // What was found before the damage is still worth printing.
    output.finish()?;
    printed
}

/// Prints records of an engine that keeps no order.
fn print_by_hash(arguments: &Arguments, database: &Database, range: &ScanRange) -> Result<()> {
    let engine = database.engine_kind();
    if arguments.reverse || arguments.from.is_some() || arguments.to.is_some() {
        let what = format!(
            "the engine {engine} keeps keys in no order: use --prefix in place of --from, --to and --reverse, or copy \
             the database with `firn copy --engine {}`",
            EngineKind::Tree
        );
        return Err(Failure::new(Ending::Usage, what));
    }
    report(format_args!("firn: the engine {engine} keeps keys in no order: they come by their hashes"));
    let prefix = range.prefix.clone().unwrap_or_default();
    let records = database.records().all_records().map_err(|error| database.failure(&error))?;
    let is_wanted = |record: &firn::Result<StoredRecord>| {
        record.as_ref().map_or(true, |record| record.key.starts_with(&prefix))
    };
    let limit = usize::try_from(arguments.limit.unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
    let mut output = Output::new();
    for record in records.filter(is_wanted).take(limit) {
        match record {
            Ok(record) if !output.line(&arguments.line(&record.key, &record.value)) => break,
            Ok(_) => {}
            Err(error) => {
                // What was found before the damage is still worth printing.
                output.finish()?;
                return Err(database.failure(&error));
            }
        }
    }
    output.finish()
}

fn print(arguments: &Arguments, database: &Database, range: ScanRange) -> Result<()> {
    let mut session = database.ordered_session()?;
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
        if !output.line(&arguments.line(key, value)) {
            break;
        }
        left -= 1;
    }
    output.finish()
}
