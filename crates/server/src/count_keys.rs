//! Counts the keys of the databases, for nothing else knows how many there are.
//!
//! Keys are written without being read, so that no counter could be kept (decision 0023). Up to
//! [`COUNTED_AT_ONCE_MAX`] keys, the command that asks counts them. Beyond that, or where many lie
//! between that have expired or are deleted, a task of the first server thread counts them all
//! between requests, once a client has asked. What it found last is the answer, with its age.

use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use firn_engine::{HashCursor, ScanRange};
use firn_format::datatype::{self, DatabaseId, UserKey};

use crate::failure::Result;
use crate::key_counts::KeyCount;
use crate::server_thread::ServerThread;
use crate::store::DATABASE_COUNT;
use crate::transaction::{Transaction, decode_value};

/// Keys of all databases that are counted while the client waits, those that have expired and are
/// still there included: a fraction of a millisecond.
pub(crate) const COUNTED_AT_ONCE_MAX: u64 = 1000;

/// Batches that are read for that. Those keys need six, and each database one. In a batch the
/// engine passes a bounded number of records that are dead.
const BATCHES_AT_ONCE_MAX: usize = 32;

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
    let (mut counts, mut left, mut age) = (Vec::new(), Left::AT_ONCE, Age::New);
    let mut by_hash = match thread.engine.is_ordered() {
        true => None,
        false => Some(count_by_hash(thread, &mut transaction, &mut left).await?),
    };
    for index in 0..DATABASE_COUNT {
        let id = databases.get(index).id;
        let (counted, is_all) = match &mut by_hash {
            Some((counts, is_all)) => (counts.remove(&id).unwrap_or_default(), *is_all),
            None => count(thread, &mut transaction, id, &mut left).await?,
        };
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

/// What a count may still look at.
#[derive(Debug)]
struct Left {
    records: u64,
    batches: usize,
}

impl Left {
    const AT_ONCE: Self = Self { records: COUNTED_AT_ONCE_MAX, batches: BATCHES_AT_ONCE_MAX };
    const ALL: Self = Self { records: u64::MAX, batches: usize::MAX };
}

/// Counts the keys of a database as far as `left` allows, and takes from it; whether that is all.
/// Damaged records are passed over: what else there is is told all the same.
async fn count(
    thread: &ServerThread,
    transaction: &mut Transaction,
    id: DatabaseId,
    left: &mut Left,
) -> Result<(KeyCount, bool)> {
    let now_ms = transaction.now_ms();
    let mut cursor = transaction.keys_of(id)?.in_short_turns().within(left.batches);
    let mut counted = KeyCount::default();
    while let Some((key, record)) = cursor.next().await? {
        if left.records == 0 {
            left.batches = cursor.batches_left();
            return Ok((counted, false));
        }
        left.records -= 1;
        add(thread, &mut counted, key, record, now_ms);
    }
    left.batches = cursor.batches_left();
    Ok((counted, !cursor.is_cut_short()))
}

/// Counts the keys of all databases in one walk, as far as `left` allows; whether that is all.
/// Where keys have no order, those of all databases lie among each other.
async fn count_by_hash(
    thread: &ServerThread,
    transaction: &mut Transaction,
    left: &mut Left,
) -> Result<(HashMap<DatabaseId, KeyCount>, bool)> {
    let (now_ms, keyspace) = (transaction.now_ms(), transaction.keyspaces().keys);
    let cursor = transaction.range_by_hash(keyspace, ScanRange::all(), HashCursor::START);
    let mut cursor = cursor.in_short_turns().within(left.batches);
    let mut counts: HashMap<DatabaseId, KeyCount> = HashMap::new();
    while let Some((key, record)) = cursor.next().await? {
        if left.records == 0 {
            return Ok((counts, false));
        }
        left.records -= 1;
        match UserKey::decode(key) {
            Ok(user) => add(thread, counts.entry(user.database()).or_default(), key, record, now_ms),
            Err(error) => thread.note_damaged(datatype::KEYS, key, &error),
        }
    }
    Ok((counts, !cursor.is_cut_short()))
}

/// Counts a record, unless it is damaged.
fn add(thread: &ServerThread, counted: &mut KeyCount, key: &[u8], record: &[u8], now_ms: u64) {
    let value = match decode_value(record) {
        Ok(value) => value,
        Err(failure) => return thread.note_damaged(datatype::KEYS, key, &failure.line()),
    };
    if value.is_live(now_ms) {
        counted.keys += 1;
        let expires_at_ms = value.expires_at_ms();
        counted.expiring += u64::from(expires_at_ms != 0);
        counted.left_ms = counted.left_ms.saturating_add(expires_at_ms.saturating_sub(now_ms));
    }
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
    if !thread.engine.is_ordered() {
        let (mut transaction, mut all) = (Transaction::reading(thread), Left::ALL);
        let (mut counted, _) = count_by_hash(thread, &mut transaction, &mut all).await?;
        let ids = (0..DATABASE_COUNT).map(|index| databases.get(index).id);
        return Ok(ids.map(|id| (id, counted.remove(&id).unwrap_or_default())).collect());
    }
    let mut counts = Vec::new();
    for index in 0..DATABASE_COUNT {
        let id = databases.get(index).id;
        // A moment of its own for each: one over all would keep what is deleted meanwhile.
        let (mut transaction, mut all) = (Transaction::reading(thread), Left::ALL);
        counts.push((id, count(thread, &mut transaction, id, &mut all).await?.0));
    }
    Ok(counts)
}
