//! What is read of all keys of an engine that has no order, a batch at a time.

use crate::{BatchLimit, KeyspaceId, ScanBatch};

/// Slots of a hashed engine.
pub const HASHED_SLOTS: u16 = 1 << 14;

/// Where a scan of a hashed engine stands: before all keys of a slot whose hashes have these 16
/// bits, or more.
///
/// Keys come by slot, and in a slot by 16 bits of their hash, however large the slot is. All keys
/// that share both come together: a cursor never stands between two of them.
///
/// ```
/// use firn_engine::HashCursor;
///
/// let cursor = HashCursor::from_u64(7 << 16 | 500).expect("slot 7");
/// assert_eq!((cursor.slot(), cursor.hash(), cursor.as_u64()), (7, 500, 7 << 16 | 500));
/// assert_eq!(HashCursor::from_u64(1 << 30), None, "there are 16384 slots");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HashCursor(u32);

impl HashCursor {
    /// Before every key.
    pub const START: Self = Self(0);

    /// Before the keys of `slot` whose hashes have `hash` or more; `None` from [`HASHED_SLOTS`] on.
    pub fn new(slot: u16, hash: u16) -> Option<Self> {
        (slot < HASHED_SLOTS).then_some(Self(u32::from(slot) << 16 | u32::from(hash)))
    }

    /// The cursor that [`as_u64`](Self::as_u64) made a number of; `None` of any other number.
    pub fn from_u64(number: u64) -> Option<Self> {
        Self::new(u16::try_from(number >> 16).ok()?, number as u16)
    }

    /// As a number, which is greater the later the cursor is.
    pub fn as_u64(self) -> u64 {
        u64::from(self.0)
    }

    /// Its slot.
    pub fn slot(self) -> u16 {
        (self.0 >> 16) as u16
    }

    /// The 16 bits of the hash.
    pub fn hash(self) -> u16 {
        self.0 as u16
    }
}

/// What one batch of a scan of a hashed engine reads.
#[derive(Clone, Copy, Debug)]
pub struct HashScan {
    /// Whose keys.
    pub keyspace: KeyspaceId,
    /// From where on.
    pub from: HashCursor,
    /// How much: whichever limit is met first ends the batch, behind all keys that share a slot and
    /// a hash.
    pub limit: BatchLimit,
    /// Whether values are read; otherwise each is empty.
    pub has_values: bool,
}

/// Records of a batch, when each expires, and where the next batch begins.
#[derive(Clone, Debug, Default)]
pub struct HashBatch {
    records: ScanBatch,
    next: Option<HashCursor>,
}

impl HashBatch {
    /// An empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Keys and values.
    pub fn records(&self) -> &ScanBatch {
        &self.records
    }

    /// The keys and values by themselves.
    pub fn into_records(self) -> ScanBatch {
        self.records
    }

    /// When the record at `index` expires, in milliseconds since the Unix epoch; 0 = never, or past
    /// the last. A value that operands were merged into says 0.
    pub fn expires_at_ms(&self, index: usize) -> u64 {
        self.records.expires_at_ms(index)
    }

    /// Where the next batch begins; `None` if there is nothing behind this one.
    pub fn next(&self) -> Option<HashCursor> {
        self.next
    }

    /// Forgets the records and keeps the memory. For engines.
    pub fn clear(&mut self) {
        self.records.clear();
        self.next = None;
    }

    /// Adds a record. For engines.
    pub fn push(&mut self, key: &[u8], value: &[u8], expires_at_ms: u64) {
        self.records.push_until(key, value, expires_at_ms);
    }

    /// Forgets all records but the first `count`. For engines.
    pub fn truncate(&mut self, count: usize) {
        self.records.truncate(count);
    }

    /// Says where the next batch begins; `None` = there is none. For engines.
    pub fn end(&mut self, next: Option<HashCursor>) {
        self.next = next;
        if next.is_none() {
            self.records.finish();
        }
    }
}
