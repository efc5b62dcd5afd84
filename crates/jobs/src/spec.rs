//! What a job is, and what comes of it: values that travel.

use std::collections::{BTreeMap, BTreeSet};

use firn_format::Sequence;
use firn_format::blob::SegmentNumber;
use firn_format::compression::Compression;
use firn_format::manifest::{BlobSegmentMeta, RelocationTarget, TableMeta};
use firn_format::table::ReferenceSet;

use crate::blob_gc::{BlobGcResult, BlobGcSpec};
use crate::conservation::Sums;
use crate::error::{Error, ErrorKind, Result};

/// What to do.
///
/// Self-contained: an executor opens the inputs and creates outputs under the stem (of a recycled
/// file if there is one). It needs nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "there is one for each job, and a job runs for long")]
pub enum JobSpec {
    /// Tables are rewritten.
    Compact(CompactSpec),
    /// Values that live are copied out of their segments.
    BlobGc(BlobGcSpec),
}

/// What came of a job, of the kind of its spec.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "there is one for each job, and a job runs for long")]
pub enum JobResult {
    /// Of [`JobSpec::Compact`].
    Compact(CompactResult),
    /// Of [`JobSpec::BlobGc`].
    BlobGc(BlobGcResult),
}

impl JobSpec {
    /// What the outputs' names begin with.
    pub fn output_stem(&self) -> &str {
        match self {
            Self::Compact(spec) => &spec.output_stem,
            Self::BlobGc(spec) => &spec.output_stem,
        }
    }

    /// The same job with outputs of other names.
    pub fn with_stem(&self, stem: &str) -> Self {
        match self {
            Self::Compact(spec) => {
                Self::Compact(CompactSpec { output_stem: stem.to_owned(), ..spec.clone() })
            }
            Self::BlobGc(spec) => Self::BlobGc(BlobGcSpec { output_stem: stem.to_owned(), ..spec.clone() }),
        }
    }

    /// Bytes of all input files.
    pub fn input_bytes(&self) -> u64 {
        match self {
            Self::Compact(spec) => spec.input_bytes(),
            Self::BlobGc(spec) => spec.input_bytes(),
        }
    }
}

impl JobSpec {
    /// Whether it takes runs out of level 0, which writers wait for. Everything else is deep work:
    /// it can wait for a while.
    pub fn is_l0(&self) -> bool {
        matches!(self, Self::Compact(spec) if spec.inputs.iter().any(|input| input.level == 0))
    }

    /// What an executor must have, by kind and what the job names it: `merge:IDENTITY`,
    /// `filter:IDENTITY`, `prefix:NAME`.
    pub fn needs(&self) -> BTreeSet<String> {
        let Self::Compact(spec) = self else { return BTreeSet::new() };
        let name = |kind: &str, name: &Option<String>| name.as_ref().map(|name| format!("{kind}:{name}"));
        let all = [
            name("merge", &spec.rules.merge_operator),
            name("filter", &spec.rules.compaction_filter),
            name("prefix", &spec.output.prefix_extractor),
        ];
        all.into_iter().flatten().collect()
    }

    /// The files that the job reads, with their bytes.
    pub fn input_files(&self) -> BTreeMap<&str, u64> {
        match self {
            Self::Compact(spec) => {
                let tables = spec.inputs.iter().map(|input| (input.table.file.as_str(), input.table.bytes));
                let sources = spec.values.iter().flat_map(|values| &values.sources);
                tables.chain(sources.map(|one| (one.segment.file.as_str(), one.segment.bytes))).collect()
            }
            Self::BlobGc(spec) => {
                spec.victims.iter().map(|one| (one.segment.file.as_str(), one.segment.bytes)).collect()
            }
        }
    }

    /// The same job without a file to write over: its executor creates every output.
    #[must_use]
    pub fn without_recycled(self) -> Self {
        match self {
            Self::Compact(spec) => Self::Compact(spec),
            Self::BlobGc(spec) => Self::BlobGc(BlobGcSpec { recycled: None, ..spec }),
        }
    }

    /// Version of a spec's bytes that this build writes and reads, and of what it makes of them. It
    /// changes with the format of outputs and with what a codec makes of the same bytes.
    pub const VERSION: u32 = 3;
}

impl From<CompactSpec> for JobSpec {
    fn from(spec: CompactSpec) -> Self {
        Self::Compact(spec)
    }
}

impl From<BlobGcSpec> for JobSpec {
    fn from(spec: BlobGcSpec) -> Self {
        Self::BlobGc(spec)
    }
}

impl JobResult {
    /// The result of a compaction.
    ///
    /// # Errors
    /// `Invalid`: it is another job's.
    pub fn into_compact(self) -> Result<CompactResult> {
        match self {
            Self::Compact(result) => Ok(result),
            Self::BlobGc(_) => Err(other_kind("a compaction")),
        }
    }

    /// The result of a GC.
    ///
    /// # Errors
    /// `Invalid`: it is another job's.
    pub fn into_blob_gc(self) -> Result<BlobGcResult> {
        match self {
            Self::BlobGc(result) => Ok(result),
            Self::Compact(_) => Err(other_kind("a blob GC")),
        }
    }
}

fn other_kind(expected: &str) -> Error {
    Error::new(ErrorKind::Invalid, format!("expected the result of {expected}, found another job's"))
}

