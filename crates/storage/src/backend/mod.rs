//! Kinds of directory, behind one trait.

mod name; // what a file may be called
#[expect(unsafe_code, reason = "the kernel's page cache cannot be reached without")]
mod mapped; // the kernel's page cache: the only unsafe code of this crate
mod earlier; // what an earlier build wrote
mod old_bytes; // of files that are written over
mod local; // a directory on disk
mod memory; // a directory in memory, with a crash model
mod faulty; // any backend, failing on command
mod parts; // a file that several tables share
mod reuse; // any backend, dead files becoming new ones
mod divided; // two backends as one: here, and where all machines reach it
mod mounted; // a directory whose file server may be away
mod cached; // any backend, ranges of its files kept in a directory of this machine
mod throttle; // how often a backend is asked
mod throttled; // any backend, asked no more often than a throttle allows
mod registry; // any backend, by its name
mod pool; // threads for reads that missed memory
mod together; // ranges of any files, read together
pub mod conformance; // what all of them must do

pub use cached::Cached;
pub use divided::{Divided, SharedPart, copy};
pub use earlier::refuse_earlier_build;
pub use faulty::{Count, Counters, Effect, Fault, Faulty, Operation, When};
pub use local::{Local, LocalOptions};
pub use memory::{Crash, Memory};
pub use mounted::Mounted;
pub use name::check as check_name;
pub use parts::{PartsWriter, open_table};
pub use pool::{ReadBody, ReadPool, Rejected};
pub use registry::{BackendUrl, OpenWith, Opener, Registry, Throttling};
pub use reuse::{RecycledFiles, Reusing, write_over};
pub use throttle::{Limits, RequestClass, Throttle};
pub use throttled::Throttled;
pub use together::{FileToRead, RangeRead, read_together};

use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use crate::{Error, ErrorKind, Result};
pub use mapped::prefetch;

use mapped::Mapping;

/// One flat directory of files, owned by one database.
///
/// Names are ASCII letters, digits, `.`, `-` and `_`, 1 to 100 bytes, no leading dot. Every call
/// may block on the device. Implementers MUST be usable from many threads.
pub trait Storage: Send + Sync + fmt::Debug {
    /// A new empty file to be written; `Exists` if the name is taken.
    ///
    /// The name survives power loss only after [`sync_dir`](Self::sync_dir).
    fn create(&self, name: &str) -> Result<Arc<dyn WriteFile>>;

    /// An existing file to be written further, its bytes kept (a log segment at recovery or reuse).
    fn open_write(&self, name: &str) -> Result<Arc<dyn WriteFile>>;

    /// A file to be read; its length is fixed at this moment.
    fn open_read(&self, name: &str) -> Result<Arc<dyn ReadFile>>;

    /// As [`open_read`](Self::open_read), for a file of which a manifest or a job says that it has
    /// `bytes` bytes; `Corrupt` if it has more or fewer.
    ///
    /// A backend that would have to send a request for the length sends none. A missing file, or
    /// another length, shows with the first read then.
    fn open_read_known(&self, name: &str, bytes: u64) -> Result<Arc<dyn ReadFile>> {
        let file = self.open_read(name)?;
        match file.len() {
            found if found == bytes => Ok(file),
            found => Err(Error::wrong_length(name, bytes, found)),
        }
    }

    /// The bytes `offset..offset + bytes` of the file `name`, as a file of its own; `Corrupt` if
    /// the file ends before.
    ///
    /// A backend that is asked for many parts of one file opens it once if it can.
    fn open_part(&self, name: &str, offset: u64, bytes: u64) -> Result<Arc<dyn ReadFile>> {
        parts::part_of(name, self.open_read(name)?, offset, bytes)
    }
    /// Creates `name` with `bytes`, whole and durable on return, or fails and leaves nothing under
    /// that name.
    ///
    /// `Exists` if the name is taken: of two publishers one wins. `Undecided` if it may be there or
    /// not, no sync having failed; once it is read it is durable after
    /// [`sync_dir`](Self::sync_dir). For objects up to some MiB (the manifest).
    fn publish(&self, name: &str, bytes: &[u8]) -> Result<()>;

    /// Renames a file; `Exists` if the new name is taken. Durable after
    /// [`sync_dir`](Self::sync_dir).
    fn rename(&self, from: &str, to: &str) -> Result<()>;

    /// Removes a file; `NotFound` if there is none. Durable after [`sync_dir`](Self::sync_dir).
    fn remove(&self, name: &str) -> Result<()>;

    /// Names and lengths of all files, by name. Leftovers of unfinished publications are not
    /// listed.
    fn list(&self) -> Result<Vec<(String, u64)>>;

