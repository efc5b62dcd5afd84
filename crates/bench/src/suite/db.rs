//! The db_bench family, one benchmark after another.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use firn_engine::{Error, Result};

use super::ycsb::{no_order, share};
use super::{Store, Suite};
use crate::args::DbArgs;
use crate::distribution::stream_seed;
use crate::driver::{Phase, Stream, Watcher, run_phase};
use crate::report::{Context, Holdings, PhaseResult};
use crate::target::OpenOptions;
use crate::workload::db::{Benchmark, DbStream, Shape};
use crate::workload::{DB_BENCH_KEY_BYTES_MIN, KeyStyle, NumberSet, ValuePool};

/// The benchmarks asked for with everything about them decided.
pub struct DbSuite {
    benchmarks: Vec<Benchmark>,
    args: DbArgs,
    threads: usize,
    shape: Shape,
}

impl DbSuite {
    /// What `args` ask for. `has_data` tells that the directory holds a database already.
    ///
    /// # Errors
    /// `Invalid` for an unknown benchmark, a key too short, or a fill into a directory that holds a
    /// database.
    pub fn new(args: &DbArgs, has_data: bool) -> Result<Self> {
        let mut benchmarks =
            args.benchmarks.iter().map(|name| Benchmark::from_name(name)).collect::<Result<Vec<_>>>()?;
        if args.benchmarks.is_empty() {
            benchmarks.extend(Benchmark::ALL.into_iter().filter(|benchmark| !benchmark.is_bulk_fill()));
        }
        if has_data && benchmarks.iter().any(|benchmark| benchmark.wants_empty_store()) {
            return Err(Error::invalid(
                "the directory is not empty: name an empty one, or leave the fills out to use the database in it",
            ));
        }
        if !has_data && benchmarks.first().is_some_and(|first| !first.wants_empty_store()) {
            benchmarks.insert(0, Benchmark::FillRandom);
        }
        if args.key_bytes < DB_BENCH_KEY_BYTES_MIN {
            return Err(Error::invalid(format!("--key-bytes is at least {DB_BENCH_KEY_BYTES_MIN}")));
        }
        let value_bytes = usize::try_from(args.run.value_bytes.unwrap_or(1024))
            .map_err(|_| Error::invalid("--value-bytes is too large"))?;
        let num = args.num.max(1);
        let shape = Shape {
            num,
            keys: KeyStyle::Fixed { bytes: args.key_bytes },
            value_bytes,
            seek_nexts: args.seek_nexts,
            values: ValuePool::compressible(value_bytes, args.run.compression_ratio, args.run.seed),
            live: Arc::new(NumberSet::new(num)),
        };
        if has_data {
            (0..num).for_each(|number| shape.live.insert(number));
        }
        Ok(Self { benchmarks, threads: args.run.threads.unwrap_or(2).max(1), shape, args: args.clone() })
    }

    /// Leaves out the benchmarks that need order where `args` name none, for a target without it;
    /// their names.
    ///
    /// # Errors
    /// `Invalid` if one of them is named.
    pub fn leave_out_order(&mut self, args: &DbArgs, target: &str) -> Result<Vec<String>> {
        let ordered = self.benchmarks.iter().filter(|benchmark| benchmark.needs_order());
        let names: Vec<String> = ordered.map(|benchmark| benchmark.name().to_owned()).collect();
        if args.benchmarks.is_empty() {
            self.benchmarks.retain(|benchmark| !benchmark.needs_order());
            return Ok(names);
        }
        match names.is_empty() {
            true => Ok(names),
            false => Err(no_order(&format!("{} needs order", names.join(",")), target)),
        }
    }

    fn phase(&self, benchmark: Benchmark, seed: u64) -> Phase {
        let fills = benchmark.wants_empty_store();
        let time = self.args.run.seconds.filter(|_| !fills);
        let reads = matches!(benchmark, Benchmark::ReadWhileWriting) || !benchmark.writes();
        let operations = if reads { self.args.reads.unwrap_or(self.args.num) } else { self.args.num };
        let made = DbStream::streams(benchmark, &self.shape, self.threads, seed);
        let threads = made.len();
        let mut streams: Vec<Stream> = made
            .into_iter()
            .enumerate()
            .map(|(index, stream)| Stream {
                operations: Box::new(stream),
                quota: time.is_none().then(|| share(operations, threads, index)),
                counted: true,
            })
            .collect();
        if benchmark == Benchmark::ReadWhileWriting {
            let writes = DbStream::background_writes(&self.shape, stream_seed(seed, 1_000));
            streams.push(Stream { operations: Box::new(writes), quota: None, counted: false });
        }
        Phase {
            name: benchmark.name().to_owned(),
            streams,
            operations: if time.is_some() { 0 } else { operations },
            time: time.map(Duration::from_secs_f64),
            warmup: if fills {
                Duration::ZERO
            } else {
                Duration::from_secs_f64(self.args.run.warmup_seconds)
            },
            rate: self.args.run.rate.filter(|_| !fills),
            drains: benchmark.writes(),
        }
    }
}

/// The order of a benchmark's keys, in a word.
fn distribution(benchmark: Benchmark) -> &'static str {
    match benchmark.is_sorted_fill() || benchmark == Benchmark::ReadSeq {
        true => "sequential",
        false => "uniform",
    }
}

impl Suite for DbSuite {
    fn steps(&self) -> Vec<String> {
        self.benchmarks.iter().map(|benchmark| benchmark.name().to_owned()).collect()
    }

    fn data_bytes(&self) -> u64 {
        self.shape.num * (self.args.key_bytes + self.shape.value_bytes) as u64
    }

    fn open_options(&self, dir: &Path) -> OpenOptions {
        OpenOptions {
            dir: dir.to_owned(),
            memory_bytes: self.args.run.memory_bytes,
            separate_bytes: self.args.run.separate_bytes.map(|bytes| bytes.try_into().unwrap_or(u32::MAX)),
            space_amplification_max: self.args.run.space_amplification_max,
            read_compaction_price: self.args.run.read_compaction_price,
            compression: self.args.run.compression,
            worker: self.args.run.worker.clone(),
            durability: self.args.run.durability,
            threads: self.threads + 1,
        }
    }

    fn run_step(
        &mut self,
        step: usize,
        store: &mut Store<'_>,
        watcher: &mut dyn Watcher,
    ) -> Result<PhaseResult> {
        let benchmark = *self.benchmarks.get(step).ok_or_else(|| Error::bug("no such step"))?;
        let target = if benchmark.wants_empty_store() {
            self.shape.live.clear();
            store.empty()?
        } else {
            store.target()?
        };
        let seed = stream_seed(self.args.run.seed, 1_000 + step);
        let phase = self.phase(benchmark, seed);
        let context = Context {
            engine: target.name().to_owned(),
            suite: "db".to_owned(),
            workload: benchmark.name().to_owned(),
            repetition: 1,
            threads: phase.streams.iter().filter(|stream| stream.counted).count(),
            key_bytes: self.args.key_bytes,
            value_bytes: self.shape.value_bytes,
            distribution: distribution(benchmark).to_owned(),
            rate: phase.rate,
            seed,
            settings: target.settings(),
        };
        let measured = run_phase(target, phase, watcher)?;
        let record_bytes = (context.key_bytes + context.value_bytes) as u64;
        let holdings = Holdings {
            disk_bytes: target.disk_bytes(),
            live_bytes: self.shape.live.count() * record_bytes,
            memory: target.memory(),
        };
        Ok(PhaseResult::new(context, &measured, holdings))
    }
}
