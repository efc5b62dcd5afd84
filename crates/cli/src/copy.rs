//! `firn copy`: a database as another engine keeps it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use firn::{EngineKind, PointDb, RecordTotals, StoredRecord};
use firn_engine::Error;
use firn_server::served::{Served, Transfer};
use firn_storage::{Clock, SystemClock};
use indicatif::{HumanBytes, ProgressBar};

use crate::access::Access;
use crate::database::{Database, Place};
use crate::ending::{Ending, Failure, Result};
use crate::output::announce;
use crate::partial::Partial;
use crate::progress;

/// Copy a database into a new one that another engine keeps, or the same engine anew.
///
/// Copies all keyspaces with their settings, and all records with when they expire; what has
/// expired or was deleted is left behind, and merge operands are put into their values. It then
/// reads the copy, and compares it with what it has read. The copy appears in its directory once it
/// is whole. No other process may have the database open; it stays as it is. Of what `firn serve`
/// has written the engine hashlog takes strings alone. A value at a time is in memory.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    place: Place,
    /// The copy's directory, which must be missing or empty.
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    /// The engine that keeps the copy: tree, or hashlog, which keeps keys in no order.
    #[arg(long, value_name = "NAME")]
    engine: EngineKind,
}

/// A clock whose calendar stands still, so that nothing expires between two readings.
#[derive(Debug)]
struct Standing {
    clock: SystemClock,
    unix_ms: u64,
}

impl Clock for Standing {
    fn now(&self) -> Duration {
        self.clock.now()
    }

    fn unix_ms(&self) -> u64 {
        self.unix_ms
    }

    fn sleep(&self, time: Duration) {
        self.clock.sleep(time);
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<Ending> {
    let (from, to) = (arguments.place.dir(), arguments.to.as_path());
    check_apart(from, to)?;
    let clock = SystemClock::new();
    let clock: Arc<dyn Clock> = Arc::new(Standing { unix_ms: clock.unix_ms(), clock });
    let database = Database::open_at(&arguments.place, Access::Read, None, Some(Arc::clone(&clock)))?;
    let transfer = plan(&database, arguments.engine, clock.unix_ms())?;
    let partial = Partial::begin(to)?;
    let copied = copy(arguments, (&database, transfer.as_ref()), &partial.path, clock);
    let closed = database.close();
    match copied.and_then(|totals| closed.map(|()| totals)) {
        Ok(totals) => {
            partial.finish()?;
            announce(format_args!(
                "{} holds what {} holds, as the engine {} keeps it: {} and {}, read again and compared",
                to.display(),
                from.display(),
                arguments.engine,
                match totals.records {
                    1 => "1 record".to_owned(),
                    records => format!("{records} records"),
                },
                match totals.bytes {
                    1 => "1 byte".to_owned(),
                    bytes => format!("{bytes} bytes"),
                },
            ));
            Ok(Ending::Done)
        }
        Err(failure) => {
            partial.abandon();
            Err(failure)
        }
    }
}

/// Refuses to copy into the database itself.
fn check_apart(from: &Path, to: &Path) -> Result<()> {
    let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match (from.canonicalize(), folder.canonicalize()) {
        (Ok(from), Ok(folder)) if folder.starts_with(&from) => {
            let what =
                format!("{} lies in the database {}: name another directory", to.display(), from.display());
            Err(Failure::new(Ending::Failed, what))
        }
        _ => Ok(()),
    }
}

/// Which records of clients of `firn serve` go to the engine `to`, if it has written the database.
///
/// # Errors
/// The engine cannot take all that clients have.
fn plan(database: &Database, to: EngineKind, now_ms: u64) -> Result<Option<Transfer>> {
    let Some(served) = database.served() else { return Ok(None) };
    let planned = progress::during("looking at what clients have", |_| {
        served.transfer(to, now_ms).map_err(|error| database.failure(&error))
    })?;
    planned.map(Some).map_err(|unfit| {
        let what = format!(
            "{} holds {unfit}, which need keys in order, and the engine {to} keeps none: nothing was copied; copy with \
             --engine {}",
            database.dir().display(),
            EngineKind::Tree
        );
        Failure::new(Ending::Failed, what)
    })
}

/// Makes the copy at `path`, and compares it with what was read.
fn copy(
    arguments: &Arguments,
    (database, transfer): (&Database, Option<&Transfer>),
    path: &Path,
    clock: Arc<dyn Clock>,
) -> Result<RecordTotals> {
    let failed = |error: Error| Failure::database(&arguments.to, &error);
    let builder = arguments.place.builder(path)?.engine(arguments.engine).clock(clock);
    let copy = builder.open_points().map_err(failed)?;
    let what = format!("copying {}", arguments.place.dir().display());
    let written = progress::during(&what, |bar| {
        if transfer.is_some() {
            Served::prepare(&copy).map_err(failed)?;
        }
        let mut shown = Shown::new(bar);
        let mut keep = |name: &str, record: &StoredRecord| {
            let is_kept = transfer.is_none_or(|transfer| transfer.takes(name, record));
            shown.add(record);
            is_kept
        };
        let written = database.points().transfer_to(&copy, &mut keep).map_err(failed)?;
        copy.flush().map_err(failed)?;
        Ok(written)
    })?;
    compare(arguments, &copy, written)?;
    copy.close().map_err(failed)?;
    Ok(written)
}

/// Reads all of `copy`, and refuses it if it does not hold what was `written`.
fn compare(arguments: &Arguments, copy: &PointDb, written: RecordTotals) -> Result<()> {
    let found = progress::during(&format!("comparing {}", arguments.to.display()), |bar| {
        let mut shown = Shown::new(bar);
        let found = copy.record_totals(&mut |_, record| shown.add(record));
        found.map_err(|error| Failure::database(&arguments.to, &error))
    })?;
    if found == written {
        return Ok(());
    }
    let what = format!(
        "the copy of {} differs from it, and was removed: {} records and {} bytes were written, {} and {} were found",
        arguments.place.dir().display(),
        written.records,
        written.bytes,
        found.records,
        found.bytes
    );
    Err(Failure::new(Ending::Corrupt, what))
}

/// How far a bar says that all records are.
struct Shown<'b> {
    bar: &'b ProgressBar,
    records: u64,
    bytes: u64,
}

impl<'b> Shown<'b> {
    /// Records between two messages.
    const STRIDE: u64 = 1024;

    fn new(bar: &'b ProgressBar) -> Self {
        Self { bar, records: 0, bytes: 0 }
    }

    fn add(&mut self, record: &StoredRecord) {
        self.records += 1;
        self.bytes += (record.key.len() + record.value.len()) as u64;
        if self.records.is_multiple_of(Self::STRIDE) {
            self.bar.set_message(format!("{} records, {}", self.records, HumanBytes(self.bytes)));
        }
    }
}
