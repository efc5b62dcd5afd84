//! One file in two directories.

use std::io;

use rustix::fs::{AtFlags, OFlags};
use rustix::io::Errno;

use super::Local;
use crate::{Error, Result};

impl Local {
    /// Puts the file `name` into `target`, linked or copied, its bytes durable.
    pub(super) fn link_one(&self, name: &str, target: &Self) -> Result<()> {
        let (from, to) = (&*self.directory, &*target.directory);
        match rustix::fs::linkat(from, name, to, name, AtFlags::empty()) {
            Ok(()) => {
                let linked = target.open_file(name, OFlags::RDONLY, "open the link of")?;
                linked.sync_all().map_err(|error| Error::sync(name, "sync the link of", error))
            }
            Err(Errno::XDEV | Errno::PERM | Errno::MLINK | Errno::OPNOTSUPP | Errno::NOSYS) => {
                self.copy_one(name, target)
            }
            Err(error) => Err(Error::io(name, &format!("link into {}", target.path.display()), error.into())),
        }
    }

    fn copy_one(&self, name: &str, target: &Self) -> Result<()> {
        let mut source = self.open_file(name, OFlags::RDONLY, "open")?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        let mut copy = target.open_file(name, flags, "create the copy of")?;
        let action = || format!("copy into {}", target.path.display());
        io::copy(&mut source, &mut copy).map_err(|error| Error::io(name, &action(), error))?;
        copy.sync_all().map_err(|error| Error::sync(name, "sync the copy of", error))
    }
}
