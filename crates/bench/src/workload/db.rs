//! The db_bench family: one kind of operation at a time over numbered keys.
//!
//! Source: LevelDB's and RocksDB's `db_bench`. Keys are numbers as eight bytes, most significant
//! first, padded with `0` to the key size; `*random` draws them uniformly from `0..num`, so a
//! random fill leaves about a third of the numbers without a record. `fillbatch` and `fillingest`
//! are our own: what `fillseq` writes, as a store takes it in bulk.

use std::sync::Arc;

use fastrand::Rng;
use firn_engine::{Error, Result};

use super::{Done, KeyStyle, Kind, NumberSet, Operations, ValuePool};
use crate::distribution::{Sequential, stream_seed};
use crate::target::{Client, SortedRecords};

#[cfg(test)]
mod tests;

/// Records a sequential read takes in one call.
const SEQUENTIAL_RECORDS: usize = 256;

/// Records of a batch of [`Benchmark::FillBatch`].
const BATCH_RECORDS: u64 = 1000;

/// One benchmark of the family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Benchmark {
    /// Writes all keys in order into an empty store; one thread.
    FillSeq,
    /// The same in batches of a thousand records.
    FillBatch,
    /// The same by the store's bulk ingestion, which is one operation.
    FillIngest,
    /// Writes random keys into an empty store.
    FillRandom,
    /// Writes random keys into the store as it is.
    Overwrite,
    /// Reads random keys.
    ReadRandom,
    /// Reads records in order from the first.
    ReadSeq,
    /// Seeks to random keys and reads the record there, and as many more as `seek_nexts` says.
    SeekRandom,
    /// Reads random keys while one more thread writes random keys; only reads count.
    ReadWhileWriting,
    /// Removes random keys.
    DeleteRandom,
}

impl Benchmark {
    /// Every benchmark, in a sensible order.
    pub const ALL: [Benchmark; 10] = [
        Benchmark::FillSeq,
        Benchmark::FillBatch,
        Benchmark::FillIngest,
        Benchmark::FillRandom,
        Benchmark::Overwrite,
        Benchmark::ReadRandom,
        Benchmark::ReadSeq,
        Benchmark::SeekRandom,
        Benchmark::ReadWhileWriting,
        Benchmark::DeleteRandom,
    ];

    /// The name db_bench gives it, or would.
    pub fn name(self) -> &'static str {
        match self {
            Benchmark::FillSeq => "fillseq",
            Benchmark::FillBatch => "fillbatch",
            Benchmark::FillIngest => "fillingest",
            Benchmark::FillRandom => "fillrandom",
            Benchmark::Overwrite => "overwrite",
            Benchmark::ReadRandom => "readrandom",
            Benchmark::ReadSeq => "readseq",
            Benchmark::SeekRandom => "seekrandom",
            Benchmark::ReadWhileWriting => "readwhilewriting",
            Benchmark::DeleteRandom => "deleterandom",
        }
    }

    /// The benchmark called `name`.
    ///
    /// # Errors
    /// `Invalid`, with the names there are.
    pub fn from_name(name: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|benchmark| benchmark.name() == name).ok_or_else(|| {
            let known: Vec<&str> = Self::ALL.into_iter().map(Self::name).collect();
            Error::invalid(format!("no benchmark `{name}`; there are {}", known.join(", ")))
        })
    }

    /// Whether it begins with an empty store.
    pub fn wants_empty_store(self) -> bool {
        self.is_sorted_fill() || self == Benchmark::FillRandom
    }

    /// Whether it writes all keys in order, by one thread.
    pub fn is_sorted_fill(self) -> bool {
        matches!(self, Benchmark::FillSeq | Benchmark::FillBatch | Benchmark::FillIngest)
    }

    /// Whether it writes as a store takes records in bulk.
    pub fn is_bulk_fill(self) -> bool {
        matches!(self, Benchmark::FillBatch | Benchmark::FillIngest)
    }

    /// Whether it asks for records in order, or hands them over so.
    pub fn needs_order(self) -> bool {
        matches!(self, Benchmark::ReadSeq | Benchmark::SeekRandom | Benchmark::FillIngest)
    }

    /// Whether it writes.
    pub fn writes(self) -> bool {
        !matches!(self, Benchmark::ReadRandom | Benchmark::ReadSeq | Benchmark::SeekRandom)
    }

    /// What its counted operations are.
    pub fn kind(self) -> Kind {
        match self {
            Benchmark::FillSeq | Benchmark::FillBatch | Benchmark::FillIngest | Benchmark::FillRandom => {
                Kind::Insert
            }
            Benchmark::Overwrite => Kind::Update,
            Benchmark::ReadRandom | Benchmark::ReadSeq | Benchmark::ReadWhileWriting => Kind::Read,
            Benchmark::SeekRandom => Kind::Scan,
            Benchmark::DeleteRandom => Kind::Delete,
        }
    }
}

/// What the streams of one benchmark share.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Keys are drawn from `0..num`.
    pub num: u64,
    /// How keys look.
    pub keys: KeyStyle,
    /// Bytes of every value.
    pub value_bytes: usize,
    /// Records read after the one a seek lands on.
    pub seek_nexts: usize,
    /// Where values come from.
    pub values: ValuePool,
    /// Numbers that have a record.
    pub live: Arc<NumberSet>,
}

/// One thread's operations of a benchmark.
pub struct DbStream {
    kind: Kind,
    choice: Choice,
    unit: Unit,
    shape: Shape,
    random: Rng,
    number: u64,
    key: Vec<u8>,
    read: Vec<u8>,
}

