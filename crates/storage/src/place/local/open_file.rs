//! An open file, for its writer and for the place: what was written, and what waits in a slot of
//! the stage.

use std::fs::File;
use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;

use crate::place::old_bytes::OldBytes;
use crate::place::{STAGED_BYTES_MAX, zeros_after};
use crate::{Error, Result};

use super::stage::{Slot, Stage};
use super::waiting::Waiting;

/// Why a read of a file that is being written fails.
const ENDS: &str = "the file ends before what was written to it";
/// Nothing waits.
const NONE: u64 = u64::MAX;

/// A file being written.
#[derive(Debug)]
pub(super) struct OpenFile {
    pub(super) file: File,
    pub(super) name: String,
    stage: Option<Arc<Stage>>,
    staged: Mutex<Staged>,
    /// Offset of the first byte that waits, or [`NONE`]; changes under `staged`.
    waiting_from: AtomicU64,
}

/// What waits to be written, and where old bytes are.
#[derive(Debug, Default)]
struct Staged {
    waiting: Waiting,
    /// It gets no slot any more.
    has_left: bool,
    old: OldBytes,
}

impl OpenFile {
    /// `file`, whose first `old_bytes` are of an earlier life.
    pub(super) fn new(file: File, name: &str, old_bytes: u64, stage: Option<Arc<Stage>>) -> Arc<Self> {
        let staged = Mutex::new(Staged { old: OldBytes::new(old_bytes), ..Staged::default() });
        let (name, waiting_from) = (name.to_owned(), AtomicU64::new(NONE));
        let open = Arc::new(Self { file, name, stage, staged, waiting_from });
        if let Some(stage) = &open.stage {
            stage.register(&open);
        }
        open
    }

    /// Writes `bytes` at `offset`; what waits goes before it.
    pub(super) fn write_past(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.settle_before(offset + bytes.len() as u64)?;
        self.write(offset, bytes)
    }

    /// The same, and zeros to the end of the page.
    pub(super) fn write_zeroing(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let end = offset + bytes.len() as u64;
        self.settle_before(end)?;
        self.write_with(offset, &[bytes], zeros_after(end))
    }

    /// Puts `bytes` into the slot; writes them where there is none, or they are too many.
    pub(super) fn write_staged(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let mut staged = self.lock();
        let is_small = (1..=STAGED_BYTES_MAX).contains(&bytes.len());
        let slot = is_small.then(|| self.slot_for(&mut staged, bytes.len())).transpose()?.flatten();
        let end = offset + bytes.len() as u64;
        if let Some(slot) = slot {
            slot.add(offset, bytes);
            staged.old.reach(end);
            self.waiting_from.fetch_min(offset, Ordering::Release);
            return Ok(());
        }
        self.write_out(&mut staged)?;
        staged.old.reach(end);
        // With the lock held: a write behind it comes after its zeros.
        self.write_with(offset, &[bytes], staged.old.zeros_behind(end))
    }

