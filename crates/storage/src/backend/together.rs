//! Ranges of any files, read together: the device has many of them under way at once.
//!
//! ```text
//!   ask for the first ones ─► read one, ask for one more ─► … ─► read the last
//! ```
//! Asking does not wait, so what is asked for comes while the ranges before it are read. That needs
//! nothing of a backend but advice and reads, and no thread. On a local disk it read more than
//! io_uring did, and than a pool of threads: decision 0026.

use std::sync::Arc;

use super::ASKED_MAX;
use crate::{ReadFile, Result, WriteFile};

/// A file that a range is read of.
#[derive(Clone, Debug)]
pub enum FileToRead {
    /// One of fixed length.
    Finished(Arc<dyn ReadFile>),
    /// One that is being written.
    Growing(Arc<dyn WriteFile>),
}

/// A range that is wanted: `bytes` are to be filled from `offset` of `file`.
#[derive(Clone, Debug)]
pub struct RangeRead {
    /// The file.
    pub file: FileToRead,
    /// Where the range begins.
    pub offset: u64,
    /// As many bytes as are wanted.
    pub bytes: Vec<u8>,
}

impl RangeRead {
    /// The next `bytes` bytes of `file` from `offset` on.
    pub fn new(file: FileToRead, offset: u64, bytes: usize) -> Self {
        Self { file, offset, bytes: vec![0; bytes] }
    }

    /// Fills it. Waits for the device.
    ///
    /// # Errors
    /// As [`ReadFile::read_at`].
    pub fn read(&mut self) -> Result<()> {
        match &self.file {
            FileToRead::Finished(file) => file.read_at(self.offset, &mut self.bytes),
            FileToRead::Growing(file) => file.read_at(self.offset, &mut self.bytes),
        }
    }

    /// Has it be on its way into memory.
    fn ask(&self) {
        let bytes = self.bytes.len() as u64;
        match &self.file {
            FileToRead::Finished(file) => file.will_look_up(self.offset, bytes),
            FileToRead::Growing(file) => file.will_need(self.offset, bytes),
        }
    }
}

/// Fills all of `reads`, with up to [`ASKED_MAX`] of them under way at once where the backend takes
/// advice. Answers for each, in order, what [`RangeRead::read`] would. Waits for the device.
///
/// The failure of one has no effect on others.
pub fn read_together(reads: &mut [&mut RangeRead]) -> Vec<Result<()>> {
    if reads.len() > 1 {
        reads.iter().take(ASKED_MAX).for_each(|read| read.ask());
    }
    let mut results = Vec::with_capacity(reads.len());
    for index in 0..reads.len() {
        results.push(reads[index].read());
        if let Some(further) = reads.get(index + ASKED_MAX) {
            further.ask();
        }
    }
    results
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::{ErrorKind, FileBytes};

    /// Records offsets that were asked for (positive) and read (negative); offset 3 fails.
    #[derive(Debug, Default)]
    struct Recorder(Mutex<Vec<i64>>);

    impl ReadFile for Recorder {
        fn len(&self) -> u64 {
            1000
        }

        fn read_at(&self, offset: u64, _out: &mut [u8]) -> Result<()> {
            self.0.lock().unwrap().push(-(offset as i64));
            match offset {
                3 => Err(crate::Error::new(ErrorKind::Refused, "a", "the device failed")),
                _ => Ok(()),
            }
        }

        fn will_need(&self, offset: u64, _bytes: u64) {
            self.0.lock().unwrap().push(offset as i64);
        }

        fn bytes(&self) -> Result<Option<FileBytes>> {
            Ok(None)
        }
    }

    fn read(count: u64) -> (Vec<i64>, Vec<Result<()>>) {
        let file = Arc::new(Recorder::default());
        let mut reads: Vec<RangeRead> =
            (1..=count).map(|offset| RangeRead::new(FileToRead::Finished(file.clone()), offset, 1)).collect();
        let results = read_together(&mut reads.iter_mut().collect::<Vec<_>>());
        let events = std::mem::take(&mut *file.0.lock().unwrap());
        (events, results)
    }

    #[test]
    fn so_many_are_asked_for_ahead_and_a_failure_is_one_ranges() {
        let ahead = ASKED_MAX as i64;
        let (events, results) = read(ASKED_MAX as u64 + 2);
        let mut expected: Vec<i64> = (1..=ahead).collect();
        expected.extend([-1, ahead + 1, -2, ahead + 2]);
        expected.extend((3..=ahead + 2).map(|offset| -offset));
        assert_eq!(events, expected);
        let failed: Vec<usize> = results
            .iter()
            .enumerate()
            .filter_map(|(index, result)| result.is_err().then_some(index))
            .collect();
        assert_eq!(failed, [2]);
    }

    #[test]
    fn one_is_read_at_once() {
        assert_eq!(read(1).0, [-1]);
    }
}
