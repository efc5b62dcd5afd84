//! BITFIELD: several reads and writes of integers in one string.

use std::collections::BTreeMap;

use firn_protocol::number::parse_integer;

use super::super::call::Call;
use super::number::{Overflow, SPAN_BYTES, Width};
use super::{OFFSET, bits_max};
use crate::failure::{Failure, Result};
use crate::server_thread::Turns;
use crate::transaction::Entry;

/// What is done with the integer at one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Get,
    Set(i64),
    Add(i64),
}

/// One of the operations of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Operation {
    action: Action,
    width: Width,
    /// Number of its first bit.
    offset: u64,
    overflow: Overflow,
}

impl Operation {
    /// Number of the byte with its last bit.
    fn last_byte(&self) -> usize {
        ((self.offset + u64::from(self.width.bits) - 1) / 8) as usize
    }
}

/// `BITFIELD key [GET type offset | SET type offset value | INCRBY type offset increment | OVERFLOW
/// WRAP | SAT | FAIL ...]`, and `BITFIELD_RO`, which takes only GET.
pub(super) async fn run(call: &mut Call<'_>, only_reads: bool) -> Result<()> {
    let operations = operations(call).await?;
    let writes = || operations.iter().filter(|operation| operation.action != Action::Get);
    if only_reads && writes().next().is_some() {
        return Err(Failure::new("ERR BITFIELD_RO only supports the GET subcommand"));
    }
    let entry = call.entry(1).await?;
    let len = call.transaction.string_len(&entry)?.unwrap_or(0);
    let mut string = Patched { entry, len, changed: BTreeMap::new() };
    // It becomes as long as what is to be written needs, also if that fails.
    if let Some(last) = writes().map(Operation::last_byte).max().filter(|last| *last >= len) {
        string.changed.insert(last, 0);
    }
    call.reply(|reply| reply.array(operations.len()));
    let mut turns = Turns::new(call.thread);
    for operation in &operations {
        turns.step(SPAN_BYTES).await;
        let answer = string.apply(call, operation).await?;
        call.reply(|reply| match answer {
            Some(number) => reply.integer(number),
            None => reply.null(),
        });
    }
    string.write(call).await
}

async fn operations(call: &Call<'_>) -> Result<Vec<Operation>> {
    let mut operations = Vec::new();
    let mut overflow = Overflow::Wrap;
    let mut index = 2;
    let mut turns = Turns::new(call.thread);
    while index < call.arguments.len() {
        let left = call.arguments.len() - index - 1;
        let name = call.argument(index).to_ascii_lowercase();
        match (name.as_slice(), left) {
            (b"overflow", 1..) => {
                overflow = match call.argument(index + 1).to_ascii_lowercase().as_slice() {
                    b"wrap" => Overflow::Wrap,
                    b"sat" => Overflow::Saturate,
                    b"fail" => Overflow::Fail,
                    _ => return Err(Failure::new("ERR Invalid OVERFLOW type specified")),
                };
                index += 2;
                continue;
            }
            (b"get", 2..) | (b"set" | b"incrby", 3..) => {}
            _ => return Err(Failure::SYNTAX),
        }
        let width = Width::parse(call.argument(index + 1)).ok_or(Failure::new(
            "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.",
        ))?;
        let offset = offset(call, index + 2, width)?;
        let action = match name.as_slice() {
            b"get" => Action::Get,
            b"set" => Action::Set(call.integer(index + 3)?),
            _ => Action::Add(call.integer(index + 3)?),
        };
        index += if action == Action::Get { 3 } else { 4 };
        operations.push(Operation { action, width, offset, overflow });
        turns.step(0).await;
    }
    Ok(operations)
}

/// A place: a number of bits, or `#` and a number of integers of that width.
fn offset(call: &Call<'_>, index: usize, width: Width) -> Result<u64> {
    let text = call.argument(index);
    let (digits, unit) = match text.split_first() {
        Some((b'#', digits)) => (digits, u64::from(width.bits)),
        _ => (text, 1),
    };
    let number = parse_integer(digits).and_then(|number| u64::try_from(number).ok());
    number.and_then(|number| number.checked_mul(unit)).filter(|offset| *offset < bits_max(call)).ok_or(OFFSET)
}

/// A string with bytes that are not written yet.
struct Patched {
    entry: Entry,
    len: usize,
    changed: BTreeMap<usize, u8>,
}

impl Patched {
    /// Does one operation; what it answers, `None` if it overflows and is to fail then.
    async fn apply(&mut self, call: &mut Call<'_>, operation: &Operation) -> Result<Option<i64>> {
        let Operation { action, width, offset, overflow } = *operation;
        let (first, skip) = ((offset / 8) as usize, (offset % 8) as u32);
        let mut bytes = self.read(call, first).await?;
        let old = width.read(&bytes, skip);
        let (new, answers_old) = match action {
            Action::Get => return Ok(Some(old)),
            Action::Set(number) => (width.meant(number), true),
            Action::Add(amount) => (i128::from(old) + i128::from(amount), false),
        };
        let Some(new) = width.fit(new, overflow) else { return Ok(None) };
        // As in Redis, a field that has its value already is not written, and clients that watch
        // the string see no change.
        if new != old || operation.last_byte() >= self.len {
            width.write(&mut bytes, skip, new);
            let touched = first..=operation.last_byte();
            self.changed.extend(touched.zip(bytes));
        }
        Ok(Some(if answers_old { old } else { new }))
    }

    async fn read(&self, call: &mut Call<'_>, first: usize) -> Result<[u8; SPAN_BYTES]> {
        let mut bytes = [0; SPAN_BYTES];
        let range = first.min(self.len)..(first + SPAN_BYTES).min(self.len);
        let part = call.transaction.string_range(&self.entry, range).await?;
        bytes[..part.len()].copy_from_slice(&part);
        for (at, byte) in self.changed.range(first..first + SPAN_BYTES) {
            bytes[at - first] = *byte;
        }
        Ok(bytes)
    }

    /// Writes what has changed, side by side together.
    async fn write(mut self, call: &mut Call<'_>) -> Result<()> {
        while let Some((start, byte)) = self.changed.pop_first() {
            let mut run = vec![byte];
            while let Some(byte) = self.changed.remove(&(start + run.len())) {
                run.push(byte);
            }
            call.transaction.write_string(&self.entry, start, &run).await?;
            self.entry = call.entry(1).await?;
        }
        Ok(())
    }
}
