//! Strings as bits, the first of which is the highest of the first byte.
//!
//! Of a long string a command reads and writes only the fragments that it needs. A command that
//! goes over all of it does so a block at a time.

mod field;
mod number;
mod operation;

use std::ops::Range;

use firn_protocol::command::{CommandId, id_of};

use super::call::Call;
use crate::failure::{Failure, Result};
use crate::server_thread::Turns;
use crate::transaction::Entry;

/// Bytes of a string that are in memory at once.
const BLOCK_BYTES: usize = 1 << 20;

const OFFSET: Failure = Failure::new("ERR bit offset is not an integer or out of range");

pub(super) async fn dispatch(call: &mut Call<'_>) -> Result<()> {
    const BITCOUNT: CommandId = id_of("bitcount");
    const BITFIELD: CommandId = id_of("bitfield");
    const BITFIELD_RO: CommandId = id_of("bitfield_ro");
    const BITOP: CommandId = id_of("bitop");
    const BITPOS: CommandId = id_of("bitpos");
    const GETBIT: CommandId = id_of("getbit");
    const SETBIT: CommandId = id_of("setbit");
    match call.command.id() {
        GETBIT => get(call).await,
        SETBIT => set(call).await,
        BITCOUNT => count(call).await,
        BITPOS => position(call).await,
        BITOP => operation::combine(call).await,
        BITFIELD => field::run(call, false).await,
        BITFIELD_RO => field::run(call, true).await,
        _ => Err(call.not_offered()),
    }
}

/// The number of a bit that the word at `index` says.
fn offset(call: &Call<'_>, index: usize) -> Result<u64> {
    let offset = call.integer(index).ok().and_then(|offset| u64::try_from(offset).ok());
    offset.filter(|offset| *offset < bits_max(call)).ok_or(OFFSET)
}

/// Bits of the longest string.
fn bits_max(call: &Call<'_>) -> u64 {
    8 * call.transaction.string_bytes_max() as u64
}

/// The byte at `at`; 0 behind the end.
async fn byte(call: &mut Call<'_>, entry: &Entry, at: usize) -> Result<u8> {
    let len = call.transaction.string_len(entry)?.unwrap_or(0);
    if at >= len {
        return Ok(0);
    }
    let part = call.transaction.string_range(entry, at..at + 1).await?;
    Ok(part.first().copied().unwrap_or(0))
}

/// The bit of `byte` that the bit number `offset` of a string is.
fn mask(offset: u64) -> u8 {
    0x80 >> (offset % 8)
}

/// `GETBIT key offset`
async fn get(call: &mut Call<'_>) -> Result<()> {
    let offset = offset(call, 2)?;
    let entry = call.entry(1).await?;
    let byte = byte(call, &entry, (offset / 8) as usize).await?;
    call.reply(|reply| reply.integer(i64::from(byte & mask(offset) != 0)));
    Ok(())
}

/// `SETBIT key offset value`
async fn set(call: &mut Call<'_>) -> Result<()> {
    let offset = offset(call, 2)?;
    let is_set = match call.integer(3) {
        Ok(bit @ (0 | 1)) => bit == 1,
        _ => return Err(Failure::new("ERR bit is not an integer or out of range")),
    };
    let entry = call.entry(1).await?;
    let at = (offset / 8) as usize;
    let len = call.transaction.string_len(&entry)?.unwrap_or(0);
    let old = byte(call, &entry, at).await?;
    let new = if is_set { old | mask(offset) } else { old & !mask(offset) };
    if new != old || at >= len {
        call.transaction.write_string(&entry, at, &[new]).await?;
    }
    call.reply(|reply| reply.integer(i64::from(old & mask(offset) != 0)));
    Ok(())
}

/// Positions that a command counts in bytes or, with the word BIT, in bits.
fn counts_bits(call: &Call<'_>, index: usize) -> Result<bool> {
    match call.arguments.get(index) {
        None => Ok(false),
        Some(word) if word.eq_ignore_ascii_case(b"byte") => Ok(false),
        Some(word) if word.eq_ignore_ascii_case(b"bit") => Ok(true),
        Some(_) => Err(Failure::SYNTAX),
    }
}

/// The bits from `start` to `end` of a string of `len` bytes: both included, negative ones counted
/// from the end.
fn bits(len: usize, start: i64, end: i64, are_bits: bool) -> Range<u64> {
    let unit = if are_bits { 1 } else { 8 };
    let total = (len * 8 / unit) as i64;
    let from_end = |place: i64| if place < 0 { place.saturating_add(total).max(0) } else { place };
    let (start, end) = (from_end(start), from_end(end).min(total - 1));
    if start > end { 0..0 } else { start as u64 * unit as u64..(end as u64 + 1) * unit as u64 }
}

