//! A database in a real directory.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use firn_storage::Storage;
use firn_storage::backend::{Local, LocalOptions};

use crate::support::sample::Files;

/// A directory on disk that goes with the test.
#[derive(Debug)]
pub(crate) struct OnDisk(PathBuf);

impl OnDisk {
    /// A new empty one for the test called `name`; runs of it at the same time have one each.
    pub(crate) fn fresh(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        if path.exists() {
            std::fs::remove_dir_all(&path).unwrap();
        }
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// A database directory with these files.
    pub(crate) fn with(name: &str, files: &Files) -> Self {
        let directory = Self::fresh(name);
        for (name, content) in files {
            std::fs::write(directory.join(name), content).unwrap();
        }
        std::fs::write(directory.join("LOCK"), b"").unwrap();
        directory
    }
}

impl std::ops::Deref for OnDisk {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl Drop for OnDisk {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // What stays is overwritten, or is left until the build folder is cleaned.
            let _ignored = std::fs::remove_dir_all(&self.0);
        }
    }
}

/// Everything a directory holds, hidden files and times of change too.
pub(crate) fn everything_in(path: &Path) -> BTreeMap<String, (Vec<u8>, std::time::SystemTime)> {
    let entries = std::fs::read_dir(path).unwrap().map(|entry| {
        let entry = entry.unwrap();
        let content = std::fs::read(entry.path()).unwrap();
        (entry.file_name().into_string().unwrap(), (content, entry.metadata().unwrap().modified().unwrap()))
    });
    entries.collect()
}

pub(crate) fn local(path: &Path) -> Arc<dyn Storage> {
    Arc::new(Local::open(path, LocalOptions { create: false }).unwrap())
}
