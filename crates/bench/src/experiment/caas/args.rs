//! Command line of the experiment on compaction as a service.

use std::path::PathBuf;

use clap::Args;

use super::{CaasPart, CaasScale};
use crate::args::OutputArgs;

/// `bench experiment caas`: compaction here, by one worker, by a service.
#[derive(Clone, Debug, Args)]
pub struct CaasArgs {
    /// How much is written, and how often it is repeated
    #[arg(long, value_name = "NAME", default_value = "small")]
    pub scale: CaasScale,
    /// Which parts, one after another [default: all]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub part: Vec<CaasPart>,
    /// Directory for databases and logs, kept afterwards [default: a temporary one, removed]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// The program `firn-s3-server`, which is the store of the parts `zones` and `stages` [default:
    /// beside this program]
    #[arg(long, value_name = "FILE")]
    pub store_server: Option<PathBuf>,
    /// The program `firn-sim`, which gives the simulated figures [default: beside this program]
    #[arg(long, value_name = "FILE")]
    pub simulator: Option<PathBuf>,
    /// Seconds for which it is watched what is asked while nothing is to do [default: 10, at medium
    /// scale 60]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub idle: Option<u64>,
    /// Seed of every random choice
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    pub seed: u64,
    #[command(flatten)]
    #[expect(missing_docs, reason = "clap would show the text as help")]
    pub output: OutputArgs,
}
