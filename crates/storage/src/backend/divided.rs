//! A directory in two parts: what grows lies on this machine, what is finished where all machines
//! reach it.

use std::path::Path;
use std::sync::Arc;

use firn_format::file_name::{self, FileName};
use firn_format::home::Home;

use crate::backend::{CacheCounters, UnfinishedUpload};
use crate::{Error, ErrorKind, ReadFile, Result, Storage, StorageLock, WriteFile};

/// The part of a database that other machines reach.
pub trait SharedPart {
    /// Identity of the part that is this machine's alone; not zero.
    fn home(&self) -> u128;

    /// Puts the file `name` of this machine, finished and synced, where all machines reach it, as
    /// `to`; durable on return. The file stays.
    ///
    /// `Exists` if the name `to` is taken, unless by these very bytes where the backend says so.
    /// After another error something may be there, or come to be: the name MUST not be used again.
    fn share(&self, name: &str, to: &str) -> Result<()>;

    /// Whether a file called `name` lies where all machines reach it.
    fn is_shared(&self, name: &str) -> bool;

    /// Both parts, for an engine that itself knows what lies where: this machine's, and the one
    /// that all machines reach.
    fn parts(&self) -> (&Arc<dyn Storage>, &Arc<dyn Storage>);
}

/// A backend in two parts.
///
/// 1. The log, blob segments that take values, and the directory's identity lie in the local part.
///    Manifest, tables and blob segments under a stem lie in the shared one. Names tell which.
/// 2. The lock is the local part's: it excludes this machine's processes. Other machines are
///    excluded by the manifest, whose edits are created once.
/// 3. A file is never renamed from one part to the other, and only those of the local part can be
///    linked.
#[derive(Debug)]
pub struct Divided {
    local: Arc<dyn Storage>,
    shared: Arc<dyn Storage>,
    home: u128,
}

impl Divided {
    /// Both parts together. The local one's identity is read; where it has none, it gets `fresh`,
    /// which MUST be drawn for it and not be zero.
    ///
    /// # Errors
    /// What reading and publishing say; `Corrupt` where the identity is none.
    pub fn open(local: Arc<dyn Storage>, shared: Arc<dyn Storage>, fresh: u128) -> Result<Self> {
        match Self::open_known(Arc::clone(&local), Arc::clone(&shared)) {
            Err(error) if error.kind == ErrorKind::NotFound => {
                match local.publish(file_name::HOME, &Home { id: fresh }.encode()) {
                    Err(error) if error.kind != ErrorKind::Exists => Err(error),
                    // Another opening was first: its identity counts.
                    _ => Self::open_known(local, shared),
                }
            }
            opened => opened,
        }
    }

    /// Both parts together, for a caller that changes nothing.
    ///
    /// # Errors
    /// `NotFound` where the local part has no identity: it never was the part of a database that
    /// this machine has. What reading says; `Corrupt` where the identity is none.
    pub fn open_known(local: Arc<dyn Storage>, shared: Arc<dyn Storage>) -> Result<Self> {
        let home = read_home(&*local)?.id;
        Ok(Self { local, shared, home })
    }

    fn part(&self, name: &str) -> &Arc<dyn Storage> {
        if is_local(name) { &self.local } else { &self.shared }
    }
}

/// Whether a file of this name lies on this machine.
fn is_local(name: &str) -> bool {
    matches!(
        file_name::parse(name),
        Some(FileName::Lock | FileName::Home | FileName::LogSegment(_) | FileName::BlobSegment(_))
    )
}

fn read_home(local: &dyn Storage) -> Result<Home> {
    let file = local.open_read(file_name::HOME)?;
    let mut bytes = vec![0; file.len() as usize];
    file.read_at(0, &mut bytes)?;
    Home::decode(&bytes)
        .map_err(|error| Error::corrupt(file_name::HOME, error.offset as u64, error.to_string()))
}

/// Bytes copied at a time.
const PIECE_BYTES: usize = 1 << 20;

/// Bytes asked for before they are copied, where files lie far away.
const AHEAD_BYTES: u64 = 8 << 20;

