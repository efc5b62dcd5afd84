//! Walking over the keys of a database.
//!
//! Keys of a slot lie in the order of their hashes. So a cursor is a slot and a hash: `slot << 32 |
//! hash` where the engine keeps keys in order, which have both in front; else the number of the
//! engine's own cursor, which is a slot and a hash too. The server remembers nothing of a walk, and
//! keys that come or go meanwhile do not disturb it. A step never ends between keys of one hash.

use firn_engine::{HashCursor, ScanRange};
use firn_format::datatype::slot::SLOT_COUNT;
use firn_format::datatype::{DatabaseId, Slot, UserKey, range};
use firn_protocol::{glob, number};

use super::call::Call;
use crate::bounds::PATTERN_BYTES_MAX;
use crate::failure::{Failure, Result};
use crate::server_thread::Turns;
use crate::transaction::{Cursor, decode_value, type_name};

/// Elements that a step looks at unless COUNT says otherwise.
const COUNT: u64 = 10;

/// Expired keys that are looked at for one that is not.
const EXPIRED_MAX: usize = 1024;

/// Records of one batch of a step, of an engine without order.
const STEP_RECORDS_MAX: usize = 1024;

/// The options that all commands of the family have.
#[derive(Debug)]
pub(super) struct ScanOptions {
    pub(super) pattern: Option<Vec<u8>>,
    /// How many elements a step looks at.
    pub(super) count: u64,
    pub(super) type_name: Option<Vec<u8>>,
}

impl Default for ScanOptions {
    fn default() -> Self {
        Self { pattern: None, count: COUNT, type_name: None }
    }
}

impl ScanOptions {
    /// The options in the arguments from `index` on; TYPE only if `has_type`.
    pub(super) fn of(call: &Call<'_>, mut index: usize, has_type: bool) -> Result<Self> {
        let mut options = Self::default();
        while index < call.arguments.len() {
            if index + 1 == call.arguments.len() {
                return Err(Failure::SYNTAX);
            }
            if call.is_word(index, "count") {
                options.count = u64::try_from(call.integer(index + 1)?).unwrap_or(0);
                if options.count == 0 {
                    return Err(Failure::SYNTAX);
                }
            } else if call.is_word(index, "match") {
                check_pattern(call.argument(index + 1))?;
                options.pattern = Some(call.argument(index + 1).to_vec()).filter(|pattern| pattern != b"*");
            } else if has_type && call.is_word(index, "type") {
                options.type_name = Some(call.argument(index + 1).to_ascii_lowercase());
            } else {
                return Err(Failure::SYNTAX);
            }
            index += 2;
        }
        Ok(options)
    }

    /// What it costs to compare a name, in bytes.
    pub(super) fn compared_bytes(&self, name: &[u8]) -> usize {
        self.pattern.as_ref().map_or(0, |pattern| compared_bytes(pattern, name))
    }

    /// Whether an element called `name` is wanted.
    pub(super) fn is_wanted(&self, name: &[u8]) -> bool {
        self.pattern.as_ref().is_none_or(|pattern| glob::matches(pattern, name))
    }
}

/// Refuses a pattern that is longer than one command compares.
pub(super) fn check_pattern(pattern: &[u8]) -> Result<()> {
    match pattern.len() > PATTERN_BYTES_MAX {
        true => Err(Failure::of(format!(
            "ERR a pattern of {} bytes is longer than the longest, {PATTERN_BYTES_MAX} bytes",
            pattern.len()
        ))),
        false => Ok(()),
    }
}

/// What comparing costs, in bytes copied: more than as many as there are.
fn compared_bytes(pattern: &[u8], name: &[u8]) -> usize {
    8 * (pattern.len() + name.len())
}