/// A compaction: which tables to rewrite, by which rules, into what.
///
/// The outputs' bytes are a function of this value and of the operators it names, which have their
/// parameters by that.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompactSpec {
    /// The keyspace all inputs belong to; for people, no rule looks at it.
    pub keyspace: u32,
    /// Tables to read, in any order. Tables of one (level, run) MUST be disjoint.
    pub inputs: Vec<JobInput>,
    /// Only entries and tombstones of these keys are read and written.
    pub range: KeyRange,
    /// By which rules versions are kept or dropped.
    pub rules: Rules,
    /// Form of the outputs.
    pub output: OutputForm,
    /// Where values are, and where they are to be. `None`: none is read, and each stays where it
    /// is.
    pub values: Option<BlobPolicy>,
    /// Outputs are called `<stem>-<index>.table`, or `<stem>-<attempt>-<index>.table` where an
    /// executor makes several attempts. No other job may use the stem, nor a stem that begins with
    /// it and a `-`.
    pub output_stem: String,
}

/// One table to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobInput {
    /// The file and what it is believed to hold.
    pub table: TableMeta,
    /// The level it is in.
    pub level: u32,
    /// Its sorted run in that level.
    pub run: u64,
}

/// Keys from `start` to `end` (excluded).
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyRange {
    /// The first key.
    pub start: Vec<u8>,
    /// The first key after; `None` = to the last key there is.
    pub end: Option<Vec<u8>>,
}

impl KeyRange {
    /// Every key.
    pub fn all() -> Self {
        Self::default()
    }

    /// Whether `key` is in it.
    pub fn contains(&self, key: &[u8]) -> bool {
        self.start.as_slice() <= key && self.end.as_ref().is_none_or(|end| key < end.as_slice())
    }

    /// Whether it has no key.
    pub fn is_empty(&self) -> bool {
        self.end.as_ref().is_some_and(|end| end <= &self.start)
    }

    /// Whether some key is in both.
    pub fn touches(&self, other: &KeyRange) -> bool {
        let start = (&self.start).max(&other.start);
        [&self.end, &other.end].into_iter().flatten().all(|end| start < end)
    }
}

/// Which versions are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// The snapshots that are read: a snapshot `s` sees sequences below `s`. Readers of everything
    /// always exist.
    pub snapshots: Vec<Sequence>,
    /// Engine time in milliseconds since the Unix epoch: puts that expire at or before it are
    /// expired.
    pub tick_ms: u64,
    /// Where versions older than the inputs' may lie outside the inputs; where there are no inputs
    /// it says nothing. Outside these ranges tombstones that every snapshot sees are dropped.
    /// [`KeyRange::all`] = drop none.
    pub older_overlap: Vec<KeyRange>,
    /// The text of the [`Identity`](firn_engine::Identity) of the operator that combines merge
    /// operands; `None`: they stay as they are.
    pub merge_operator: Option<String>,
    /// The text of the identity of the filter for puts that no snapshot sees.
    pub compaction_filter: Option<String>,
}

/// What outputs look like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputForm {
    /// Payload bytes at which a data block is closed.
    pub block_bytes: u32,
    /// Compression of data blocks.
    pub compression: Compression,
    /// Bits per key of the filters; 0 = none.
    pub filter_bits_per_key: u32,
    /// Name of the prefix extractor, if prefixes are filtered too; it says its parameters, and
    /// tables keep it.
    pub prefix_extractor: Option<String>,
    /// Bytes at which a table is closed, at the next key.
    pub table_bytes_target: u64,
    /// Keys at which a table is closed whatever its size, rising.
    pub splits: Vec<Vec<u8>>,
}

impl Default for OutputForm {
    fn default() -> Self {
        Self {
            block_bytes: 4096,
            compression: Compression::None,
            filter_bits_per_key: 10,
            prefix_extractor: None,
            table_bytes_target: 64 << 20,
            splits: Vec::new(),
        }
    }
}

/// Separated values, for a compaction that may read them, and move values into the tree or out of
/// it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlobPolicy {
    /// Values of at least so many bytes are separated afterwards; shorter ones lie in the tree.
    pub separate_bytes: u32,
    /// Where the values are that the inputs refer to, in rising order of the segments that they
    /// were born in.
    pub sources: Vec<ValueSource>,
    /// References of the inputs that newer records outside of them have made obsolete. Their
    /// records are dropped as shadowed ones. Their values may be gone, and are not read.
    pub obsolete: ReferenceSet,
    /// The number of the output for values that leave the tree, `<stem>-000000.blobs`; no other
    /// segment may ever have it. `None`: they stay.
    pub output: Option<SegmentNumber>,
    /// How those are compressed.
    pub compression: Compression,
    /// Identity of the database, for that output's header.
    pub database: u128,
}

/// Where the values of one segment are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueSource {
    /// The segment that they were born in.
    pub born: SegmentNumber,
    /// The segment that has them now.
    pub segment: BlobSegmentMeta,
    /// What leads there, if that is another one.
    pub relocation: Option<RelocationTarget>,
}

/// What came of a compaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompactResult {
    /// The outputs in order of keys, durable with their names.
    pub tables: Vec<TableMeta>,
    /// The segment of the values that left the tree, durable with its name; the tables refer to
    /// each of them once.
    pub values: Option<BlobSegmentMeta>,
    /// What was read, dropped and produced.
    pub sums: Sums,
}

impl CompactResult {
    /// Bytes of all outputs.
    pub fn written_bytes(&self) -> u64 {
        let values = self.values.as_ref().map_or(0, |segment| segment.bytes);
        self.tables.iter().map(|table| table.bytes).sum::<u64>() + values
    }
}

impl CompactSpec {
    /// Bytes of all input files; a job over a part of their keys reads about its share.
    pub fn input_bytes(&self) -> u64 {
        self.inputs.iter().map(|input| input.table.bytes).sum()
    }
}
