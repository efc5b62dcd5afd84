//! Files on their way to where other machines reach them.

use std::ops::Range;
use std::time::Duration;

use firn_engine::{Error, ErrorKind, Result};
use firn_format::file_name;
use firn_format::hybrid::{Extent, LogKind, SEGMENT_HEADER_BYTES};

use super::{KeptFile, Tier};
use crate::anew::create_anew;
use crate::device::Device;
use crate::error::from_storage;

/// Bytes copied at a time.
const PIECE_BYTES: u64 = 1 << 20;

/// How often something is tried before it is said that shared storage does not take it.
pub(crate) const TRIES_MAX: u32 = 8;

/// Before the second try; twice as long each time after that.
const PAUSE: Duration = Duration::from_millis(10);

/// Why a file was not sent.
enum Failure {
    /// This machine's part of it cannot be read.
    Here(Error),
    /// Shared storage has not taken it.
    There(Error),
}

/// Fills a buffer from a byte of a local file on.
type ReadFrom<'r> = dyn Fn(u64, &mut [u8]) -> Result<()> + 'r;

impl Tier {
    /// Sends words of `device`, which is the log `log`, as extents. Blocks until all are durable
    /// there.
    ///
    /// # Errors
    /// `Retry` where shared storage does not take them; those of the device.
    pub(crate) fn send_extents(
        &self,
        log: LogKind,
        device: &Device,
        ranges: &[(u64, u64)],
    ) -> Result<Vec<Extent>> {
        let mut sent = Vec::with_capacity(ranges.len());
        for (from, to) in ranges.iter().copied() {
            let extent = Extent { log, from, to, generation: self.generation };
            let first = device.offset_of(from);
            let parts = [0..SEGMENT_HEADER_BYTES as u64, first..first + 8 * (to - from)];
            let read = |offset: u64, out: &mut [u8]| device.read_file(from, offset, out);
            self.send(&file_name::extent(extent), &parts, &read)?;
            sent.push(extent);
        }
        Ok(sent)
    }

    /// Sends the local file `name`, under the same name; answers its length.
    ///
    /// # Errors
    /// As [`send_extents`](Self::send_extents).
    pub(crate) fn send_file(&self, name: &str) -> Result<u64> {
        let file = self.parts.local.open_read(name).map_err(from_storage)?;
        let read = |offset: u64, out: &mut [u8]| file.read_at(offset, out).map_err(from_storage);
        let whole = 0..file.len();
        self.send(name, std::slice::from_ref(&whole), &read)?;
        Ok(file.len())
    }

    /// Sends a value, which then stays here while there is room.
    pub(crate) fn send_value(&self, number: u64) -> Result<()> {
        let bytes = self.send_file(&file_name::value(number))?;
        self.keep(KeptFile::Value(number), bytes);
        Ok(())
    }

    /// Makes the file `name` there, of these `parts` of what `read` reads.
    fn send(&self, name: &str, parts: &[Range<u64>], read: &ReadFrom<'_>) -> Result<()> {
        let mut tried = 0;
        loop {
            match self.try_send(name, parts, read) {
                Ok(()) => return Ok(()),
                Err(Failure::Here(error)) => return Err(error),
                Err(Failure::There(error)) if tried + 1 == TRIES_MAX => {
                    let message = format!("shared storage does not take {name} now");
                    return Err(Error::new(ErrorKind::Retry, message).because(error));
                }
                Err(Failure::There(_)) => self.pause(tried),
            }
            tried += 1;
        }
    }

    /// Waits before the next try of something that was tried so many times before.
    pub(crate) fn pause(&self, tried: u32) {
        self.parts.clock.sleep(PAUSE * (1 << tried.min(TRIES_MAX)));
    }

    /// What an earlier try has left is not needed: no edit names it. So each failure, of a sync
    /// too, is answered by a new file.
    fn try_send(
        &self,
        name: &str,
        parts: &[Range<u64>],
        read: &ReadFrom<'_>,
    ) -> std::result::Result<(), Failure> {
        let shared = &*self.parts.shared;
        let there = |error| Failure::There(from_storage(error));
        let file = create_anew(shared, name).map_err(Failure::There)?;
        let mut to = 0;
        let mut piece = Vec::new();
        for part in parts {
            let mut at = part.start;
            while at < part.end {
                piece.resize(PIECE_BYTES.min(part.end - at) as usize, 0);
                read(at, &mut piece).map_err(Failure::Here)?;
                file.write_at(to, &piece).map_err(there)?;
                (at, to) = (at + piece.len() as u64, to + piece.len() as u64);
            }
        }
        match file.sync() {
            // An object shows that its name is taken when it is whole.
            Err(error) if error.kind == firn_storage::ErrorKind::Exists => {
                let _gone = shared.remove(name);
                Err(there(error))
            }
            synced => synced.and_then(|()| shared.sync_dir()).map_err(there),
        }
    }
}
