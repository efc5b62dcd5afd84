//! Directories by name.

use std::path::Path;
use std::sync::Arc;

use crate::backend::{BackendUrl, Local, LocalOptions, Mounted, OpenWith, Opener, Throttling};
use crate::{Error, ErrorKind, Result, Storage};

/// Opens `file:///DIRECTORY`.
#[derive(Debug)]
pub(super) struct Directories;

impl Opener for Directories {
    fn form(&self) -> &str {
        "file:///DIRECTORY"
    }

    fn throttling(&self) -> Throttling {
        Throttling::Never
    }

    fn open(&self, url: &BackendUrl<'_>, with: &OpenWith) -> Result<Arc<dyn Storage>> {
        if !url.rest.starts_with('/') {
            let what = format!("expected {}, found {:?}", self.form(), url.text);
            return Err(Error::new(ErrorKind::Invalid, "", what));
        }
        open(url.text, url.rest, with)
    }
}

/// The directory `path`, which its user calls `name`; see [`Registry::new`](super::Registry::new).
pub(super) fn open(name: &str, path: &str, with: &OpenWith) -> Result<Arc<dyn Storage>> {
    if with.throttle.is_some() {
        let what = format!(
            "{name:?} is a directory, which nothing limits: name an object store, or leave limits of requests out"
        );
        return Err(Error::new(ErrorKind::Invalid, "", what));
    }
    let local = Local::open(Path::new(path), LocalOptions { create: with.create })?;
    let is_ours = local.is_on_this_machine()?;
    Ok(Arc::new(Mounted::new(Arc::new(if is_ours { local } else { local.without_mappings() }))))
}
