//! Scripts: what is done to a database, as data.
//!
//! A script is a list of [`Op`]s. Keys, values and keyspaces are small numbers that stand for
//! bytes, so that a script is short to read and its parts collide often. Everything a script does
//! follows from its text (see [`crate::text`]) and the settings it runs under.

use firn_engine::conformance::{ADD, APPEND, FILTER_DROP, PREFIX_4};
use firn_engine::{Compression, KeyspaceSettings, OrderedOpKind};

/// How many different keys scripts use.
pub const KEY_COUNT: u16 = 60;
/// How many keyspaces scripts use; 0 is the default one, the last comes and goes.
pub const SPACE_COUNT: u8 = 5;
/// How many snapshots, scans, transactions and ingestions are open at most.
pub const SLOT_COUNT: u8 = 3;

/// One operation of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// What it does.
    pub kind: OrderedOpKind,
    /// The keyspace, by number.
    pub space: u8,
    /// The key, by number.
    pub key: u16,
    /// The key before which a deleted range ends, by number.
    pub end: u16,
    /// Length of the value or operand.
    pub bytes: u32,
    /// Content of the value or operand.
    pub seed: u64,
    /// Milliseconds it lives; 0 = for ever.
    pub ttl_ms: u32,
}

/// One record of an ingestion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The key, by number.
    pub key: u16,
    /// Length of the value.
    pub bytes: u32,
    /// Content of the value.
    pub seed: u64,
    /// Milliseconds it lives; 0 = for ever.
    pub ttl_ms: u32,
}

/// What an update does with the value it finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateKind {
    /// Appends (or adds, where values are sums).
    Grow,
    /// Removes the key.
    Delete,
    /// Leaves it.
    Keep,
}

/// Which records a scan visits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Visit {
    /// The keyspace, by number.
    pub space: u8,
    /// The first key, by number.
    pub start: Option<u16>,
    /// The key before which it ends, by number.
    pub end: Option<u16>,
    /// Only keys that share this key's first bytes: (key, how many bytes).
    pub prefix: Option<(u16, u8)>,
    /// Downwards.
    pub backward: bool,
    /// Most records of a batch.
    pub records: u16,
}

/// One step of a script. `at` names the snapshot slot a read looks at; reads of an empty slot see
/// the present.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Creates a keyspace (or finds it).
    Create(u8),
    /// Drops a keyspace.
    Drop(u8),
    /// Writes; `single` by the call for one operation, else as a batch.
    Write {
        /// The operations.
        parts: Vec<Part>,
        /// By the call for one operation.
        single: bool,
        /// With durability `Disk`, whatever the default.
        disk: bool,
    },
    /// Reads and writes one key atomically.
    Update {
        /// The keyspace, by number.
        space: u8,
        /// The key, by number.
        key: u16,
        /// What it does.
        kind: UpdateKind,
        /// What it grows by.
        seed: u64,
    },
    /// Reads one key.
    Get {
        /// The snapshot slot.
        at: Option<u8>,
        /// The keyspace, by number.
        space: u8,
        /// The key, by number.
        key: u16,
    },
    /// Reads many keys as of one point.
    MultiGet {
        /// The snapshot slot.
        at: Option<u8>,
        /// The keyspace, by number.
        space: u8,
        /// The keys, by number.
        keys: Vec<u16>,
    },
    /// Scans from one end to the other.
    Scan {
        /// The snapshot slot.
        at: Option<u8>,
        /// Which records.
        visit: Visit,
    },
    /// Opens a scan that stays open, in a slot.
    IterOpen {
        /// The scan slot.
        slot: u8,
        /// The snapshot slot.
        at: Option<u8>,
        /// Which records.
        visit: Visit,
    },
    /// Takes a batch from an open scan.
    IterNext(u8),
    /// Opens another scan from an open one, of the same keys in the other order, and walks it.
    IterTurn(u8),
    /// Closes it.
    IterClose(u8),
    /// Takes a snapshot into a slot.
    SnapshotOpen(u8),
    /// Lets go of it.
    SnapshotClose(u8),
    /// Begins a transaction, in a slot.
    TransactionBegin(u8),
    /// Reads one key in a transaction.
    TransactionGet {
        /// The transaction slot.
        slot: u8,
        /// The keyspace, by number.
        space: u8,
        /// The key, by number.
        key: u16,
    },
    /// Scans in a transaction.
    TransactionScan {
        /// The transaction slot.
        slot: u8,
        /// Which records.
        visit: Visit,
    },
    /// Writes if nothing was written to what the transaction has read, and ends it.
    TransactionCommit {
        /// The transaction slot.
        slot: u8,
        /// The operations.
        parts: Vec<Part>,
        /// With durability `Disk`, whatever the default.
        disk: bool,
    },
    /// Begins an ingestion in a slot, instead of the one there, and gives it records. Those whose
    /// keys do not rise are refused.
    IngestBegin {
        /// The ingestion slot.
        slot: u8,
        /// The keyspace, by number.
        space: u8,
        /// The records, in the order they are given.
        records: Vec<Record>,
    },
    /// Finishes an ingestion: its records are there.
    IngestFinish(u8),
    /// Drops an ingestion: it leaves nothing.
    IngestDrop(u8),
    /// Reads everything, now and at every open snapshot.
    Verify,
    /// Takes a copy, opens it, reads everything, writes to it.
    CopyDatabase,
    /// Flushes.
    Flush,
    /// Syncs.
    Sync,
    /// Waits until no work is left.
    Idle,
    /// Compacts a range of one keyspace.
    Compact {
        /// The keyspace, by number.
        space: u8,
        /// The first key, by number; `None` = from the first.
        start: Option<u16>,
        /// The key before which it ends, by number; `None` = to the last.
        end: Option<u16>,
    },
    /// Changes from which length on values of one keyspace are separated.
    Separate {
        /// The keyspace, by number.
        space: u8,
        /// The length; 0 = as the knobs say.
        bytes: u32,
    },
    /// Closes and opens with the settings of this seed.
    Reopen(u64),
    /// The process dies.
    Kill,
    /// Power is lost.
    PowerLoss(u64),
    /// Runs units of background work.
    Step(u32),
    /// Time passes.
    Advance(u32),
}

