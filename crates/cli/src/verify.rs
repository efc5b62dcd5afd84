//! `firn verify`: whether a database is sound.

use std::path::Path;

use firn_engine::Semantics;
use firn_tree::{VerifyOptions, VerifyReport};

use crate::access::Access;
use crate::database::{Directory, check_directory};
use crate::ending::{Ending, Failure, Result};
use crate::output::Output;
use crate::progress;
use crate::shared_storage::SharedName;

/// Check every checksum, reference and invariant of a database. Reads all of it and changes
/// nothing.
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
    output.line(&summary(&report));
    output.finish()?;
    if report.is_sound() {
        return Ok(Ending::Done);
    }
    let count = report.damage().count() as u64 + report.totals.findings_left_out;
    Err(Failure::new(Ending::Corrupt, format!("{} is damaged in {count} places; see above", dir.display())))
}

/// Checks all of the database in `dir` and where it is `shared`; shows how far it is.
pub(crate) fn report(dir: &Path, shared: &SharedName) -> Result<VerifyReport> {
    progress::during(&format!("verifying {}", dir.display()), |bar| {
        let options = VerifyOptions { storage: shared.files(dir)?, semantics: Semantics::new() };
        let report = firn_tree::verify(options, &mut |progress| {
            let [done, total] = [progress.bytes_done, progress.bytes_total].map(|bytes| bytes >> 20);
            bar.set_message(format!("{done} of {total} MiB"));
        });
        report.map_err(|error| Failure::database(dir, &error))
    })
}

fn summary(report: &VerifyReport) -> String {
    let totals = &report.totals;
    format!(
        "{}: {} files with {} bytes, {} keyspaces, {} manifest edits, {} log segments with {} records, \
         {} tables with {} entries; {} findings",
        if report.is_sound() { "sound" } else { "damaged" },
        totals.files,
        totals.bytes,
        totals.keyspaces,
        totals.manifest_edits,
        totals.log_segments,
        totals.log_records,
        totals.tables,
        totals.table_entries,
        report.findings.len() as u64 + totals.findings_left_out,
    )
}
