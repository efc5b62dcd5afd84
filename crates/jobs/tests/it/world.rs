//! Random histories, laid out as tables, and a model that reads them version by version.

use std::sync::Arc;

use firn_engine::{CompactionFilter, FilterVerdict, MergeOperator, Semantics};
use firn_format::key::{Entry, Kind, Sequence};
use firn_format::manifest::TableMeta;
use firn_format::table::TableForm;
use firn_format::tombstone::{FragmentList, Span};
use firn_jobs::{CompactSpec, JobInput, JobSpec, KeyRange, OutputForm, Rules};
use firn_storage::Storage;
use firn_storage::backend::Memory;
use firn_storage::file::cache::BlockCache;
use firn_storage::file::table::{CursorOptions, ReaderOptions, TableBuilder, TableCursor, TableReader};

/// Deterministic numbers (SplitMix64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ word >> 31
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    pub(crate) fn key(&mut self) -> Vec<u8> {
        let bytes = 1 + self.below(3) as usize;
        (0..bytes).map(|_| b"abc"[self.below(3) as usize]).collect()
    }
}

pub(crate) fn all_keys() -> Vec<Vec<u8>> {
    let mut keys: Vec<Vec<u8>> = vec![Vec::new()];
    for from in [0, 1, 4] {
        for index in from..keys.len() {
            for byte in b"abc" {
                keys.push([&keys[index][..], &[*byte]].concat());
            }
        }
    }
    keys.sort();
    keys.dedup();
    keys
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owned {
    pub(crate) key: Vec<u8>,
    pub(crate) sequence: Sequence,
    pub(crate) kind: Kind,
    pub(crate) expires_at_ms: u64,
    pub(crate) value: Vec<u8>,
}

impl Owned {
    pub(crate) fn entry(&self) -> Entry<'_> {
        let Self { key, sequence, kind, expires_at_ms, value } = self;
        Entry { key, sequence: *sequence, kind: *kind, expires_at_ms: *expires_at_ms, value }
    }

    pub(crate) fn of(entry: &Entry<'_>) -> Self {
        let Entry { key, sequence, kind, expires_at_ms, value } = *entry;
        Self { key: key.to_vec(), sequence, kind, expires_at_ms, value: value.to_vec() }
    }
}

/// Appends operands; refuses operands that begin with '!'.
#[derive(Debug)]
pub(crate) struct Append;

impl MergeOperator for Append {
    fn name(&self) -> &str {
        "append.1"
    }

    fn merge(&self, _: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        let refused = operands.iter().any(|operand| operand.starts_with(b"!"));
        (!refused).then(|| [base.unwrap_or_default(), &operands.concat()].concat())
    }

    fn merge_partial(&self, _: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        let refused = operands.iter().any(|operand| operand.starts_with(b"!"));
        (!refused).then(|| operands.concat())
    }
}

/// Drops values that begin with 'd'.
#[derive(Debug)]
pub(crate) struct DropD;

impl CompactionFilter for DropD {
    fn name(&self) -> &str {
        "drop-d.1"
    }

    fn verdict(&self, _: &[u8], value: &[u8]) -> FilterVerdict {
        if value.starts_with(b"d") { FilterVerdict::Drop } else { FilterVerdict::Keep }
    }
}

pub(crate) fn semantics() -> Semantics {
    Semantics::new().with_merge_operator(Arc::new(Append)).with_compaction_filter(Arc::new(DropD))
}

/// What a set of places holds together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Held {
    /// By key, newest first.
    pub(crate) entries: Vec<Owned>,
    pub(crate) ranges: Vec<(Vec<u8>, Vec<u8>, Sequence)>,
}

/// What a reader gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Read {
    Value(Vec<u8>),
    Absent,
    Refused,
}