/// `BITCOUNT key [start end [BYTE | BIT]]`
async fn count(call: &mut Call<'_>) -> Result<()> {
    let entry = call.entry(1).await?;
    let len = call.transaction.string_len(&entry)?.unwrap_or(0);
    let range = match call.arguments.len() {
        // What is not there has no bits, whatever is asked of it.
        _ if !entry.exists() => 0..0,
        2 => 0..len as u64 * 8,
        4 | 5 => {
            let (start, end) = (call.integer(2)?, call.integer(3)?);
            match start < 0 && end < 0 && start > end {
                true => 0..0,
                false => bits(len, start, end, counts_bits(call, 4)?),
            }
        }
        _ => return Err(Failure::SYNTAX),
    };
    let (mut sum, mut turns) = (0_u64, Turns::new(call.thread));
    let mut blocks = Blocks::of(range);
    while let Some(block) = blocks.next(call, &entry).await? {
        sum += ones(&block.bytes);
        turns.step(block.bytes.len()).await;
    }
    call.reply(|reply| reply.integer(sum as i64));
    Ok(())
}

fn ones(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let in_words: u64 = words.iter().map(|word| u64::from(u64::from_le_bytes(*word).count_ones())).sum();
    in_words + rest.iter().map(|byte| u64::from(byte.count_ones())).sum::<u64>()
}

/// `BITPOS key bit [start [end [BYTE | BIT]]]`
async fn position(call: &mut Call<'_>) -> Result<()> {
    let wants_one = match call.integer(2)? {
        0 => false,
        1 => true,
        _ => return Err(Failure::new("ERR The bit argument must be 1 or 0.")),
    };
    let entry = call.entry(1).await?;
    let Some(len) = call.transaction.string_len(&entry)? else {
        call.reply(|reply| reply.integer(if wants_one { -1 } else { 0 }));
        return Ok(());
    };
    if call.arguments.len() > 6 {
        return Err(Failure::SYNTAX);
    }
    let start = if call.arguments.len() > 3 { call.integer(3)? } else { 0 };
    let are_bits = counts_bits(call, 5)?;
    let has_end = call.arguments.len() > 4;
    let range = bits(len, start, if has_end { call.integer(4)? } else { -1 }, are_bits);
    // Behind a string that is asked for to its end there are zeros without end.
    let mut found = if wants_one || has_end || range.is_empty() { None } else { Some(range.end) };
    let mut turns = Turns::new(call.thread);
    let mut blocks = Blocks::of(range);
    while let Some(mut block) = blocks.next(call, &entry).await? {
        turns.step(block.bytes.len()).await;
        if !wants_one {
            block.invert();
        }
        if let Some(offset) = first_one(&block.bytes) {
            found = Some(block.start * 8 + offset);
            break;
        }
    }
    call.reply(|reply| reply.integer(found.map_or(-1, |offset| offset as i64)));
    Ok(())
}

fn first_one(bytes: &[u8]) -> Option<u64> {
    let at = bytes.iter().position(|byte| *byte != 0)?;
    Some(at as u64 * 8 + u64::from(bytes[at].leading_zeros()))
}

/// A range of a string's bits, block by block.
struct Blocks {
    range: Range<u64>,
    /// The first byte of the next block.
    next: u64,
}

/// Some bytes, in which bits that are not asked for are 0.
struct Block {
    /// Where in the string the first byte stands.
    start: u64,
    bytes: Vec<u8>,
    /// Bits that are asked for of the first byte and of the last.
    first: u8,
    last: u8,
}

impl Blocks {
    fn of(range: Range<u64>) -> Self {
        Self { next: range.start / 8, range }
    }

    async fn next(&mut self, call: &mut Call<'_>, entry: &Entry) -> Result<Option<Block>> {
        let start = self.next;
        let end = self.range.end.div_ceil(8).min(start + BLOCK_BYTES as u64);
        if start >= end || self.range.is_empty() {
            return Ok(None);
        }
        self.next = end;
        let bytes = call.transaction.string_range(entry, start as usize..end as usize).await?.into_owned();
        let first = 0xFF >> self.range.start.saturating_sub(start * 8).min(7);
        let last = 0xFF << (end * 8).saturating_sub(self.range.end).min(7);
        let mut block = Block { start, bytes, first, last };
        block.cut();
        Ok(Some(block))
    }
}

impl Block {
    /// Leaves only the bits that are asked for.
    fn cut(&mut self) {
        if let Some(byte) = self.bytes.first_mut() {
            *byte &= self.first;
        }
        if let Some(byte) = self.bytes.last_mut() {
            *byte &= self.last;
        }
    }

    /// Turns those bits round.
    fn invert(&mut self) {
        self.bytes.iter_mut().for_each(|byte| *byte = !*byte);
        self.cut();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_bits_are_counted_as_clients_do() {
        assert_eq!(bits(3, 0, -1, false), 0..24);
        assert_eq!(bits(3, 1, 1, false), 8..16);
        assert_eq!(bits(3, -2, 100, false), 8..24);
        assert_eq!(bits(3, 2, 1, false), 0..0);
        assert_eq!(bits(3, -5, -5, false), 0..8, "what lies before the first is the first");
        assert_eq!(bits(3, 5, -2, true), 5..23);
        assert_eq!(bits(3, i64::MIN, i64::MAX, true), 0..24);
        assert_eq!(bits(0, 0, -1, true), 0..0);
    }
}