/// Makes a file of a backend that has the bytes of a file of another one, finished and synced; its
/// name is not.
///
/// # Errors
/// What reading and writing say; then a part of it may be there.
pub fn copy((from, name): (&dyn Storage, &str), (to, as_name): (&dyn Storage, &str)) -> Result<()> {
    let source = from.open_read(name)?;
    let target = to.create(as_name)?;
    for offset in (0..source.len()).step_by(PIECE_BYTES) {
        if offset % AHEAD_BYTES == 0 {
            source.will_need(offset, AHEAD_BYTES.min(source.len() - offset));
        }
        let mut piece = vec![0; PIECE_BYTES.min((source.len() - offset) as usize)];
        source.read_at(offset, &mut piece)?;
        target.write_at(offset, &piece)?;
    }
    target.sync()
}

impl SharedPart for Divided {
    fn home(&self) -> u128 {
        self.home
    }

    fn share(&self, name: &str, to: &str) -> Result<()> {
        // Nothing names a copy that fails; if it is there, the next opening removes it.
        copy((&*self.local, name), (&*self.shared, to)).and_then(|()| self.shared.sync_dir())
    }

    fn is_shared(&self, name: &str) -> bool {
        !is_local(name)
    }

    fn parts(&self) -> (&Arc<dyn Storage>, &Arc<dyn Storage>) {
        (&self.local, &self.shared)
    }
}

impl Storage for Divided {
    fn create(&self, name: &str) -> Result<Arc<dyn WriteFile>> {
        self.part(name).create(name)
    }

    fn open_write(&self, name: &str) -> Result<Arc<dyn WriteFile>> {
        self.part(name).open_write(name)
    }

    fn open_read(&self, name: &str) -> Result<Arc<dyn ReadFile>> {
        self.part(name).open_read(name)
    }

    fn open_read_known(&self, name: &str, bytes: u64) -> Result<Arc<dyn ReadFile>> {
        self.part(name).open_read_known(name, bytes)
    }

    fn publish(&self, name: &str, bytes: &[u8]) -> Result<()> {
        self.part(name).publish(name, bytes)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        match is_local(from) == is_local(to) {
            true => self.part(from).rename(from, to),
            false => {
                Err(Error::new(ErrorKind::Invalid, from, format!("{to} lies in another part of the backend")))
            }
        }
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.part(name).remove(name)
    }

    fn list(&self) -> Result<Vec<(String, u64)>> {
        let mut files = self.local.list()?;
        files.retain(|(name, _)| is_local(name));
        files.extend(self.shared.list()?.into_iter().filter(|(name, _)| !is_local(name)));
        files.sort_unstable();
        Ok(files)
    }

    fn sync_dir(&self) -> Result<()> {
        self.local.sync_dir()?;
        self.shared.sync_dir()
    }

    fn lock(&self, exclusive: bool) -> Result<Box<dyn StorageLock>> {
        self.local.lock(exclusive)
    }

    fn link_into(&self, names: &[String], path: &Path) -> Result<Arc<dyn Storage>> {
        match names.iter().find(|name| self.is_shared(name)) {
            None => self.local.link_into(names, path),
            Some(name) => {
                let message = "it lies on shared storage and cannot be linked into a directory; copy it";
                Err(Error::new(ErrorKind::Invalid, name, message))
            }
        }
    }

    fn free_bytes(&self) -> Result<Option<u64>> {
        self.local.free_bytes()
    }

    fn boot_id(&self) -> Option<u128> {
        self.local.boot_id()
    }

    /// Those of the shared part: on a machine's own nothing is uploaded.
    fn unfinished_uploads(&self) -> Result<Vec<UnfinishedUpload>> {
        let mut uploads = self.shared.unfinished_uploads()?;
        uploads.retain(|upload| !is_local(&upload.name));
        Ok(uploads)
    }

    fn abort_upload(&self, upload: &UnfinishedUpload) -> Result<()> {
        self.shared.abort_upload(upload)
    }

    fn describe(&self) -> String {
        format!("{} (log in {})", self.shared.describe(), self.local.describe())
    }

    fn shared_part(&self) -> Option<&dyn SharedPart> {
        Some(self)
    }

    fn cache_counters(&self) -> Option<CacheCounters> {
        self.shared.cache_counters()
    }
}

#[cfg(test)]
mod tests;