/// A cursor as clients send it: digits, perhaps with a sign; less than 0 counts down from 2^64,
/// where no walk goes on. Nothing at all is 0.
pub(super) fn cursor(text: &[u8]) -> Result<u64> {
    let (is_negative, digits) = match text {
        b"" => return Ok(0),
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    let is_number = digits.iter().all(u8::is_ascii_digit);
    let number =
        std::str::from_utf8(digits).ok().filter(|_| is_number).and_then(|digits| digits.parse().ok());
    let number: u64 = number.ok_or(Failure::CURSOR)?;
    Ok(if is_negative { number.wrapping_neg() } else { number })
}

fn position(key: &UserKey<'_>) -> u64 {
    u64::from(key.slot().number()) << 32 | u64::from(key.hash())
}

/// Keys of `database` from the position `from` on.
fn keys_from(database: DatabaseId, from: u64) -> Option<ScanRange> {
    let slot = Slot::new(u16::try_from(from >> 32).ok()?)?;
    let (mut start, mut end) = (Vec::new(), Vec::new());
    range::keys_from(database, slot, from as u32, &mut start, &mut end);
    Some(ScanRange::between(&start, &end))
}

fn decode_key(key: &[u8]) -> Result<UserKey<'_>> {
    UserKey::decode(key).map_err(|error| Failure::of(format!("ERR a key is damaged: {error}")))
}

/// The walk of a step from the cursor `from` on; `None` where no walk goes on. One by hash ends
/// with the step: it looks at about `count` keys, those of other databases among them.
fn step_from(call: &mut Call<'_>, from: u64, count: u64) -> Result<Option<Cursor>> {
    let database = call.database().id;
    if call.thread.engine.is_ordered() {
        let keyspace = call.transaction.keyspaces().keys;
        let range = keys_from(database, from);
        return range.map(|range| call.transaction.scan(keyspace, range)).transpose();
    }
    let Some(place) = HashCursor::from_u64(from) else { return Ok(None) };
    let count = usize::try_from(count).unwrap_or(usize::MAX).max(1);
    let records = count.min(STEP_RECORDS_MAX);
    let walk = call.transaction.keys_by_hash(database, place);
    Ok(Some(walk.in_batches(records, count.div_ceil(records))))
}

/// `SCAN cursor [MATCH pattern] [COUNT count] [TYPE type]`
pub(super) async fn scan(call: &mut Call<'_>) -> Result<()> {
    let from = cursor(call.argument(1))?;
    let options = ScanOptions::of(call, 2, true)?;
    let now_ms = call.transaction.now_ms();
    let is_ordered = call.thread.engine.is_ordered();
    let (mut found, mut next) = (Vec::new(), 0);
    if let Some(mut walk) = step_from(call, from, options.count)? {
        let (mut seen, mut last) = (0, None);
        let (mut turns, mut found_bytes) = (Turns::new(call.thread), 0);
        while let Some((key, record)) = walk.next().await? {
            let (engine_key, key) = (key, decode_key(key)?);
            if is_ordered && seen >= options.count && last != Some(position(&key)) {
                next = position(&key);
                break;
            }
            seen += 1;
            last = Some(position(&key));
            let value = decode_value(record)?;
            if !value.is_live(now_ms) {
                call.thread.note_expired(engine_key, value.expires_at_ms());
                continue;
            }
            let is_of_type =
                options.type_name.as_ref().is_none_or(|name| name == type_name(value.tag()).as_bytes());
            if is_of_type && options.is_wanted(key.bytes()) {
                found.push(key.bytes().to_vec());
                found_bytes += key.bytes().len();
                call.check_reply_with(found_bytes)?;
            }
            turns.step(options.compared_bytes(key.bytes())).await;
        }
        if !is_ordered {
            next = walk.place().map_or(0, HashCursor::as_u64);
        }
    }
    reply_step(call, next, &found);
    Ok(())
}