impl Held {
    pub(crate) fn list(&self) -> FragmentList {
        let span = |(start, end, sequence): &'_ (Vec<u8>, Vec<u8>, Sequence)| {
            (start.clone(), end.clone(), *sequence)
        };
        let spans: Vec<_> = self.ranges.iter().map(span).collect();
        FragmentList::from_spans(spans.iter().map(|(start, end, sequence)| Span {
            start,
            end,
            sequence: *sequence,
        }))
    }

    pub(crate) fn plus(&self, other: &Held) -> Held {
        let mut all = self.clone();
        all.entries.extend_from_slice(&other.entries);
        all.ranges.extend_from_slice(&other.ranges);
        all
    }

    /// The value of `key` for a reader of sequences below `before` at `now_ms`.
    pub(crate) fn read(&self, key: &[u8], before: Sequence, now_ms: u64) -> Read {
        let covers = |range: &&(Vec<u8>, Vec<u8>, Sequence)| range.0[..] <= *key && *key < range.1[..];
        let covered = self.ranges.iter().filter(covers).map(|range| range.2).filter(|s| *s < before).max();
        let mut versions: Vec<&Owned> =
            self.entries.iter().filter(|entry| entry.key == key && entry.sequence < before).collect();
        versions.sort_by_key(|entry| std::cmp::Reverse(entry.sequence));
        let mut operands: Vec<&[u8]> = Vec::new();
        let mut base = None;
        for version in versions {
            if covered > Some(version.sequence) {
                break;
            }
            let expired = version.expires_at_ms != 0 && version.expires_at_ms <= now_ms;
            match version.kind {
                Kind::Merge => operands.push(&version.value),
                Kind::Put if !expired => {
                    base = Some(&version.value[..]);
                    break;
                }
                _ => break,
            }
        }
        operands.reverse();
        match (base, operands.is_empty()) {
            (None, true) => Read::Absent,
            (Some(value), true) => Read::Value(value.to_vec()),
            (base, false) => Append.merge(key, base, &operands).map_or(Read::Refused, Read::Value),
        }
    }
}

/// How a history is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mix {
    pub(crate) operations: u64,
    pub(crate) merges: bool,
    pub(crate) filter: bool,
    pub(crate) older: bool,
}

/// Tables, the spec of a job over the newer ones, and what the model knows of them.
pub(crate) struct World {
    pub(crate) storage: Memory,
    pub(crate) spec: CompactSpec,
    /// What the inputs hold.
    pub(crate) inputs: Held,
    /// What lies below, outside the inputs.
    pub(crate) older: Held,
}

impl World {
    pub(crate) fn new(seed: u64, mix: Mix) -> World {
        let mut random = Random(seed);
        let mut history = Held::default();
        for sequence in 1..=mix.operations {
            operate(&mut random, Sequence(sequence * 3), mix, &mut history);
        }
        // Oldest first: below the inputs, then the last level, then runs of level 0.
        let mut cuts: Vec<u64> = (0..3).map(|_| random.below(mix.operations * 3)).collect();
        cuts.sort_unstable();
        if !mix.older {
            cuts[0] = 0;
        }
        let part = |from: u64, to: u64| Held {
            entries: history.entries.iter().filter(|e| (from..to).contains(&e.sequence.0)).cloned().collect(),
            ranges: history.ranges.iter().filter(|r| (from..to).contains(&r.2.0)).cloned().collect(),
        };
        let older = part(0, cuts[0]);
        let storage = Memory::new();
        let mut inputs = Vec::new();
        let places = [(1, 0, cuts[0], cuts[1]), (0, 1, cuts[1], cuts[2]), (0, 2, cuts[2], u64::MAX)];
        for (level, run, from, to) in places {
            lay_out(&storage, &part(from, to), (level, run), &mut random, &mut inputs);
        }
        let spec = CompactSpec {
            keyspace: 1,
            inputs,
            range: KeyRange::all(),
            rules: rules(&mut random, mix, &older),
            output: OutputForm {
                block_bytes: 64,
                table_bytes_target: 200 + random.below(2000),
                splits: if random.below(2) == 0 { vec![b"ab".to_vec(), b"b".to_vec()] } else { Vec::new() },
                ..OutputForm::default()
            },
            values: None,
            output_stem: "out".into(),
        };
        World { storage, spec, inputs: part(cuts[0], u64::MAX), older }
    }

    /// The compaction with outputs of this stem, as executors take it.
    pub(crate) fn job(&self, stem: &str) -> JobSpec {
        JobSpec::from(self.spec.clone()).with_stem(stem)
    }

