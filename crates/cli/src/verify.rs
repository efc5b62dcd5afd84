//! `firn verify`: whether a database is sound.

use std::path::Path;

use firn::{EngineKind, VerifyProgress, VerifyReport};
use firn_engine::{Error, Semantics};
use firn_server::served::{Served, ServedTotals};
use firn_tree::VerifyOptions;

use crate::access::Access;
use crate::database::{Database, Directory, Place, check_directory, check_division};
use crate::ending::{Ending, Failure, Result};
use crate::output::Output;
use crate::progress;
use crate::served;
use crate::shared_storage::SharedName;

/// Check every checksum, reference and invariant of a database. Reads all of it and changes
/// nothing. Of a database that `firn serve` has written, check as well that every record is one
/// that it writes, and that those of one key fit together.
///
/// Prints one line for each finding: damage, with file and offset, or a leftover that the next
/// opening removes. Exit code 3 if there is damage. Runs beside readers, not beside a writer. Of a
/// database on shared storage the directory that has the log tells whether there is a writer: name
/// that directory, on its machine.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    dir: Directory,
    #[command(flatten)]
    shared: SharedName,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Ending> {
    let dir = &arguments.dir.dir;
    let access = if arguments.shared.shared.is_some() { Access::ReadLog } else { Access::Read };
    check_directory(dir, access)?;
    check_division(dir, arguments.shared.shared.as_deref())?;
    let report = report(dir, &arguments.shared)?;
    let mut output = Output::new();
    for finding in &report.findings {
        output.line(&finding.to_string());
    }
    let unchecked = report.totals.prefix_filters_unchecked;
    if unchecked > 0 {
        // Extractors are code of the program that owns the database.
        output.line(&format!(
            "not checked: the prefix filters of {unchecked} tables, whose extractors are not known here"
        ));
    }
    let served = match report.is_sound() && Served::KEYSPACES.iter().all(|name| has(&report, name)) {
        true => verify_served(arguments, &mut output)?,
        false => None,
    };
    let is_sound = report.is_sound() && served.is_none_or(|(_, count)| count == 0);
    output.line(&summary(&report, is_sound, served));
    output.finish()?;
    if is_sound {
        return Ok(Ending::Done);
    }
    let damage = report.damage().count() as u64 + report.totals.findings_left_out;
    let count = damage + served.map_or(0, |(_, count)| count);
    Err(Failure::new(
        Ending::Corrupt,
        format!("{} is damaged in {}; see above", dir.display(), counted(count, "place")),
    ))
}

/// Checks all of the database in `dir` and where it is `shared`; shows how far it is.
pub(crate) fn report(dir: &Path, shared: &SharedName) -> Result<VerifyReport> {
    progress::during(&format!("verifying {}", dir.display()), |bar| {
        let mut show = |progress: VerifyProgress| {
            let [done, total] = [progress.bytes_done, progress.bytes_total].map(|bytes| bytes >> 20);
            bar.set_message(format!("{done} of {total} MiB"));
        };
        let report = match &shared.shared {
            None => firn::verify(dir, show),
            Some(_) if EngineKind::of(dir).is_ok_and(|kind| kind == Some(EngineKind::Hash)) => {
                Err(Error::invalid(format!(
                    "a database of the engine `{}` on shared storage is not verified: verify a copy, which `firn backup` makes",
                    EngineKind::Hash
                )))
            }
            Some(_) => {
                let options = VerifyOptions { storage: shared.files(dir)?, semantics: Semantics::new() };
                firn_tree::verify(options, &mut show)
            }
        };
        report.map_err(|error| Failure::database(dir, &error))
    })
}

fn has(report: &VerifyReport, keyspace: &str) -> bool {
    report.keyspaces.iter().any(|name| name == keyspace)
}

/// What `firn serve` has written, if it has, and in how many places it is wrong.
fn verify_served(arguments: &Arguments, output: &mut Output) -> Result<Option<(ServedTotals, u64)>> {
    let database = Database::open(&Place::of(&arguments.dir.dir, &arguments.shared), Access::Read)?;
    let verified = database.served().map(|served| served::verify(&database, served, output));
    let verified = verified.transpose()?;
    database.close()?;
    Ok(verified)
}

fn summary(report: &VerifyReport, is_sound: bool, served: Option<(ServedTotals, u64)>) -> String {
    let totals = &report.totals;
    let (served, found) = match served {
        None => (String::new(), 0),
        Some((totals, found)) => {
            let (keys, parts) = (counted(totals.keys, "key"), counted(totals.parts, "part"));
            (format!(", {keys} and {parts} of clients"), found)
        }
    };
    let findings = report.findings.len() as u64 + totals.findings_left_out + found;
    // Every database of the hashed engine that was opened has redo logs, and no other.
    let beside = match (totals.redo_logs, totals.values) {
        (0, _) => String::new(),
        (logs, values) => format!(
            ", {} with {}, {} of its own",
            counted(logs, "redo log"),
            counted(totals.redo_changes, "change"),
            counted(values, "value")
        ),
    };
    format!(
        "{}: {} with {}, {}, {}, {} with {}, {} with {}{beside}{served}; {}",
        if is_sound { "sound" } else { "damaged" },
        counted(totals.files, "file"),
        counted(totals.bytes, "byte"),
        counted(totals.keyspaces, "keyspace"),
        counted(totals.manifest_edits, "manifest edit"),
        counted(totals.log_segments, "log segment"),
        counted(totals.log_records, "record"),
        counted(totals.tables, "table"),
        match totals.table_entries {
            1 => "1 entry".to_owned(),
            entries => format!("{entries} entries"),
        },
        counted(findings, "finding"),
    )
}

/// So many of what one is called `one`.
fn counted(number: u64, one: &str) -> String {
    format!("{number} {one}{}", if number == 1 { "" } else { "s" })
}
