//! Many keys at once, for tests that need some.

use std::ops::Range;

use crate::execute::call::{Call, Origin};
use crate::execute::single::LockNames;
use crate::failure::{Failure, Result};
use crate::transaction::{Key, Transaction};

/// Keys that are written together, and about how many bytes; others have their turn between.
const KEYS_AT_ONCE: u64 = 128;
const BYTES_AT_ONCE: u64 = 1 << 20;

/// `DEBUG POPULATE count [prefix] [size]`: strings `value:N` at those keys `prefix:N` where nothing
/// stands. They are cut or filled up with zeros to `size` bytes (0 = as they are). Some keys at a
/// time appear together, not all of them, and a client that goes away gets no more of them.
pub(super) async fn populate(call: &mut Call<'_>) -> Result<()> {
    if call.origin != Origin::Client {
        // It takes locks of its own, for which a holder of locks must not wait.
        return Err(Failure::new("ERR DEBUG POPULATE cannot be part of a transaction"));
    }
    let number = |call: &Call<'_>, index: usize| {
        let number = firn_protocol::number::parse_integer(call.argument(index));
        number.and_then(|number| u64::try_from(number).ok()).ok_or(Failure::NOT_POSITIVE)
    };
    let count = number(call, 2)?;
    let prefix = if call.arguments.len() > 3 { call.argument(3) } else { b"key" };
    let size = if call.arguments.len() > 4 { number(call, 4)? } else { 0 };
    let size = usize::try_from(size).unwrap_or(usize::MAX);
    if size > call.thread.shared.parameters.argument_bytes_max() {
        return Err(Failure::TOO_LONG_STRING);
    }
    let step = (BYTES_AT_ONCE / size.max(1) as u64).clamp(1, KEYS_AT_ONCE);
    let mut first = 0;
    while first < count && !call.thread.is_gone(call.client) {
        let end = first.saturating_add(step).min(count);
        add(call, prefix, first..end, size).await?;
        first = end;
        call.thread.breathe().await;
    }
    Ok(())
}

/// Adds the keys of these numbers in a transaction of their own.
async fn add(call: &Call<'_>, prefix: &[u8], numbers: Range<u64>, size: usize) -> Result<()> {
    let (thread, index) = (call.thread, call.client.database.get());
    let users: Vec<Vec<u8>> =
        numbers.clone().map(|number| [prefix, format!(":{number}").as_bytes()].concat()).collect();
    let mut locks = LockNames::new(thread);
    let database = locks.databases().get(index).id;
    for user in &users {
        locks.add_key(thread.shared.store.keyspaces.keys, Key::new(database, user)?.bytes());
    }
    let _locks = locks.lock(thread).await?;
    // Only now is it sure which database the index means.
    let database = locks.databases().get(index).id;
    let mut transaction = Transaction::locked(thread, locks.databases());
    let keys: Result<Vec<Key>> = users.iter().map(|user| Key::new(database, user)).collect();
    for (entry, number) in transaction.entries(keys?).await?.iter().zip(numbers) {
        if !entry.exists() {
            let mut value = format!("value:{number}").into_bytes();
            if size > 0 {
                value.resize(size, 0);
            }
            transaction.set_string(entry, &value, 0).await?;
        }
    }
    transaction.commit().await
}
