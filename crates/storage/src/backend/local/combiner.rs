//! The directory's combiner: a mapped file of slots, where small writes wait for one another.
//!
//! ```text
//!   write_combined ─► slot ─► one write of many pieces ─► the file
//!                    │ mapped: survives the process
//!                    └─► the next exclusive lock (left.rs) ─► the file
//! ```
//! A store to a mapped page costs a fraction of a system call. One system call for 64 KiB costs a
//! fraction of one for each piece (figures in decision 0003). A slot is used again and again, so
//! that its pages stay in memory and have their blocks.

use std::collections::hash_map::RandomState;
use std::fs::File;
use std::hash::BuildHasher;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use firn_format::combiner::{self, DATA_BYTES, PIECES_MAX, Piece, SlotHead};
use rustix::fs::OFlags;

use super::directory;
use super::open_file::OpenFile;
use crate::backend::mapped::MappedPart;
use crate::backend::name::COMBINER_FILE;

/// Numbers, as the system tells them, of file systems on which a store to a page that was written
/// before lacks no space: ext2 to ext4, XFS, tmpfs. Others may have to find a new block for it, and
/// kill the process where there is none. So may XFS where a copy of the file shares its blocks and
/// the disk is full.
const COMBINING_FILE_SYSTEMS: [u64; 3] = [0xef53, 0x5846_5342, 0x0102_1994];

/// The combiner of a directory that this process has locked for writing.
///
/// 1. A slot is free, or belongs to one open file. A file whose slot is full takes a further one,
///    as long as one stays free, and writes them all together. So fewer writers of small pieces
///    wait for the system. A file that has none comes first
///    ([`collect_further`](Self::collect_further)).
/// 2. What a slot holds is not in its file, or there with the same bytes.
#[derive(Debug)]
pub(super) struct Combiner {
    directory: Arc<File>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Slots that no file has; `None` until the first is asked for.
    free: Option<Vec<Slot>>,
    /// A file has got a further slot since [`collect_further`](Self::collect_further) last asked.
    has_further: bool,
    /// Files that are open, and some that were.
    files: Vec<Weak<OpenFile>>,
    is_closed: bool,
}

impl Combiner {
    /// The combiner of `directory`; its file is made when it is first needed.
    pub(super) fn new(directory: &Arc<File>) -> Self {
        Self { directory: Arc::clone(directory), state: Mutex::default() }
    }

    /// `file` may ask for a slot from now on.
    pub(super) fn register(&self, file: &Arc<OpenFile>) {
        let mut state = self.lock();
        state.files.retain(|other| other.strong_count() > 0);
        state.files.push(Arc::downgrade(file));
    }

    /// A slot for a file that is [registered](Self::register) and has `held`. `None` if all are
    /// taken, or, for a file that has some, all but one. `None` also if the directory cannot have a
    /// combiner: its file system is not known to be fit, or is full.
    pub(super) fn take(&self, held: usize) -> Option<Slot> {
        let mut state = self.lock();
        if state.is_closed {
            return None;
        }
        let free = state.free.get_or_insert_with(|| self.make().unwrap_or_default());
        let slot = if held == 0 || free.len() > 1 { free.pop()? } else { return None };
        state.has_further |= held > 0;
        Some(slot)
    }

    /// Takes back a slot, and clears it.
    pub(super) fn give_back(&self, mut slot: Slot) {
        slot.clear();
        if let Some(free) = &mut self.lock().free {
            free.push(slot);
        }
    }

    /// Files that have several slots write what waits and give back all but one, unless another
    /// thread has their lock. Answers whether they were asked: once for all further slots that were
    /// taken, so that writes do not ask again and again in vain.
    pub(super) fn collect_further(&self) -> bool {
        let has_further = std::mem::take(&mut self.lock().has_further);
        if has_further {
            self.files().iter().for_each(|file| file.give_back_further());
        }
        has_further
    }

    /// Files that are open.
    pub(super) fn files(&self) -> Vec<Arc<OpenFile>> {
        self.lock().files.iter().filter_map(Weak::upgrade).collect()
    }

