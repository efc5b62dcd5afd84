//! An open file, for its writer and for the backend: what was written, and what waits in a slot of
//! the combiner.

use std::fs::File;
use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;

use crate::backend::old_bytes::OldBytes;
use crate::backend::{COMBINED_BYTES_MAX, zeros_after};
use crate::{Error, Result};

use super::combiner::{Combiner, Slot};
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
    combiner: Option<Arc<Combiner>>,
    combined: Mutex<Combined>,
    /// Offset of the first byte that waits, or [`NONE`]; changes under `combined`.
    waiting_from: AtomicU64,
}

/// What waits to be written, and where old bytes are.
#[derive(Debug, Default)]
struct Combined {
    waiting: Waiting,
    /// It gets no slot any more.
    has_left: bool,
    old: OldBytes,
}

impl OpenFile {
    /// `file`, whose first `old_bytes` are of an earlier life.
    pub(super) fn new(file: File, name: &str, old_bytes: u64, combiner: Option<Arc<Combiner>>) -> Arc<Self> {
        let combined = Mutex::new(Combined { old: OldBytes::new(old_bytes), ..Combined::default() });
        let (name, waiting_from) = (name.to_owned(), AtomicU64::new(NONE));
        let open = Arc::new(Self { file, name, combiner, combined, waiting_from });
        if let Some(combiner) = &open.combiner {
            combiner.register(&open);
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
    pub(super) fn write_combined(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let mut combined = self.lock();
        let is_small = (1..=COMBINED_BYTES_MAX).contains(&bytes.len());
        let slot = is_small.then(|| self.slot_for(&mut combined, bytes.len())).transpose()?.flatten();
        let end = offset + bytes.len() as u64;
        if let Some(slot) = slot {
            slot.add(offset, bytes);
            combined.old.reach(end);
            self.waiting_from.fetch_min(offset, Ordering::Release);
            return Ok(());
        }
        self.write_out(&mut combined)?;
        combined.old.reach(end);
        // With the lock held: a write behind it comes after its zeros.
        self.write_with(offset, &[bytes], combined.old.zeros_behind(end))
    }

    /// A slot with room for `bytes`; `None` if it has none and gets none.
    fn slot_for<'s>(&self, combined: &'s mut Combined, bytes: usize) -> Result<Option<&'s mut Slot>> {
        let Some(combiner) = self.combiner.as_ref().filter(|_| !combined.has_left) else { return Ok(None) };
        if combined.waiting.make_room(bytes, &self.name, combiner) {
            return Ok(combined.waiting.last());
        }
        match combined.waiting.is_empty() {
            // With this file's lock held: this waits for no other file's lock.
            true => {
                let _has_one =
                    combiner.collect_further() && combined.waiting.make_room(bytes, &self.name, combiner);
            }
            false => self.write_out(combined)?,
        }
        Ok(combined.waiting.last())
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
        let combined = self.lock();
        if combined.waiting.read(offset, out) {
            return Ok(());
        }
        let there = usize::try_from(combined.waiting.end().saturating_sub(offset))
            .unwrap_or(usize::MAX)
            .min(out.len());
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
        combined.waiting.lay_over(offset, out);
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
        let mut combined = self.lock();
        self.write_out(&mut combined)?;
        self.file.set_len(bytes).map_err(|error| Error::io(&self.name, "set the length of", error))?;
        combined.old.cut(bytes);
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
    pub(super) fn leave_combiner(&self) -> Result<()> {
        self.leave(&mut self.lock())
    }

    /// The same for good: the file's name is about to be another file's, or unused.
    pub(super) fn leave_combiner_for_good(&self) -> Result<()> {
        let mut combined = self.lock();
        self.leave(&mut combined)?;
        combined.has_left = true;
        Ok(())
    }

    /// The same, whether that can be written or not: what cannot stays in the combiner, for the
    /// next exclusive lock. This process does not touch it any more.
    pub(super) fn abandon_combiner(&self) {
        let mut combined = self.lock();
        if self.leave(&mut combined).is_err() {
            combined.waiting.abandon();
            self.waiting_from.store(NONE, Ordering::Release);
        }
        combined.has_left = true;
    }

    /// The same where the file is about to be removed: what cannot be written is not needed either.
    pub(super) fn forget_combiner(&self) {
        let mut combined = self.lock();
        if self.leave(&mut combined).is_err()
            && let Some(combiner) = &self.combiner
        {
            combined.waiting.give_back(combiner);
            self.waiting_from.store(NONE, Ordering::Release);
        }
        combined.has_left = true;
    }

    /// Writes what waits and gives all slots but one to others, if it has several and no other
    /// thread has its lock. What cannot be written goes on waiting; the next write or sync of the
    /// file reports that.
    pub(super) fn give_back_further(&self) {
        if let Ok(mut combined) = self.combined.try_lock()
            && combined.waiting.has_several()
        {
            let _reported_later = self.write_out(&mut combined);
        }
    }

    fn leave(&self, combined: &mut Combined) -> Result<()> {
        self.write_out(combined)?;
        if let Some(combiner) = &self.combiner {
            combined.waiting.give_back(combiner);
        }
        Ok(())
    }

    /// Writes what waits before a write up to `end`.
    fn settle_before(&self, end: u64) -> Result<()> {
        let mut combined = self.lock();
        self.write_out(&mut combined)?;
        combined.old.reach(end);
        Ok(())
    }

    /// Writes what waits; on `Err` all of it goes on waiting.
    fn write_out(&self, combined: &mut Combined) -> Result<()> {
        let Some(combiner) = self.combiner.as_ref().filter(|_| !combined.waiting.is_empty()) else {
            return Ok(());
        };
        for (offset, pieces) in combined.waiting.stretches() {
            let end = offset + pieces.iter().map(|piece| piece.len() as u64).sum::<u64>();
            self.write_with(offset, &pieces, combined.old.zeros_behind(end))?;
        }
        combined.waiting.empty(&self.name, combiner);
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

    fn lock(&self) -> MutexGuard<'_, Combined> {
        self.combined.lock().unwrap_or_else(PoisonError::into_inner)
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