/// How the next key is chosen.
enum Choice {
    /// Uniform.
    Random,
    /// In order, all numbers once.
    InOrder(Arc<Sequential>, u64),
    /// From the record after the last one read; `None` = the store has been read to its end.
    Onward(Option<Vec<u8>>),
}

/// What an operation writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Record,
    Batch,
    /// All that there is to write.
    Ingestion,
}

impl DbStream {
    /// Operations of `benchmark`; all its threads' streams are made with one call.
    pub fn streams(benchmark: Benchmark, shape: &Shape, threads: usize, seed: u64) -> Vec<DbStream> {
        let threads = if benchmark.is_sorted_fill() { 1 } else { threads };
        let sequence = Arc::new(Sequential::new(0, shape.num.max(1) - 1));
        (0..threads)
            .map(|thread| {
                let choice = match benchmark {
                    _ if benchmark.is_sorted_fill() => Choice::InOrder(Arc::clone(&sequence), shape.num),
                    Benchmark::ReadSeq => Choice::Onward(Some(Vec::new())),
                    _ => Choice::Random,
                };
                let unit = match benchmark {
                    Benchmark::FillBatch => Unit::Batch,
                    Benchmark::FillIngest => Unit::Ingestion,
                    _ => Unit::Record,
                };
                Self { unit, ..Self::new(benchmark.kind(), choice, shape, stream_seed(seed, thread)) }
            })
            .collect()
    }

    /// Writes to random keys without end: what goes on beside [`Benchmark::ReadWhileWriting`].
    pub fn background_writes(shape: &Shape, seed: u64) -> DbStream {
        Self::new(Kind::Update, Choice::Random, shape, seed)
    }

    fn new(kind: Kind, choice: Choice, shape: &Shape, seed: u64) -> Self {
        Self {
            kind,
            choice,
            unit: Unit::Record,
            shape: shape.clone(),
            random: Rng::with_seed(seed),
            number: 0,
            key: Vec::new(),
            read: Vec::new(),
        }
    }

    fn read_onward(&mut self, client: &mut dyn Client) -> Result<Done> {
        let Choice::Onward(next) = &mut self.choice else { return Err(Error::bug("not a sequential read")) };
        let start = next.take().unwrap_or_default();
        let (mut last, mut bytes) = (start.clone(), 0);
        let seen = client.scan(&start, SEQUENTIAL_RECORDS, &mut |key, value| {
            last.clear();
            last.extend_from_slice(key);
            bytes += (key.len() + value.len()) as u64;
        })?;
        if seen == SEQUENTIAL_RECORDS {
            // The smallest key after `last`.
            last.push(0);
            *next = Some(last);
        }
        Ok(Done { operations: seen as u64, not_found: 0, written_bytes: 0, read_bytes: bytes })
    }
}

impl Operations for DbStream {
    fn prepare(&mut self) -> Option<Kind> {
        self.number = match &mut self.choice {
            Choice::Random => self.random.u64(0..self.shape.num.max(1)),
            Choice::InOrder(sequence, left) => {
                *left = left.checked_sub(1)?;
                sequence.draw()
            }
            Choice::Onward(None) => return None,
            Choice::Onward(Some(_)) => 0,
        };
        self.shape.keys.write(self.number, &mut self.key);
        Some(self.kind)
    }

    fn perform(&mut self, client: &mut dyn Client) -> Result<Done> {
        if matches!(self.choice, Choice::Onward(_)) {
            return self.read_onward(client);
        }
        let nothing = Done { operations: 0, ..Done::wrote(0) };
        match self.unit {
            Unit::Record => {}
            Unit::Batch => {
                let mut records = Records { stream: self, records_max: BATCH_RECORDS, done: nothing };
                return client.write_batch(&mut records).map(|()| records.done);
            }
            Unit::Ingestion => {
                let mut records = Records { stream: self, records_max: u64::MAX, done: nothing };
                return client.ingest(&mut records).map(|()| records.done);
            }
        }
        let key = &self.key;
        match self.kind {
            Kind::Read | Kind::ReadModifyWrite => {
                let found = client.read(key, &mut self.read)?;
                Ok(Done::read(found, key.len() + self.read.len()))
            }
            Kind::Scan => {
                let (mut bytes, mut hit) = (0, false);
                client.scan(key, 1 + self.shape.seek_nexts, &mut |found, value| {
                    hit |= found == key.as_slice();
                    bytes += found.len() + value.len();
                })?;
                Ok(Done { not_found: u64::from(!hit), ..Done::read(true, bytes) })
            }
            Kind::Insert | Kind::Update => {
                client.insert(key, self.shape.values.draw(self.shape.value_bytes, &mut self.random))?;
                self.shape.live.insert(self.number);
                Ok(Done::wrote(key.len() + self.shape.value_bytes))
            }
            Kind::Delete => {
                client.delete(key)?;
                self.shape.live.remove(self.number);
                Ok(Done::wrote(key.len()))
            }
        }
    }
}

/// The record that a stream has prepared, and those behind it.
struct Records<'s> {
    stream: &'s mut DbStream,
    /// As many as that at most.
    records_max: u64,
    /// What was taken.
    done: Done,
}

impl SortedRecords for Records<'_> {
    fn next(&mut self) -> Option<(&[u8], &[u8])> {
        let Self { stream, records_max, done } = self;
        if done.operations == *records_max || done.operations > 0 && stream.prepare().is_none() {
            return None;
        }
        let DbStream { key, shape, random, number, .. } = &mut **stream;
        let value = shape.values.draw(shape.value_bytes, random);
        shape.live.insert(*number);
        done.operations += 1;
        done.written_bytes += (key.len() + value.len()) as u64;
        Some((key.as_slice(), value))
    }
}
