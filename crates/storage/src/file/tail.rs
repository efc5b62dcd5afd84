//! The end of a file, where files that are opened say where the rest is.

use crate::{ReadFile, Result};

/// The last bytes of a file that is not mapped, read at once. Where each read is a request, an
/// opening is one or two of them.
#[derive(Debug)]
pub(super) struct Tail {
    bytes: Vec<u8>,
    start: u64,
}

/// What is read before it is known how much is needed: the parts of most small tables, and less
/// than a request's own time.
const TAIL_BYTES: u64 = 64 << 10;

/// Where the tail of a file of `bytes` bytes begins.
pub(super) fn start_of(bytes: u64) -> u64 {
    bytes.saturating_sub(TAIL_BYTES)
}

impl Tail {
    /// Whether all of a file of `bytes` bytes is its tail.
    pub(super) fn is_all_of(bytes: u64) -> bool {
        bytes <= TAIL_BYTES
    }

    /// Asks for what [`read`](Self::read) reads. Does not wait.
    pub(super) fn ask(file: &dyn ReadFile) {
        let start = start_of(file.len());
        file.will_need(start, file.len() - start);
    }

    /// Asks for what [`reach`](Self::reach) reads. Does not wait.
    pub(super) fn ask_back_to(&self, file: &dyn ReadFile, start: u64) {
        if let Some(missing) = self.start.checked_sub(start).filter(|missing| *missing > 0) {
            file.will_need(start, missing);
        }
    }

    /// The last 64 KiB of `file`, or what it has.
    pub(super) fn read(file: &dyn ReadFile) -> Result<Self> {
        let start = start_of(file.len());
        Ok(Self { bytes: read(file, start, file.len() - start)?, start })
    }

    /// Goes back to `start`, by one read if it is not there yet.
    pub(super) fn reach(&mut self, file: &dyn ReadFile, start: u64) -> Result<()> {
        let Some(missing) = self.start.checked_sub(start).filter(|missing| *missing > 0) else {
            return Ok(());
        };
        let mut bytes = read(file, start, missing)?;
        bytes.append(&mut self.bytes);
        *self = Self { bytes, start };
        Ok(())
    }

    /// `bytes` bytes from `offset` on; `None` unless all of them are here.
    pub(super) fn get(&self, offset: u64, bytes: usize) -> Option<&[u8]> {
        let start = usize::try_from(offset.checked_sub(self.start)?).ok()?;
        self.bytes.get(start..start.checked_add(bytes)?)
    }
}

fn read(file: &dyn ReadFile, offset: u64, bytes: u64) -> Result<Vec<u8>> {
    // Tells a cache before the backend that this is read once.
    file.will_need(offset, bytes);
    let mut out = vec![0; bytes as usize];
    file.read_at(offset, &mut out)?;
    Ok(out)
}
