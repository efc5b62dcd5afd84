//! BITOP.

use super::super::call::Call;
use super::BLOCK_BYTES;
use crate::failure::{Failure, Result};
use crate::worker::Turns;

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

/// `BITOP operation destination key [key ...]`: how many bytes the result has, which is as long as the longest string.
///
/// The result is in memory until it is written, the strings are a block at a time.
pub(super) async fn combine(call: &mut Call<'_>) -> Result<()> {
    let operation = Operation::of_word(call.argument(1)).ok_or(Failure::SYNTAX)?;
    if operation == Operation::Not && call.arguments.len() != 4 {
        return Err(Failure::new("ERR BITOP NOT must be called with a single source key."));
    }
    let sources = call.keys_from(3).await?;
    let sources = call.transaction.entries(sources).await?;
    let mut lens = Vec::with_capacity(sources.len());
    for source in &sources {
        lens.push(call.transaction.string_len(source)?.unwrap_or(0));
    }
    let len = lens.iter().copied().max().unwrap_or(0);
    let (mut result, mut turns) = (Vec::with_capacity(len), Turns::new(call.worker));
    while result.len() < len {
        let start = result.len();
        let end = len.min(start + BLOCK_BYTES);
        for (index, (source, source_len)) in sources.iter().zip(&lens).enumerate() {
            let range = start.min(*source_len)..end.min(*source_len);
            let part = call.transaction.string_range(source, range).await?;
            if index == 0 {
                result.extend_from_slice(&part);
                result.resize(end, 0);
            } else {
                operation.apply(&mut result[start..], &part);
            }
            turns.step(end - start).await;
        }
        if operation == Operation::Not {
            result[start..].iter_mut().for_each(|byte| *byte = !*byte);
        }
    }
    let destination = call.entry(2).await?;
    match len {
        0 => call.transaction.remove(&destination).await?,
        _ => call.transaction.set_string(&destination, &result, 0).await?,
    }
    call.reply(|reply| reply.integer(len as i64));
    Ok(())
}