    /// Makes creations, renames and removals that were done so far by this handle survive power
    /// loss; the first time, those of others before it too. Costs nothing where there were none
    /// since the last time.
    fn sync_dir(&self) -> Result<()>;

    /// Takes the directory for this handle: one writer, or any number of readers.
    ///
    /// `Locked` if that cannot be had now; released when the lock is dropped or the process dies.
    fn lock(&self, exclusive: bool) -> Result<Box<dyn StorageLock>>;

    /// Puts `names` into the directory `path` of the same kind without copying where that can be
    /// done (hard links), durable on return. `path` is created and MUST be missing or empty; one
    /// whose files were all removed again is empty.
    fn link_into(&self, names: &[String], path: &Path) -> Result<Arc<dyn Storage>>;

    /// Bytes free for new files, if known.
    fn free_bytes(&self) -> Result<Option<u64>>;

    /// The run of the machine, from its start to its end, as the system names it; another one after
    /// loss of power. Within it, what a process has written is there in the order in which it was
    /// written, even after the process was killed.
    ///
    /// `None`: the backend cannot tell.
    fn boot_id(&self) -> Option<u128> {
        None
    }

    /// Uploads below this backend that were begun and are neither whole nor given up. Their parts
    /// are being sent, or their writer was killed meanwhile. They are no files, and no list has
    /// them. What has begun since the call may be missing.
    ///
    /// None where a backend has no such thing, or no way to ask for it. `Invalid` if this handle
    /// may not ask, or gets an answer that it does not understand: asking again soon does not help.
    /// Other errors may pass.
    fn unfinished_uploads(&self) -> Result<Vec<UnfinishedUpload>> {
        Ok(Vec::new())
    }

    /// Has the backend forget `upload`, which [`unfinished_uploads`](Self::unfinished_uploads)
    /// told, with all that was sent of it. A writer that still sends parts of it fails.
    ///
    /// There MUST be no file of its name that is needed. Where a store crashes, an upload may have
    /// ended and not be forgotten. To abort it then makes some stores remove the parts, which are
    /// the file's. `NotFound` if there is no such upload, or none any more; `Invalid` if this
    /// handle may not do that. After other errors it is there or not.
    fn abort_upload(&self, upload: &UnfinishedUpload) -> Result<()> {
        Err(Error::new(ErrorKind::NotFound, &upload.name, "there is no such upload"))
    }

    /// What people call this backend (a path, `memory`).
    fn describe(&self) -> String;

    /// The part that other machines reach, of a backend in two parts. `None`: everything lies in
    /// one, which belongs to the holder of its lock.
    ///
    /// Files of the shared part are never renamed nor written over. They may be objects, which are
    /// there once they are synced.
    fn shared_part(&self) -> Option<&dyn SharedPart> {
        None
    }

    /// What a cache before this backend, or before a part of it, has done so far. `None`: there is
    /// none.
    fn cache_counters(&self) -> Option<CacheCounters> {
        None
    }
}

/// An upload of a file in parts that has begun and not ended.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnfinishedUpload {
    /// What the file was to be called.
    pub name: String,
    /// What the backend calls the upload: of one name there may be several.
    pub id: String,
}

/// What a cache of ranges of far files has done since it was made. All but `held_bytes` only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCounters {
    /// Blocks of 256 KiB that a read found here, or on their way.
    pub hits: u64,
    /// Blocks that the backend was asked for.
    pub misses: u64,
    /// Bytes that the backend was asked for by misses.
    pub fetched_bytes: u64,
    /// Bytes that went past: large reads, and those asked for ahead.
    pub passed_bytes: u64,
    /// Bytes of the directory that blocks take now, a file's last one as much as others.
    pub held_bytes: u64,
    /// Blocks that went for others.
    pub evictions: u64,
    /// How often the directory failed: it could not be used, a block could not be written, or was
    /// not what had been written.
    pub failures: u64,
}

/// A file being written. Offsets are absolute; one writer per byte.
pub trait WriteFile: Send + Sync + fmt::Debug {
    /// Writes all of `bytes` at `offset`; extends the file as needed. On `Err` any part may be
    /// written.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()>;

    /// As [`write_at`](Self::write_at), for a writer that goes on where this write ends. What
    /// follows up to the end of the page ([`PAGE_BYTES`]) may become zeros, and the file as long.
    ///
    /// A part of a page can be written only once the rest of it is in memory. In a file that is
    /// written over, the writer would wait for the device to read what it is about to write over.
    fn write_zeroing(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.write_at(offset, bytes)
    }

