//! Pages that never change again, on their way to a device.

use firn_engine::Result;
use firn_format::hybrid::image::{seal_record, shape_at};

use super::Device;
use crate::error::{from_format, from_storage};
use crate::log::Log;

/// Words that are written with one call, at most.
const WRITE_WORDS: u64 = 128 << 10;

impl Device {
    /// Writes `from..to` of the log to its segments. Nothing changes there any more, except what
    /// holds in memory alone; both ends lie between records. Does not sync.
    ///
    /// # Errors
    /// Those of the storage; what was written so far does no harm, and is written again.
    pub(crate) fn flush(&self, log: &Log, from: u64, to: u64) -> Result<()> {
        let mut at = from;
        let mut bytes = Vec::new();
        while at < to {
            let end = (at + WRITE_WORDS).min(to).min(self.end_of(at));
            bytes.clear();
            let next = self.image(log, at, end, to, &mut bytes)?;
            let file = self.segment_to_write(at)?;
            file.write_at(self.offset_of(at), &bytes).map_err(from_storage)?;
            at = next;
        }
        Ok(())
    }

    /// Appends the image of `at..end` to `out`, and of what the last record has beyond; answers
    /// where it ends.
    fn image(&self, log: &Log, mut at: u64, end: u64, to: u64, out: &mut Vec<u8>) -> Result<u64> {
        while at < end {
            let first = out.len();
            let rest = log.tail.page_of(at) + log.tail.page_words() - at;
            log.copy_words(at, 3.min(to - at).min(rest) as usize, out);
            let found = shape_at(&out[first..]).map_err(|error| from_format("the log in memory", error))?;
            let words = found.map_or(1, |(_, shape)| shape.words());
            out.truncate(first);
            log.copy_words(at, words, out);
            if found.is_some() {
                seal_record(at, &mut out[first..]);
            }
            at += words as u64;
        }
        Ok(at)
    }
}