impl Op {
    /// Whether only an engine that keeps keys in order can do it.
    pub fn needs_order(&self) -> bool {
        matches!(
            self,
            Self::Scan { .. }
                | Self::IterOpen { .. }
                | Self::TransactionScan { .. }
                | Self::IngestBegin { .. }
                | Self::Compact { .. }
        )
    }
}

/// A script: its steps, and the seed they were drawn from (for people; a shrunk script keeps it).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    /// Where it came from.
    pub seed: u64,
    /// What is done.
    pub ops: Vec<Op>,
}

impl Script {
    /// The same without the steps whose first word is in `words`, to look past what is known to be
    /// broken.
    #[must_use]
    pub fn without(mut self, words: &[String]) -> Self {
        self.ops.retain(|op| {
            let text = op.to_string();
            let word = text.split_whitespace().next();
            !words.iter().any(|skipped| Some(skipped.as_str()) == word)
        });
        self
    }
}

/// The bytes key number `number` stands for: short and long, neighbours and strangers, with shared
/// prefixes.
pub fn key(number: u16) -> Vec<u8> {
    match number {
        0 => Vec::new(),
        1 => vec![0],
        2 => vec![0, 0],
        3 => vec![0xff],
        4 => vec![0xff; 9],
        5 => b"key".to_vec(),
        6 => b"key-".to_vec(),
        7 => vec![b'L'; 300],
        8..=15 => [&[b'L'; 300][..], &[number as u8]].concat(),
        16..=23 => vec![b's'; usize::from(number - 15)],
        24..=31 => [&b"key-\0"[..], &[number as u8 * 8]].concat(),
        _ => format!("key-{:04}", u32::from(number) * 37 % 1000).into_bytes(),
    }
}

/// The name of keyspace `space`.
pub fn space_name(space: u8) -> &'static str {
    ["default", "appending", "adding", "prefixed", "passing"][usize::from(space % SPACE_COUNT)]
}

/// What keyspace `space` is created with.
pub fn space_settings(space: u8) -> KeyspaceSettings {
    let plain = KeyspaceSettings::default();
    match space % SPACE_COUNT {
        1 => KeyspaceSettings { merge_operator: Some(APPEND.to_owned()), ..plain },
        2 => KeyspaceSettings {
            merge_operator: Some(ADD.to_owned()),
            compression: Some(Compression::Lz4),
            ..plain
        },
        3 => KeyspaceSettings {
            merge_operator: Some(APPEND.to_owned()),
            prefix_extractor: Some(PREFIX_4.to_owned()),
            compression: Some(Compression::Zstd),
            ..plain
        },
        4 => KeyspaceSettings { compaction_filter: Some(FILTER_DROP.to_owned()), ..plain },
        _ => plain,
    }
}

/// Whether values of keyspace `space` are sums of eight bytes.
pub fn has_sums(space: u8) -> bool {
    space % SPACE_COUNT == 2
}

/// The value of `bytes` bytes with content `seed` for keyspace `space`.
///
/// Half of them compress well. A value of 8 bytes or more is unlike any of another seed.
pub fn value(space: u8, bytes: u32, seed: u64) -> Vec<u8> {
    if has_sums(space) {
        return (seed & 0xffff).to_le_bytes().to_vec();
    }
    let bytes = bytes as usize;
    let mut out = seed.to_le_bytes().to_vec();
    if seed.is_multiple_of(2) {
        out.resize(bytes.max(8), seed as u8);
    } else {
        let mut rng = fastrand::Rng::with_seed(seed);
        out.resize(bytes.max(8), 0);
        rng.fill(&mut out[8..]);
    }
    if has_filter(space) && seed.is_multiple_of(3) {
        out.splice(..0, *b"drop");
    }
    out.truncate(bytes);
    out
}

/// Whether compactions of keyspace `space` drop values; it has no merge operator, so that what is
/// dropped is what a batch wrote.
fn has_filter(space: u8) -> bool {
    space % SPACE_COUNT == 4
}

/// Whether a record of keyspace `space` with this value may be gone although no batch deleted it:
/// from a compaction on, or never.
pub fn may_be_gone(space: u8, value: &[u8]) -> bool {
    has_filter(space) && value.starts_with(b"drop")
}

impl Part {
    /// A range delete's, delete's, put's or merge's key as bytes.
    pub fn key_bytes(&self) -> Vec<u8> {
        key(self.key)
    }

    /// The value, operand or excluded end as bytes.
    pub fn value_bytes(&self) -> Vec<u8> {
        match self.kind {
            OrderedOpKind::Delete => Vec::new(),
            OrderedOpKind::DeleteRange => key(self.end),
            OrderedOpKind::Put | OrderedOpKind::Merge => value(self.space, self.bytes, self.seed),
        }
    }
}