    /// A slot with room for `bytes`; `None` if it has none and gets none.
    fn slot_for<'s>(&self, staged: &'s mut Staged, bytes: usize) -> Result<Option<&'s mut Slot>> {
        let Some(stage) = self.stage.as_ref().filter(|_| !staged.has_left) else { return Ok(None) };
        if staged.waiting.make_room(bytes, &self.name, stage) {
            return Ok(staged.waiting.last());
        }
        match staged.waiting.is_empty() {
            // With this file's lock held: this waits for no other file's lock.
            true => {
                let _has_one = stage.collect_further() && staged.waiting.make_room(bytes, &self.name, stage);
            }
            false => self.write_out(staged)?,
        }
        Ok(staged.waiting.last())
    }

    /// Fills `out` with what was written or waits.
    pub(super) fn read(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let end = offset + out.len() as u64;
        let waiting_from = self.waiting_from.load(Ordering::Acquire);
        if end <= waiting_from {
            match self.file.read_exact_at(out, offset) {
                // What waits may lie behind a gap that a writer is about to fill: the file is as
                // long as that.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof && waiting_from != NONE => {}
                read => return read.map_err(|error| read_error(&self.name, offset, error, ENDS)),
            }
        }
        self.read_over(offset, out)
    }

    /// The same where bytes of `out` wait, or lie before such that do. Writes nothing.
    fn read_over(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let staged = self.lock();
        if staged.waiting.read(offset, out) {
            return Ok(());
        }
        let there =
            usize::try_from(staged.waiting.end().saturating_sub(offset)).unwrap_or(usize::MAX).min(out.len());
        let mut done = 0;
        while done < out.len() {
            match self.file.read_at(&mut out[done..], offset + done as u64) {
                Ok(0) if done >= there => return Err(Error::corrupt(&*self.name, offset, ENDS)),
                Ok(0) => {
                    out[done..there].fill(0);
                    done = there;
                }
                Ok(bytes) => done += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(read_error(&self.name, offset, error, ENDS)),
            }
        }
        staged.waiting.lay_over(offset, out);
        Ok(())
    }

    /// Behind the last byte that waits; 0 if none does.
    pub(super) fn waiting_end(&self) -> u64 {
        match self.waiting_from.load(Ordering::Acquire) {
            NONE => 0,
            _ => self.lock().waiting.end(),
        }
    }

    /// Cuts or extends the file to `bytes`.
    pub(super) fn set_len(&self, bytes: u64) -> Result<()> {
        let mut staged = self.lock();
        self.write_out(&mut staged)?;
        self.file.set_len(bytes).map_err(|error| Error::io(&self.name, "set the length of", error))?;
        staged.old.cut(bytes);
        Ok(())
    }

    /// Writes what waits.
    pub(super) fn settle(&self) -> Result<()> {
        match self.waiting_from.load(Ordering::Acquire) {
            NONE => Ok(()),
            _ => self.write_out(&mut self.lock()),
        }
    }

    /// Writes what waits, and gives its slots to others.
    pub(super) fn leave_stage(&self) -> Result<()> {
        self.leave(&mut self.lock())
    }

    /// The same for good: the file's name is about to be another file's, or unused.
    pub(super) fn leave_stage_for_good(&self) -> Result<()> {
        let mut staged = self.lock();
        self.leave(&mut staged)?;
        staged.has_left = true;
        Ok(())
    }

    /// The same, whether that can be written or not: what cannot stays in the stage, for the next
    /// exclusive lock. This process does not touch it any more.
    pub(super) fn abandon_stage(&self) {
        let mut staged = self.lock();
        if self.leave(&mut staged).is_err() {
            staged.waiting.abandon();
            self.waiting_from.store(NONE, Ordering::Release);
        }
        staged.has_left = true;
    }

    /// The same where the file is about to be removed: what cannot be written is not needed either.
    pub(super) fn forget_stage(&self) {
        let mut staged = self.lock();
        if self.leave(&mut staged).is_err()
            && let Some(stage) = &self.stage
        {
            staged.waiting.give_back(stage);
            self.waiting_from.store(NONE, Ordering::Release);
        }
        staged.has_left = true;
    }

    /// Writes what waits and gives all slots but one to others, if it has several and no other
    /// thread has its lock. What cannot be written goes on waiting; the next write or sync of the
    /// file reports that.
    pub(super) fn give_back_further(&self) {
        if let Ok(mut staged) = self.staged.try_lock()
            && staged.waiting.has_several()
        {
            let _told_later = self.write_out(&mut staged);
        }
    }

    fn leave(&self, staged: &mut Staged) -> Result<()> {
        self.write_out(staged)?;
        if let Some(stage) = &self.stage {
            staged.waiting.give_back(stage);
        }
        Ok(())
    }

    /// Writes what waits before a write up to `end`.
    fn settle_before(&self, end: u64) -> Result<()> {
        let mut staged = self.lock();
        self.write_out(&mut staged)?;
        staged.old.reach(end);
        Ok(())
    }

    /// Writes what waits; on `Err` all of it goes on waiting.
    fn write_out(&self, staged: &mut Staged) -> Result<()> {
        let Some(stage) = self.stage.as_ref().filter(|_| !staged.waiting.is_empty()) else { return Ok(()) };
        for (offset, pieces) in staged.waiting.stretches() {
            let end = offset + pieces.iter().map(|piece| piece.len() as u64).sum::<u64>();
            self.write_with(offset, &pieces, staged.old.zeros_behind(end))?;
        }
        staged.waiting.empty(&self.name, stage);
        self.waiting_from.store(NONE, Ordering::Release);
        Ok(())
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.file.write_all_at(bytes, offset).map_err(|error| self.write_error(offset, error))
    }

    /// Writes `pieces`, one behind the other, and `zeros` behind them.
    fn write_with(&self, offset: u64, pieces: &[&[u8]], zeros: &[u8]) -> Result<()> {
        if let ([bytes], []) = (pieces, zeros) {
            return self.write(offset, bytes);
        }
        let mut parts: Vec<IoSlice<'_>> =
            pieces.iter().chain([&zeros]).map(|part| IoSlice::new(part)).collect();
        let (mut rest, mut at) = (parts.as_mut_slice(), offset);
        // What is missing of the pieces is written; what is missing of the zeros was not promised.
        let end = offset + pieces.iter().map(|piece| piece.len() as u64).sum::<u64>();
        while at < end {
            // Of more parts than the system takes at once, the first ones.
            match rustix::io::pwritev(&self.file, rest, at) {
                Err(Errno::INTR) => {}
                Err(errno) => return Err(self.write_error(at, errno.into())),
                Ok(0) => return Err(self.write_error(at, io::ErrorKind::WriteZero.into())),
                Ok(written) => {
                    at += written as u64;
                    IoSlice::advance_slices(&mut rest, written);
                }
            }
        }
        Ok(())
    }

    fn write_error(&self, offset: u64, error: io::Error) -> Error {
        Error { offset: Some(offset), ..Error::io(&self.name, "write", error) }
    }

    fn lock(&self) -> MutexGuard<'_, Staged> {
        self.staged.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Fills `out` from `offset`; where the file ends before, that is corruption, and `why`.
pub(super) fn read_exact(file: &File, name: &str, offset: u64, out: &mut [u8], why: &str) -> Result<()> {
    file.read_exact_at(out, offset).map_err(|error| read_error(name, offset, error, why))
}

fn read_error(name: &str, offset: u64, error: io::Error, why: &str) -> Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => Error::corrupt(name, offset, why),
        _ => Error { offset: Some(offset), ..Error::io(name, "read", error) },
    }
}