    /// No file gets a slot any more; what waits is written. What cannot be written stays, for the
    /// next exclusive lock.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        for file in self.files() {
            file.abandon_combiner();
        }
        self.lock().free = None;
    }

    /// Slots in a new file, or in the old one, which holds nothing. All its pages are written, so
    /// that they have blocks.
    fn make(&self) -> io::Result<Vec<Slot>> {
        let kind = rustix::fs::fstatfs(&*self.directory)?.f_type as u64 & 0xffff_ffff;
        if !COMBINING_FILE_SYSTEMS.contains(&kind) {
            return Ok(Vec::new());
        }
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let mode = directory::file_mode(&self.directory);
        let file = rustix::fs::openat(&*self.directory, COMBINER_FILE, flags, mode)?;
        let file = File::from(file);
        let mut bytes = vec![0; combiner::COMBINER_BYTES];
        let header = combiner::encode_header();
        bytes[..header.len()].copy_from_slice(&header);
        file.write_all_at(&bytes, 0)?;
        file.set_len(combiner::COMBINER_BYTES as u64)?;
        (0..combiner::SLOTS).map(|index| Slot::of(&file, index)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A part of the combiner, for the pieces of one file at a time.
#[derive(Debug)]
pub(super) struct Slot {
    part: MappedPart,
    salt: u64,
    /// Pieces that it holds.
    count: usize,
    /// Bytes that they have.
    used: usize,
    /// The same pieces; pieces that came in their order in the file and adjoin are one.
    runs: Vec<Piece>,
}

impl Slot {
    fn of(file: &File, index: usize) -> io::Result<Self> {
        let range = combiner::slot_range(index);
        let part = MappedPart::of(file, range.start as u64, range.len())?;
        // Drawn, and counted on from there: no other process has had it.
        let salt = RandomState::new().hash_one(index);
        Ok(Self { part, salt, count: 0, used: 0, runs: Vec::new() })
    }

    /// It holds nothing, and is for pieces of the file `name`.
    pub(super) fn begin(&mut self, name: &str) {
        (self.count, self.used) = (0, 0);
        self.runs.clear();
        // Entries of another salt count for nothing.
        self.salt = self.salt.wrapping_add(1);
        SlotHead { salt: self.salt, name: name.to_owned() }.write(self.part.bytes_mut());
    }

    /// It holds nothing, and is no file's.
    pub(super) fn clear(&mut self) {
        (self.count, self.used) = (0, 0);
        self.runs.clear();
        combiner::clear_slot(self.part.bytes_mut());
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(super) fn has_room(&self, bytes: usize) -> bool {
        self.used + bytes <= DATA_BYTES && self.count < PIECES_MAX
    }

    /// Takes a piece for which it has room.
    pub(super) fn add(&mut self, offset: u64, bytes: &[u8]) {
        let at = (offset, self.used);
        let piece = Piece::write(self.part.bytes_mut(), self.salt, self.count, at, bytes);
        self.count += 1;
        self.used += bytes.len();
        match self.runs.last_mut() {
            Some(last) if (end(last), last.at + last.bytes) == (offset, piece.at) => {
                last.bytes += piece.bytes
            }
            _ => self.runs.push(piece),
        }
    }

    /// What it holds, and where that goes in the file.
    pub(super) fn runs(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let bytes = self.part.bytes();
        self.runs.iter().filter_map(|run| Some((run.offset, run.bytes(bytes)?)))
    }

    /// Behind the last byte that it holds; 0 if it holds none.
    pub(super) fn end(&self) -> u64 {
        self.runs.iter().map(end).max().unwrap_or(0)
    }

    /// Copies what it holds of the file from `offset` on over `out`, later pieces over earlier
    /// ones.
    pub(super) fn lay_over(&self, offset: u64, out: &mut [u8]) {
        let to = offset + out.len() as u64;
        for run in self.runs.iter().filter(|run| run.offset < to && offset < end(run)) {
            let (from, until) = (run.offset.max(offset), end(run).min(to));
            let inside = (from - run.offset) as usize..(until - run.offset) as usize;
            if let Some(bytes) = run.bytes(self.part.bytes()).and_then(|bytes| bytes.get(inside)) {
                out[(from - offset) as usize..(until - offset) as usize].copy_from_slice(bytes);
            }
        }
    }

    /// What it holds of the file from `offset` on, if that is all that `out` takes.
    pub(super) fn read(&self, offset: u64, out: &mut [u8]) -> bool {
        let found = self.runs.iter().find_map(|run| {
            let skip = usize::try_from(offset.checked_sub(run.offset)?).ok()?;
            run.bytes(self.part.bytes())?.get(skip..)?.get(..out.len())
        });
        found.map(|found| out.copy_from_slice(found)).is_some()
    }
}

/// Behind the last byte of `run` in its file.
fn end(run: &Piece) -> u64 {
    run.offset + u64::from(run.bytes)
}
