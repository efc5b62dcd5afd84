//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, ValueEnum};
use firn_bench::args::{DbArgs, OutputArgs, RunArgs, YcsbArgs};
use firn_bench::suite::{DbSuite, Suite, YcsbSuite};
use firn_engine::settings::parse_bytes;
use firn_engine::{Error, Result};

use crate::{child, compare, native};

/// Memory given to each engine where the command line names none: enough for four memtables of 64
/// MiB and a cache of 512 MiB.
const MEMORY_BYTES_DEFAULT: u64 = 768 << 20;

/// Compares Firn with other stores
#[derive(Debug, Parser)]
#[command(name = "peers compare", about)]
struct Command<S: Args> {
    #[command(flatten)]
    compare: CompareArgs,
    #[command(flatten)]
    child: ChildArgs,
    #[command(flatten)]
    suite: S,
}

/// What a comparison adds to a suite.
#[derive(Clone, Debug, Args)]
pub struct CompareArgs {
    /// Engines: firn, hashlog, rocksdb, rocksdb-blob, fjall, fjall-kvsep, lmdb, redb. With hashlog,
    /// whose keys have no order, workloads that need order are left out, or refused if named
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', default_value = "firn,rocksdb")]
    pub engines: Vec<String>,
    /// Which benchmarks: ycsb or db; the other options are those of `firn bench ycsb` and `firn
    /// bench db`
    #[arg(long, value_enum, default_value = "ycsb")]
    pub suite: SuiteName,
    /// How often everything is run
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub repetitions: u32,
    /// Engine whose figures the ratios divide by [default: rocksdb if it takes part, else the
    /// first]
    #[arg(long, value_name = "NAME")]
    pub baseline: Option<String>,
    /// Memory limit of each engine's process, page cache included [default: three times the data,
    /// twice
    /// --memory-bytes and 512 MiB together, which keeps everything resident]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    pub limit_bytes: Option<u64>,
    /// RocksDB's shared library
    #[arg(long, value_name = "FILE", default_value_os_t = native::rocksdb())]
    pub rocksdb_library: PathBuf,
}

/// Firn's engine whose keys have no order.
const HASHED: &str = "hashlog";

impl CompareArgs {
    /// Whether an engine takes part that keeps keys in no order.
    fn is_without_order(&self) -> bool {
        self.engines.iter().any(|name| name == HASHED)
    }
}

/// What the parent tells a child.
#[derive(Clone, Debug, Args)]
pub struct ChildArgs {
    /// The engine this process drives
    #[arg(long, hide = true)]
    pub child_engine: Option<String>,
    /// Where its database lies
    #[arg(long, hide = true, default_value = ".")]
    pub child_dir: PathBuf,
    /// The cgroup it joins
    #[arg(long, hide = true)]
    pub child_cgroup: Option<PathBuf>,
    /// Which repetition this is
    #[arg(long, hide = true, default_value_t = 1)]
    pub child_repetition: u32,
}

/// A suite by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SuiteName {
    /// YCSB.
    Ycsb,
    /// The db_bench family.
    Db,
}

/// What a process has to do.
pub enum Task {
    /// Run the comparison.
    Compare(Job),
    /// Drive one engine of it.
    Child(ChildArgs, Job),
}

/// A comparison with everything decided.
pub struct Job {
    /// Engines and limits.
    pub compare: CompareArgs,
    /// The phases.
    pub suite: Box<dyn Suite>,
    /// How phases are driven; memory is always set.
    pub run: RunArgs,
    /// Where results go.
    pub output: OutputArgs,
    /// The arguments the job was made of, for children.
    pub words: Vec<OsString>,
}

impl Task {
    /// Does it.
    ///
    /// # Errors
    /// Whatever it failed with.
    pub fn run(self) -> Result<()> {
        match self {
            Task::Compare(job) => compare::run(job),
            Task::Child(child, job) => child::run(&child, job),
        }
    }
}

/// Reads the command line; prints help or a usage error and exits where clap does.
///
/// # Errors
/// `Invalid` if the options make no benchmark.
pub fn parse() -> Result<Task> {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let rest = match words.split_first() {
        Some((first, rest)) if first == "compare" => rest.to_vec(),
        _ => {
            return Err(Error::invalid("usage: peers compare [OPTIONS]; `peers compare --help` tells which"));
        }
    };
    // The suite decides which other options there are, so it is looked for before they are parsed.
    let is_db = rest.windows(2).any(|pair| pair[0] == "--suite" && pair[1] == "db")
        || rest.iter().any(|word| word == "--suite=db");
    let parsed = std::iter::once(OsString::from("peers compare")).chain(rest.iter().cloned());
    if is_db {
        let mut command = Command::<DbArgs>::parse_from(parsed);
        command.suite.run.memory_bytes.get_or_insert(MEMORY_BYTES_DEFAULT);
        let mut suite = Box::new(DbSuite::new(&command.suite, false)?);
        if command.compare.is_without_order() {
            suite.leave_out_order(&command.suite, HASHED)?;
        }
        let DbArgs { run, output, .. } = command.suite;
        Ok(task(command.child, Job { compare: command.compare, suite, run, output, words: rest }))
    } else {
        let mut command = Command::<YcsbArgs>::parse_from(parsed);
        command.suite.run.memory_bytes.get_or_insert(MEMORY_BYTES_DEFAULT);
        let mut suite = Box::new(YcsbSuite::new(&command.suite, false)?);
        if command.compare.is_without_order() {
            suite.leave_out_order(&command.suite, HASHED)?;
        }
        let YcsbArgs { run, output, .. } = command.suite;
        Ok(task(command.child, Job { compare: command.compare, suite, run, output, words: rest }))
    }
}

fn task(child: ChildArgs, job: Job) -> Task {
    if child.child_engine.is_some() { Task::Child(child, job) } else { Task::Compare(job) }
}
