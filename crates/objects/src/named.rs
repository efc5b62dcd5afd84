//! Shared places by the names that people give them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use firn_storage::place::{Local, LocalOptions, Mounted, Throttle};
use firn_storage::{Error, ErrorKind, Result, Storage};

use crate::{LazyRuntime, ObjectOptions, ObjectPlace};

/// What a place that machines share is opened with.
#[derive(Debug)]
pub struct Access<'a> {
    /// What object stores are told: see [`ObjectOptions::settings`].
    pub settings: BTreeMap<String, String>,
    /// Talks with object stores.
    pub runtime: &'a LazyRuntime,
    /// How often an object store is asked; several places may share one. `None` = as often as there
    /// is something to ask.
    pub throttle: Option<Arc<Throttle>>,
    /// Whether a directory that is missing is made.
    pub create: bool,
}

/// The place called `name`: the URL of an object store (see [`ObjectOptions::url`]),
/// `file:///DIRECTORY`, or a directory that all machines mount.
///
/// Files of a directory on a file system of this machine are mapped. Files on other file systems
/// (NFS and the like) are read: what another machine removes there would end a process that has it
/// mapped. What fails in a directory may pass, but a sync ([`Mounted`]).
///
/// # Errors
/// `Invalid`, with what is expected, for a name that is none, and for a directory with a throttle;
/// what opening a directory says. Object stores are not asked yet.
pub fn open(name: &str, access: Access<'_>) -> Result<Arc<dyn Storage>> {
    if ObjectOptions::is_url(name) {
        let mut options = ObjectOptions::new(name);
        options.settings = access.settings;
        options.throttle = access.throttle;
        return Ok(Arc::new(ObjectPlace::open(&options, &access.runtime.get()?)?));
    }
    if access.throttle.is_some() {
        let what = format!(
            "{name:?} is a directory, which nothing limits: name an object store, or leave limits of requests out"
        );
        return Err(Error::new(ErrorKind::Invalid, "", what));
    }
    let local = Local::open(directory(name)?, LocalOptions { create: access.create })?;
    let is_ours = local.is_on_this_machine()?;
    Ok(Arc::new(Mounted::new(Arc::new(if is_ours { local } else { local.without_mappings() }))))
}

fn directory(name: &str) -> Result<PathBuf> {
    match name.split_once("://") {
        None if !name.is_empty() => Ok(PathBuf::from(name)),
        Some(("file", path)) if path.starts_with('/') => Ok(PathBuf::from(path)),
        _ => {
            let expected = "expected a directory, file:///DIRECTORY, s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or az://CONTAINER/PREFIX";
            Err(Error::new(ErrorKind::Invalid, "", format!("{expected}, found {name:?}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use firn_storage::ThreadSpawn;

    use super::*;

    fn open_named(name: &str, create: bool) -> Result<Arc<dyn Storage>> {
        let runtime = LazyRuntime::new(Arc::new(ThreadSpawn::new()));
        let settings = [("AWS_ACCESS_KEY_ID", "a"), ("AWS_SECRET_ACCESS_KEY", "b")];
        let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        open(name, Access { settings, runtime: &runtime, throttle: None, create })
    }

    #[test]
    fn directories_and_stores_are_told_apart_by_name() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("shared");
        let path = path.to_str().unwrap();
        assert_eq!(open_named(path, false).unwrap_err().kind, ErrorKind::NotFound);
        open_named(path, true).unwrap().publish("1.manifest", b"edit").unwrap();
        let again = open_named(&format!("file://{path}"), false).unwrap();
        assert_eq!(again.list().unwrap(), [("1.manifest".to_owned(), 4)]);
        let file = again.open_read("1.manifest").unwrap();
        assert!(file.bytes().unwrap().is_some(), "this machine's own files are mapped");
        assert_eq!(open_named("s3://bucket/prefix", false).unwrap().describe(), "s3://bucket/prefix");
        for wrong in ["", "http://host/x", "file://host/x", "s3:/bucket"] {
            let error = open_named(wrong, false).unwrap_err();
            assert!(matches!(error.kind, ErrorKind::Invalid | ErrorKind::NotFound), "{wrong:?}: {error}");
        }
        assert!(open_named("ftp://host/x", true).unwrap_err().to_string().contains("expected a directory"));
    }

    /// What the system will not open or read, it may later; a directory of one's own says that it
    /// failed.
    #[test]
    fn what_fails_in_a_directory_that_is_shared_may_pass() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("shared");
        let shared = open_named(path.to_str().unwrap(), true).unwrap();
        std::fs::create_dir(path.join("1.table")).unwrap();
        std::os::unix::fs::symlink("elsewhere", path.join("2.table")).unwrap();
        let own = Local::open(&path, LocalOptions::default()).unwrap();
        let fails = |place: &dyn Storage| {
            let read = place.open_read("1.table").unwrap().read_at(0, &mut [0]).unwrap_err();
            [read.kind, place.open_read("2.table").unwrap_err().kind]
        };
        assert_eq!(fails(&own), [ErrorKind::Io; 2]);
        assert_eq!(fails(&*shared), [ErrorKind::Refused; 2]);
    }
}
