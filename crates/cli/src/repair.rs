//! `firn repair`: a database that damage keeps closed.

use std::path::Path;

use firn::EngineKind;
use firn_tree::RepairOptions;

use crate::access::Access;
use crate::database::{Directory, check_directory, check_division};
use crate::ending::{Ending, Failure, Result};
use crate::output::Output;
use crate::shared_storage::SharedName;

/// Make a damaged database open again where the rest of it is whole. That is a database whose
/// newest manifest edit is torn, or whose log is damaged amid what was never synced.
///
/// Prints one line for each file that it takes away or cuts, and why. Deletes nothing: such files
/// are kept beside the others, under names that end in `.aside`; remove them when you need them no
/// more. Loses nothing that was known to be on the device. Changes nothing where that cannot be, or
/// where an edit is torn and other things are damaged too (exit code 3): then restore a backup.
/// Damage of tables and blob segments alone is not looked for: `firn verify` finds it. No process
/// may have the database open.
///
/// Of a database on shared storage the log is mended: name the directory that has it, on its
/// machine, and --shared. A torn edit there stays, since other machines may have read it. A
/// database of the hashed engine is refused: restore a backup of it.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    dir: Directory,
    #[command(flatten)]
    shared: SharedName,
    /// Only print what would be done.
    #[arg(long)]
    dry_run: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Ending> {
    let Arguments { dir: Directory { dir }, shared, dry_run } = arguments;
    let is_shared = shared.shared.is_some();
    check_directory(dir, if is_shared { Access::ReadLog } else { Access::Read })?;
    check_division(dir, shared.shared.as_deref())?;
    check_engine(dir)?;
    let failed = |error: &firn_engine::Error| Failure::database(dir, error);
    let storage = shared.files(dir)?;
    // Its files, without those that other machines reach.
    let log = is_shared.then(|| SharedName::default().files(dir)).transpose()?;
    let options = RepairOptions { storage, log, dry_run: *dry_run };
    let steps = firn_tree::repair(&options).map_err(|error| failed(&error))?;
    let mut output = Output::new();
    for step in &steps {
        output.line(&step.to_string());
    }
    output.line(match (steps.is_empty(), dry_run) {
        (true, _) => {
            "no edit is torn and no log is damaged: there is nothing that this mends; whether tables and all else are whole, \
             `firn verify` says"
        }
        (false, true) => "nothing was changed: run it without --dry-run to do this",
        (false, false) => "repaired; `firn verify` checks all of the database",
    });
    output.finish()?;
    Ok(Ending::Done)
}

/// Refuses a database of the hashed engine, of which nothing is mended.
fn check_engine(dir: &Path) -> Result<()> {
    let found = EngineKind::of(dir).map_err(|error| Failure::database(dir, &error))?;
    if found != Some(EngineKind::Hash) {
        return Ok(());
    }
    let what = format!(
        "{} is a database of the engine `{}`, of which this mends nothing: `firn verify` says what is damaged, and \
         `firn restore` makes a database of a backup",
        dir.display(),
        EngineKind::Hash
    );
    Err(Failure::new(Ending::Failed, what))
}