    /// As [`write_at`](Self::write_at), for small pieces, most of which follow one another: they
    /// survive the process when this returns. The system may get them later, many at a time. It
    /// gets them before what other calls write, before a sync, and before the file is linked,
    /// renamed or opened once more. Readers of the file find them. Bytes of an earlier life of the
    /// file that lie behind all that was written may become zeros, up to the end of the page.
    ///
    /// On `Err` the pieces of earlier calls are kept, and the next call tries again.
    fn write_combined(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.write_at(offset, bytes)
    }

    /// Brings to the system what [`write_combined`](Self::write_combined) holds: nothing more will
    /// follow soon.
    fn hand_over(&self) -> Result<()> {
        Ok(())
    }

    /// Fills `out` with what was written from `offset` on; `Corrupt` if the file ends before.
    ///
    /// Bytes that another thread is writing are as they were, as they will be, or a mixture. The
    /// caller relies only on bytes that it knows to be written.
    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()>;

    /// Has `offset..offset + bytes` be on its way into memory, so that reading it soon waits less;
    /// may do nothing.
    fn will_need(&self, _offset: u64, _bytes: u64) {}

    /// Makes everything written so far (bytes and length) survive power loss. After an error the
    /// file's content is unknown for good: the caller must never sync it again and believe the
    /// answer.
    fn sync(&self) -> Result<()>;

    /// Asks the device to begin writing `offset..offset + bytes` without waiting; may do nothing.
    fn write_back(&self, offset: u64, bytes: u64) -> Result<()>;

    /// Reserves space up to `bytes` where the file system can, so that later writes do not find it
    /// full.
    fn allocate(&self, bytes: u64) -> Result<()>;

    /// Cuts or extends the file to `bytes`.
    fn set_len(&self, bytes: u64) -> Result<()>;
}

/// So many ranges of one file that were asked for a backend has on their way, or here, at least.
pub const ASKED_MAX: usize = 32;

/// Longer pieces are written at once by [`WriteFile::write_combined`]: to put them together saves
/// less than the copy costs.
pub const COMBINED_BYTES_MAX: usize = 12 << 10;

/// Files are kept in memory in pieces of this many bytes, mostly.
pub const PAGE_BYTES: u64 = 4096;

/// Zeros from `end` to the end of its page.
fn zeros_after(end: u64) -> &'static [u8] {
    const ZEROS: [u8; PAGE_BYTES as usize] = [0; PAGE_BYTES as usize];
    &ZEROS[..(end.next_multiple_of(PAGE_BYTES) - end) as usize]
}

/// A file being read, of fixed length.
pub trait ReadFile: Send + Sync + fmt::Debug {
    /// Its length in bytes when it was opened.
    fn len(&self) -> u64;

    /// Whether it has no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Fills `out` from `offset`; `Corrupt` if the file ends before.
    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()>;

    /// Asks for `bytes` bytes from `offset` to be read ahead; waits only where requests have a
    /// limit that is reached. Advice only: where it is not taken, reading them waits. A backend may
    /// forget the oldest of more than [`ASKED_MAX`] ranges that were asked for and not read. A
    /// cache before this backend neither answers such a read nor keeps what comes:
    /// [`will_look_up`](Self::will_look_up) asks it.
    fn will_need(&self, offset: u64, bytes: u64) {
        let _ = (offset, bytes);
    }

    /// As [`will_need`](Self::will_need), for what may soon be read again. A cache before this
    /// backend answers, or asks and keeps what comes, as it does for a read.
    fn will_look_up(&self, offset: u64, bytes: u64) {
        self.will_need(offset, bytes);
    }

    /// The whole file as memory, if this backend can give it without reading it (mapping, memory).
    fn bytes(&self) -> Result<Option<FileBytes>>;
}

/// A held directory; dropping it lets go.
pub trait StorageLock: Send + Sync + fmt::Debug {}

/// A whole file as memory; cheap to clone and to read.
///
/// Bytes of a mapped file may not be in memory yet. Touching them then waits for the device, and a
/// device error there kills the process (SIGBUS). A caller that minds asks
/// [`is_resident`](Self::is_resident) first and reads what is not resident by
/// [`ReadFile::read_at`].
#[derive(Clone)]
pub struct FileBytes {
    owner: Owner,
    /// Of the owner's bytes, those from here on, so many.
    start: usize,
    len: usize,
}

/// Pages that [`FileBytes::will_need_unless_there`] looks at.
const PAGES_ASKED: usize = 4;

