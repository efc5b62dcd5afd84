//! Pages that never change again, on their way to a device.

use firn_engine::Result;
use firn_format::hybrid::image::{seal_record, shape_at};

use super::{Contents, Device};
use crate::error::{from_format, from_storage};
use crate::log::{Content, Log};

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
            let mut contents = Contents::default();
            let next = self.image(log, (at, end, to), &mut bytes, &mut contents)?;
            let file = self.segment_to_write(at)?;
            file.write_at(self.offset_of(at), &bytes).map_err(from_storage)?;
            self.count(at, &contents);
            at = next;
        }
        Ok(())
    }

    /// Appends the image of `at..end` to `out`, and of what the last record has beyond; counts the
    /// records, and answers where it ends.
    fn image(
        &self,
        log: &Log,
        (mut at, end, to): (u64, u64, u64),
        out: &mut Vec<u8>,
        contents: &mut Contents,
    ) -> Result<u64> {
        while at < end {
            let first = out.len();
            let rest = log.tail.page_of(at) + log.tail.page_words() - at;
            log.copy_words(at, 3.min(to - at).min(rest) as usize, out);
            let found = shape_at(&out[first..]).map_err(|error| from_format("the log in memory", error))?;
            let words = found.map_or(1, |(_, shape)| shape.words());
            out.truncate(first);
            log.copy_words(at, words, out);
            if let Some((_, shape)) = found {
                let record = &mut out[first..];
                let word = |index: usize| word_at(record, index);
                let keyspace = if shape.has_keyspace { word(shape.keyspace_at()) as u32 } else { 0 };
                let expires_at_ms = if shape.has_expiry { word(shape.expiry_at()) } else { 0 };
                let content = Content {
                    is_tombstone: shape.is_tombstone,
                    is_operand: shape.is_operand,
                    is_reference: shape.is_reference,
                    expires_at_ms,
                    sequence: 0,
                };
                contents.add_record(keyspace, content, words as u64);
                seal_record(at, record);
            }
            at += words as u64;
        }
        Ok(at)
    }
}

/// A word of a record's image.
pub(super) fn word_at(bytes: &[u8], index: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[index * 8..index * 8 + 8]);
    u64::from_le_bytes(word)
}