/// Answers a step: where the next one begins, and what this one found.
pub(super) fn reply_step(call: &mut Call<'_>, next: u64, found: &[Vec<u8>]) {
    let mut digits = Vec::new();
    number::append_integer(&mut digits, next as i64);
    call.reply(|reply| {
        reply.array(2);
        reply.bulk(&digits);
        reply.array(found.len());
        found.iter().for_each(|element| reply.bulk(element));
    });
}

/// `KEYS pattern`: all of them in one reply, as of one moment. Others have their turns meanwhile.
pub(super) async fn keys(call: &mut Call<'_>) -> Result<()> {
    let pattern = call.argument(1);
    check_pattern(pattern)?;
    let (mut turns, mut found_bytes) = (Turns::new(call.thread), 0);
    let database = call.database().id;
    let now_ms = call.transaction.now_ms();
    let mut found = Vec::new();
    call.transaction.fix_moment()?;
    let mut walk = call.transaction.keys_of(database)?;
    while let Some((key, record)) = walk.next().await? {
        let user = decode_key(key)?;
        turns.step(compared_bytes(pattern, user.bytes())).await;
        if !glob::matches(pattern, user.bytes()) {
            continue;
        }
        let value = decode_value(record)?;
        if !value.is_live(now_ms) {
            call.thread.note_expired(key, value.expires_at_ms());
            continue;
        }
        found.push(user.bytes().to_vec());
        found_bytes += user.bytes().len();
        call.check_reply_with(found_bytes)?;
    }
    call.reply(|reply| {
        reply.array(found.len());
        found.iter().for_each(|key| reply.bulk(key));
    });
    Ok(())
}

/// `RANDOMKEY`: the first key from a random place on. Behind [`EXPIRED_MAX`] that have expired and
/// are not removed yet, it is one of those.
pub(super) async fn random_key(call: &mut Call<'_>) -> Result<()> {
    let hash_bits = if call.thread.engine.is_ordered() { 32 } else { 16 };
    let (slot, hash) = (call.thread.random(u64::from(SLOT_COUNT)), call.thread.random(1 << hash_bits));
    let mut expired_left = EXPIRED_MAX;
    let mut found = first_key(call, slot << hash_bits | hash, &mut expired_left).await?;
    if found.is_none() {
        found = first_key(call, 0, &mut expired_left).await?;
    }
    call.reply(|reply| reply.bulk_or_null(found.as_deref()));
    Ok(())
}

/// The first live key from a place on, or the expired one that leaves none of `expired_left`.
async fn first_key(call: &mut Call<'_>, from: u64, expired_left: &mut usize) -> Result<Option<Vec<u8>>> {
    let (thread, now_ms) = (call.thread, call.transaction.now_ms());
    let Some(mut walk) = step_from(call, from, u64::MAX)? else { return Ok(None) };
    walk.expect(1);
    while let Some((key, record)) = walk.next().await? {
        let value = decode_value(record)?;
        let is_live = value.is_live(now_ms);
        if !is_live {
            thread.note_expired(key, value.expires_at_ms());
            *expired_left -= 1;
        }
        if is_live || *expired_left == 0 {
            return Ok(Some(decode_key(key)?.bytes().to_vec()));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_are_numbers() {
        assert_eq!(cursor(b"0"), Ok(0));
        assert_eq!(cursor(b"70364449210368"), Ok(16383 << 32));
        assert_eq!(cursor(b""), Ok(0));
        assert_eq!(cursor(b"+01"), Ok(1));
        assert_eq!(cursor(b"-1"), Ok(u64::MAX));
        for text in [&b"a"[..], b"-", b"+", b"+-1", b"--1", b" 1", b"1 ", b"18446744073709551616"] {
            assert_eq!(cursor(text), Err(Failure::CURSOR));
        }
        let id = DatabaseId::FIRST;
        assert!(keys_from(id, 16383 << 32 | 0xFFFF_FFFF).is_some());
        assert!(keys_from(id, 16384 << 32).is_none(), "no such slot: the walk is over");
        assert!(keys_from(id, u64::MAX).is_none());
    }
}