    /// What the tables `metas` hold.
    pub(crate) fn held(&self, metas: &[TableMeta]) -> Held {
        let mut held = Held::default();
        for meta in metas {
            let cache = Arc::new(BlockCache::new(0));
            let table =
                Arc::new(TableReader::open(&self.storage, meta, &cache, ReaderOptions::default()).unwrap());
            table.verify(meta, None).unwrap();
            let spans = table
                .tombstones()
                .spans()
                .map(|span| (span.start.to_vec(), span.end.to_vec(), span.sequence));
            held.ranges.extend(spans);
            let mut cursor = TableCursor::new(table, CursorOptions::SCAN);
            cursor.seek_first().unwrap();
            while let Some(entry) = cursor.entry() {
                held.entries.push(Owned::of(&entry));
                cursor.next().unwrap();
            }
        }
        held
    }

    /// Every point that a reader may read at.
    pub(crate) fn points(&self) -> Vec<Sequence> {
        self.spec.rules.snapshots.iter().copied().chain([Sequence::MAX]).collect()
    }
}

fn operate(random: &mut Random, sequence: Sequence, mix: Mix, history: &mut Held) {
    let key = random.key();
    if random.below(10) == 0 {
        let end = random.key();
        let (start, end) = if key < end { (key, end) } else { (end, key) };
        if start < end {
            history.ranges.push((start, end, sequence));
        }
        return;
    }
    let kind = match random.below(8) {
        0 | 1 => Kind::Delete,
        2..5 if mix.merges => Kind::Merge,
        _ => Kind::Put,
    };
    let expires_at_ms = if kind != Kind::Delete && random.below(4) == 0 { 1 + random.below(200) } else { 0 };
    let mut value = format!("{}{}", ["v", "d", "v", "v"][random.below(4) as usize], sequence).into_bytes();
    match kind {
        Kind::Delete => value.clear(),
        Kind::Merge if random.below(12) == 0 => value.insert(0, b'!'),
        _ => {}
    }
    history.entries.push(Owned { key, sequence, kind, expires_at_ms, value });
}

fn rules(random: &mut Random, mix: Mix, older: &Held) -> Rules {
    let mut snapshots: Vec<Sequence> =
        (0..random.below(4)).map(|_| Sequence(random.below(mix.operations * 3 + 10))).collect();
    if random.below(8) == 0 {
        snapshots.push(Sequence(0));
    }
    let mut older_overlap: Vec<KeyRange> = older
        .entries
        .iter()
        .map(|entry| KeyRange { start: entry.key.clone(), end: Some([&entry.key[..], b"\0"].concat()) })
        .collect();
    if random.below(4) == 0 {
        older_overlap = vec![KeyRange::all()];
    }
    Rules {
        snapshots,
        tick_ms: 100,
        older_overlap,
        merge_operator: mix.merges.then(|| "append.1".to_owned()),
        compaction_filter: mix.filter.then(|| "drop-d.1".to_owned()),
    }
}

/// Writes what one run holds as one to three disjoint tables.
fn lay_out(
    storage: &Memory,
    held: &Held,
    place: (u32, u64),
    random: &mut Random,
    inputs: &mut Vec<JobInput>,
) {
    let mut entries = held.entries.clone();
    entries.sort_by(|a, b| a.key.cmp(&b.key).then(b.sequence.cmp(&a.sequence)));
    let mut bounds = vec![Vec::new()];
    if random.below(2) == 0 {
        bounds.push(b"ac".to_vec());
        bounds.push(b"ba".to_vec());
    }
    for (index, lower) in bounds.iter().enumerate() {
        let upper = bounds.get(index + 1).map(|upper| upper.as_slice());
        let range = KeyRange { start: lower.clone(), end: upper.map(<[u8]>::to_vec) };
        let name = format!("in-{}-{}-{index}.table", place.0, place.1);
        let form = TableForm { block_bytes: 64, ..TableForm::default() };
        let mut builder = TableBuilder::new(&name, storage.create(&name).unwrap(), form);
        for entry in entries.iter().filter(|entry| range.contains(&entry.key)) {
            builder.add(&entry.entry()).unwrap();
        }
        builder.add_tombstones(&held.list().clip(lower, upper));
        if builder.is_empty() {
            storage.remove(&name).unwrap();
            continue;
        }
        inputs.push(JobInput { table: builder.finish().unwrap(), level: place.0, run: place.1 });
    }
}