#[derive(Clone)]
enum Owner {
    Memory(Arc<dyn AsRef<[u8]> + Send + Sync>),
    /// Memory that is said to be elsewhere.
    Away(Arc<dyn AsRef<[u8]> + Send + Sync>),
    Mapped(Arc<Mapping>),
}

impl Owner {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Memory(owner) | Self::Away(owner) => (**owner).as_ref(),
            Self::Mapped(mapping) => (**mapping).as_ref(),
        }
    }
}

impl FileBytes {
    /// Bytes held by `owner`.
    pub fn new(owner: Arc<dyn AsRef<[u8]> + Send + Sync>) -> Self {
        Self::all_of(Owner::Memory(owner))
    }

    /// Bytes held by `owner`, as a mapping whose pages never stay in memory: a double for tests.
    pub fn never_resident(owner: Arc<dyn AsRef<[u8]> + Send + Sync>) -> Self {
        Self::all_of(Owner::Away(owner))
    }

    fn mapped(mapping: Arc<Mapping>) -> Self {
        Self::all_of(Owner::Mapped(mapping))
    }

    fn all_of(owner: Owner) -> Self {
        let len = owner.bytes().len();
        Self { owner, start: 0, len }
    }

    /// Those of `range` alone, held by the same owner; `None` if some lie beyond the end.
    #[must_use]
    pub fn part(&self, range: Range<usize>) -> Option<Self> {
        self.get(range.clone())?;
        Some(Self { owner: self.owner.clone(), start: self.start + range.start, len: range.len() })
    }

    /// Where `range` of these bytes lies in the owner's; what is beyond the end is left out.
    fn in_owner(&self, range: Range<usize>) -> Range<usize> {
        let at = |offset: usize| self.start + offset.min(self.len);
        at(range.start)..at(range.end)
    }

    /// Whether all of `range` is in memory now, so that reading it would not wait for the device.
    ///
    /// One system call (`mincore`) for a mapped file, none otherwise; a hint, since a page may go
    /// at any moment. Where the system does not tell, the answer is no; to a user that may only
    /// read the file it always says yes. What of `range` lies beyond the end is left out.
    pub fn is_resident(&self, range: Range<usize>) -> bool {
        match &self.owner {
            Owner::Memory(_) => true,
            Owner::Away(_) => false,
            Owner::Mapped(mapping) => mapping.is_resident(self.in_owner(range)).unwrap_or(false),
        }
    }

    /// As [`will_need`](Self::will_need), unless a few pages of `range` suggest that the system has
    /// it in memory. Asked for what is there, the system looks at each page.
    pub fn will_need_unless_there(&self, range: Range<usize>) {
        let is_short = range.len() <= PAGES_ASKED * PAGE_BYTES as usize;
        let is_there = match is_short {
            true => self.is_resident(range.clone()),
            false => {
                let mut asked = range.clone().step_by(range.len() / PAGES_ASKED);
                asked.all(|at| self.is_resident(at..at + 1))
            }
        };
        if !is_there {
            self.will_need(range);
        }
    }

    /// Asks for `range` to be read ahead; does not wait. One system call for a mapped file.
    pub fn will_need(&self, range: Range<usize>) {
        if let Owner::Mapped(mapping) = &self.owner {
            // Advice only: if it is not taken, the bytes are read when they are touched.
            let _ = mapping.will_need(self.in_owner(range));
        }
    }

    /// Has the processor begin to load the cache line that holds byte `at`; does not wait. Nothing
    /// past the end, and nothing where the page is not in memory.
    #[inline]
    pub fn begin_load(&self, at: usize) {
        if let Some(byte) = self.get(at) {
            prefetch(byte);
        }
    }

    /// Says that reads of the whole file will jump about, so that touching a page reads no others
    /// with it. One system call for a mapped file, the first time.
    pub fn expect_random(&self) {
        if let Owner::Mapped(mapping) = &self.owner {
            // Advice only, as above.
            let _ = mapping.expect_random();
        }
    }
}

impl std::ops::Deref for FileBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.owner.bytes().get(self.start..self.start + self.len).unwrap_or_default()
    }
}

impl fmt::Debug for FileBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileBytes").field("len", &self.len()).finish()
    }
}

/// `Corrupt` unless `bytes` bytes from `offset` lie inside a file of `len` bytes.
fn check_range(name: &str, offset: u64, bytes: usize, len: u64) -> Result<()> {
    match offset.checked_add(bytes as u64) {
        Some(end) if end <= len => Ok(()),
        _ => Err(Error::corrupt(
            name,
            offset,
            format!("expected {bytes} bytes here, but the file ends at {len}"),
        )),
    }
}
