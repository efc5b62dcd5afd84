//! BITOP.

use std::ops::Range;

use firn_format::datatype::value::STRING_BYTES_MAX as RECORD_BYTES_MAX;

use super::super::call::Call;
use super::BLOCK_BYTES;
use crate::failure::{Failure, Result};
use crate::server_thread::Turns;
use crate::transaction::{Entry, Key};

/// What is made of several strings, bit by bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    And,
    Or,
    Xor,
    Not,
}

impl Operation {
    fn of_word(word: &[u8]) -> Option<Self> {
        Some(match word.to_ascii_lowercase().as_slice() {
            b"and" => Operation::And,
            b"or" => Operation::Or,
            b"xor" => Operation::Xor,
            b"not" => Operation::Not,
            _ => return None,
        })
    }

    /// Puts into `result` what is made of it and `other`, which is zeros behind its end.
    fn apply(self, result: &mut [u8], other: &[u8]) {
        let (front, behind) = result.split_at_mut(other.len().min(result.len()));
        let pairs = front.iter_mut().zip(other);
        match self {
            Operation::And => {
                pairs.for_each(|(byte, other)| *byte &= other);
                behind.fill(0);
            }
            Operation::Or => pairs.for_each(|(byte, other)| *byte |= other),
            Operation::Xor => pairs.for_each(|(byte, other)| *byte ^= other),
            Operation::Not => {}
        }
    }
}

/// `BITOP operation destination key [key ...]`: how many bytes the result has, which is as long as
/// the longest string.
///
/// The result is in memory once until it is written, the strings are a block at a time.
pub(super) async fn combine(call: &mut Call<'_>) -> Result<()> {
    let operation = Operation::of_word(call.argument(1)).ok_or(Failure::SYNTAX)?;
    if operation == Operation::Not && call.arguments.len() != 4 {
        return Err(Failure::new("ERR BITOP NOT must be called with a single source key."));
    }
    let keys = call.keys_from(3).await?;
    let sources = Sources::new(call, operation, keys).await?;
    let destination = call.entry(2).await?;
    match sources.len {
        0 => call.transaction.remove(&destination).await?,
        len @ ..=RECORD_BYTES_MAX => {
            let result = sources.block(call, 0..len).await?;
            call.transaction.set_string(&destination, &result, 0).await?;
        }
        len => {
            // Where the destination is among the sources, those go on having what stood there.
            let mut string = call.transaction.begin_string(&destination, len).await?;
            let mut turns = Turns::new(call.thread);
            for start in (0..len).step_by(BLOCK_BYTES) {
                let block = sources.block(call, start..len.min(start + BLOCK_BYTES)).await?;
                call.transaction.put_fragments(&string, start, &block).await?;
                turns.step(2 * block.len()).await;
            }
            call.transaction.end_string(&mut string, len, 0);
        }
    }
    call.reply(|reply| reply.integer(sources.len as i64));
    Ok(())
}

/// The strings that are combined.
struct Sources {
    operation: Operation,
    /// With the length of each.
    strings: Vec<(Entry, usize)>,
    /// The longest one's.
    len: usize,
}

impl Sources {
    async fn new(call: &mut Call<'_>, operation: Operation, keys: Vec<Key>) -> Result<Self> {
        let mut strings = Vec::with_capacity(keys.len());
        for entry in call.transaction.entries(keys).await? {
            let len = call.transaction.string_len(&entry)?.unwrap_or(0);
            strings.push((entry, len));
        }
        let len = strings.iter().map(|(_, len)| *len).max().unwrap_or(0);
        Ok(Self { operation, strings, len })
    }

    /// This part of the result. Others have their turns between strings.
    async fn block(&self, call: &mut Call<'_>, range: Range<usize>) -> Result<Vec<u8>> {
        let (mut result, mut turns) = (Vec::with_capacity(range.len()), Turns::new(call.thread));
        for (index, (source, len)) in self.strings.iter().enumerate() {
            let part = range.start.min(*len)..range.end.min(*len);
            let part = call.transaction.string_range(source, part).await?;
            if index == 0 {
                result.extend_from_slice(&part);
                result.resize(range.len(), 0);
            } else {
                self.operation.apply(&mut result, &part);
            }
            turns.step(range.len()).await;
        }
        if self.operation == Operation::Not {
            result.iter_mut().for_each(|byte| *byte = !*byte);
        }
        Ok(result)
    }
}
