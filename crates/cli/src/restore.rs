//! `firn restore`: a database made of a backup.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use indicatif::ProgressBar;

use crate::access::Access;
use crate::database::{DIR, check_directory};
use crate::ending::{Ending, Failure, Result};
use crate::output::announce;
use crate::partial::check_target;
use crate::shared_storage::SharedName;
use crate::{progress, verify};

/// Make a database of a backup: check all of it, and copy it.
///
/// The database appears in its directory once it is whole. The backup stays as it is.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The backup, which no process has open.
    #[arg(long, value_name = "DIR")]
    from: PathBuf,
    /// The database's directory, which must be missing or empty.
    #[arg(long, value_name = "DIR", default_value = DIR)]
    dir: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Ending> {
    let (from, dir) = (&arguments.from, &arguments.dir);
    check_backup(from)?;
    check_target(dir)?;
    let report = verify::report(from, &SharedName::default())?;
    if let Some(first) = report.damage().next() {
        let what =
            format!("{} is damaged, so nothing was restored: {first}; see `firn verify`", from.display());
        return Err(Failure::new(Ending::Corrupt, what));
    }
    let partial = partial_of(dir)?;
    let copied = progress::during(&format!("copying {}", from.display()), |bar| copy(from, &partial, bar));
    let restored = copied.and_then(|bytes| {
        let folder =
            partial.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        fs::rename(&partial, dir).map_err(|error| Failure::file("make", dir, &error))?;
        File::open(folder)
            .and_then(|it| it.sync_all())
            .map_err(|error| Failure::file("sync", folder, &error))?;
        Ok(bytes)
    });
    let bytes = restored.inspect_err(|_| {
        // The next attempt cleans up as well.
        let _ = fs::remove_dir_all(&partial);
    })?;
    announce(format_args!("{} holds what {} held: {bytes} bytes", dir.display(), from.display()));
    Ok(Ending::Done)
}

/// Refuses what is no backup.
fn check_backup(from: &Path) -> Result<()> {
    if !from.exists() {
        let what = format!("there is no backup {}; check the path", from.display());
        return Err(Failure::new(Ending::Failed, what));
    }
    check_directory(from, Access::Read)
}

/// Where the database lies until it is whole.
fn partial_of(dir: &Path) -> Result<PathBuf> {
    let Some(name) = dir.file_name() else {
        return Err(Failure::new(Ending::Usage, format!("{} does not end with a name", dir.display())));
    };
    let mut partial = OsString::from(".");
    partial.push(name);
    partial.push(".restoring");
    Ok(dir.with_file_name(partial))
}

/// Copies all files of `from` into `to`, which is made anew, and makes them durable; how many bytes
/// they had.
fn copy(from: &Path, to: &Path, bar: &ProgressBar) -> Result<u64> {
    if to.exists() {
        fs::remove_dir_all(to).map_err(|error| Failure::file("clean up", to, &error))?;
    }
    // As all that the store makes: for the process's user alone.
    let made = DirBuilder::new().recursive(true).mode(0o700).create(to);
    made.map_err(|error| Failure::file("make", to, &error))?;
    let entries = fs::read_dir(from).map_err(|error| Failure::file("list", from, &error))?;
    let mut bytes = 0;
    for entry in entries {
        let source = entry.map_err(|error| Failure::file("list", from, &error))?.path();
        let Some(name) = source.file_name() else { continue };
        let target = to.join(name);
        let copied = fs::copy(&source, &target).and_then(|count| {
            File::open(&target)?.sync_all()?;
            Ok(count)
        });
        bytes += copied.map_err(|error| Failure::file("copy", &source, &error))?;
        bar.set_message(format!("{} MiB", bytes >> 20));
    }
    File::open(to).and_then(|it| it.sync_all()).map_err(|error| Failure::file("sync", to, &error))?;
    Ok(bytes)
}
