//! What `bench points` is told.

use std::path::PathBuf;

use clap::Args;
use firn::EngineKind;
use firn_engine::settings::parse_bytes;
use firn_engine::{Durability, Error, Result};

use super::phase::Workload;
use crate::args::{EngineArgs, parse_durability, parse_positive, parse_seconds};

/// `bench points`: FASTER's workloads.
#[derive(Clone, Debug, Args)]
pub struct PointsArgs {
    #[command(flatten)]
    #[expect(missing_docs, reason = "clap would show the text as help")]
    pub engine: EngineArgs,
    /// Workloads, each over each distribution: read; mixed, half reads and half writes; rmw, which
    /// adds 1 to each value, and whose sums are checked at the end
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', default_value = "read,mixed,rmw")]
    pub workload: Vec<String>,
    /// How keys are drawn: uniform, zipfian (theta 0.99)
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', value_parser = ["uniform", "zipfian"],
        default_value = "uniform,zipfian")]
    pub distribution: Vec<String>,
    /// Keys that are loaded
    #[arg(long, value_name = "N", value_parser = parse_positive, default_value = "1M")]
    pub records: u64,
    /// Keys to load, 8 bytes each, the lowest first, as `bench ycsb process-ycsb` makes them
    /// [default: 0, 1, 2, ...]
    #[arg(long, value_name = "FILE", requires = "txns_file", conflicts_with_all = ["records", "distribution"])]
    pub load_file: Option<PathBuf>,
    /// Keys to ask for, one after another and again from the first, as --load-file has them
    #[arg(long, value_name = "FILE", requires = "load_file")]
    pub txns_file: Option<PathBuf>,
    /// How long each workload runs
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, default_value = "10")]
    pub seconds: f64,
    /// Threads that perform operations
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub threads: usize,
    /// Directory of the database, empty or missing, kept afterwards [default: a temporary one,
    /// removed]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Memory of the database, e.g. 512M or 2GiB [default: the store's own]. Beside it as much
    /// again is taken to measure what memory itself gives
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    pub memory_bytes: Option<u64>,
    /// What an acknowledged write survives: checkpoint (of hashlog: nothing before the next one),
    /// process (kill -9) or disk (power loss)
    #[arg(long, value_name = "NAME", value_parser = parse_durability, default_value = "process")]
    pub durability: Durability,
    /// Give the index of hashlog room for all keys before they are loaded, so that it does not grow
    #[arg(long)]
    pub presized: bool,
    /// Run each workload twice more on hashlog, the first time with a checkpoint as it begins.
    /// What is done until 10 s after it is compared with what is done without one; no other
    /// checkpoints are taken
    #[arg(long)]
    pub checkpoint: bool,
    /// Seed of every random choice
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    pub seed: u64,
    /// Write the figures as JSON, a sample for each 0.1 s among them
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

impl PointsArgs {
    /// The workloads that were named.
    pub(super) fn workloads(&self) -> Result<Vec<Workload>> {
        self.workload.iter().map(|name| Workload::from_name(name)).collect()
    }

    /// Refuses what the other engine has not.
    pub(super) fn check_engine(&self) -> Result<()> {
        let refused = [(self.presized, "--presized"), (self.checkpoint, "--checkpoint")];
        match refused.into_iter().find(|(is_asked, _)| *is_asked) {
            Some((_, option)) if self.engine.engine == EngineKind::Tree => {
                Err(Error::invalid(format!("{option} is for the engine hashlog: say --engine hashlog")))
            }
            _ => Ok(()),
        }
    }

    /// At least one.
    pub(super) fn threads(&self) -> usize {
        self.threads.max(1)
    }
}
