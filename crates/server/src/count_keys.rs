//! Counts the keys of the databases, for nothing else knows how many there are.
//!
//! Keys are written without being read, so that no counter could be kept (decision 0023). Up to
//! [`COUNTED_AT_ONCE_MAX`] keys, the command that asks counts them. Beyond that, a task of the
//! first server thread counts them all between requests, once a client has asked. What it found
//! last is the answer, with its age.

use std::rc::Rc;
use std::time::Duration;

use firn_engine::ScanRange;
use firn_format::datatype::{self, DatabaseId, range};

use crate::failure::Result;
use crate::key_counts::KeyCount;
use crate::server_thread::ServerThread;
use crate::store::DATABASE_COUNT;
use crate::transaction::{Transaction, decode_value};

/// Keys of all databases that are counted while the client waits: a fraction of a millisecond.
pub(crate) const COUNTED_AT_ONCE_MAX: u64 = 1000;

/// Milliseconds between looks whether a client has asked, and at least between two counts.
const LOOK_MS: u64 = 200;
const PAUSE_MS: u64 = 5_000;

/// A count may take this part of the time.
const SHARE: u64 = 10;

/// What is told of the keys of all databases.
#[derive(Debug)]
pub(crate) struct Counted {
    /// By index.
    pub(crate) counts: Vec<KeyCount>,
    /// How old the count is.
    pub(crate) age: Age,
}

/// How old a count is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Age {
    /// It was made just now.
    New,
    /// It was made so long ago.
    Old(Duration),
    /// It is not finished: there are more.
    Unknown,
}

/// Keys of each database: exact if there are few, else as of the last count.
pub(crate) async fn of_all(thread: &Rc<ServerThread>) -> Result<Counted> {
    let key_counts = &thread.shared.diagnostics.key_counts;
    let databases = thread.shared.store.databases.load_full();
    let mut transaction = Transaction::reading(thread);
    let (mut counts, mut left, mut age) = (Vec::new(), COUNTED_AT_ONCE_MAX, Age::New);
    for index in 0..DATABASE_COUNT {
        let id = databases.get(index).id;
        let (counted, is_all) = count(thread, &mut transaction, id, left).await?;
        left -= counted.keys.min(left);
        if is_all {
            counts.push(counted);
            continue;
        }
        key_counts.wish();
        let last = key_counts.of(id);
        let last_age = key_counts.age(thread.shared.store.clock.now()).filter(|_| last.is_some());
        age = match (age, last_age) {
            (Age::Unknown, _) | (_, None) => Age::Unknown,
            (_, Some(last_age)) => Age::Old(last_age),
        };
        counts.push(last.unwrap_or(counted));
    }
    Ok(Counted { counts, age })
}

/// Counts up to `keys_max` keys of a database; whether that is all. Damaged records are passed
/// over: what else there is is told all the same.
async fn count(
    thread: &ServerThread,
    transaction: &mut Transaction,
    id: DatabaseId,
    keys_max: u64,
) -> Result<(KeyCount, bool)> {
    let (mut start, mut end) = (Vec::new(), Vec::new());
    range::database(id, &mut start, &mut end);
    let now_ms = transaction.now_ms();
    let cursor = transaction.scan(transaction.keyspaces().keys, ScanRange::between(&start, &end))?;
    let mut cursor = cursor.in_short_turns();
    let mut counted = KeyCount::default();
    while let Some((key, record)) = cursor.next().await? {
        if counted.keys == keys_max {
            return Ok((counted, false));
        }
        let value = match decode_value(record) {
            Ok(value) => value,
            Err(failure) => {
                thread.note_damaged(datatype::KEYS, key, &failure.line());
                continue;
            }
        };
        if value.is_live(now_ms) {
            counted.keys += 1;
            let expires_at_ms = value.expires_at_ms();
            counted.expiring += u64::from(expires_at_ms != 0);
            counted.left_ms = counted.left_ms.saturating_add(expires_at_ms.saturating_sub(now_ms));
        }
    }
    Ok((counted, true))
}

/// Counts all keys whenever a client has asked. Runs until the server thread ends.
pub(crate) async fn run(thread: Rc<ServerThread>) {
    loop {
        thread.sleep_until(thread.monotonic_ms() + LOOK_MS).await;
        if !thread.shared.diagnostics.key_counts.take_wish() {
            continue;
        }
        let (began, began_ms) = (thread.shared.store.clock.now(), thread.monotonic_ms());
        // What fails is tried again at the next request.
        if let Ok(counted) = count_all(&thread).await {
            thread.shared.diagnostics.key_counts.note(counted, began);
        }
        let took_ms = thread.monotonic_ms() - began_ms;
        thread.sleep_until(thread.monotonic_ms() + PAUSE_MS.max(SHARE * took_ms)).await;
    }
}

async fn count_all(thread: &Rc<ServerThread>) -> Result<Vec<(DatabaseId, KeyCount)>> {
    let databases = thread.shared.store.databases.load_full();
    let mut counts = Vec::new();
    for index in 0..DATABASE_COUNT {
        let id = databases.get(index).id;
        // A moment of its own for each: one over all would keep what is deleted meanwhile.
        let mut transaction = Transaction::reading(thread);
        counts.push((id, count(thread, &mut transaction, id, u64::MAX).await?.0));
    }
    Ok(counts)
}
