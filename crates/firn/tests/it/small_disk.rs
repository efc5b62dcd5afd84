//! A file system that is soon full. The tests of `cli` include this file, for one that machines
//! share.

use std::io::Write;
use std::path::Path;
use std::process::Command;

/// A small file system of its own, unmounted at the end.
pub(crate) struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// One of `bytes`; `None`, and why, where none can be mounted.
    pub(crate) fn mount(bytes: usize) -> Option<Self> {
        let at = tempfile::tempdir().expect("a directory");
        let options = format!("size={bytes}");
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(at.path()).output();
        let why = match mounted {
            Ok(output) if output.status.success() => return Some(Self(at)),
            Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            Err(error) => format!("`mount` cannot be run: {error}"),
        };
        // Not by a macro: of what those print the harness keeps to itself what a test that passes
        // has said.
        let _ = writeln!(
            std::io::stderr(),
            "LEFT OUT: a real full disk, since mounting a tmpfs was refused: {why}"
        );
        None
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg(self.0.path()).status();
        let is_unmounted = unmounted.is_ok_and(|status| status.success());
        assert!(is_unmounted || std::thread::panicking(), "unmount {}", self.0.path().display());
    }
}
