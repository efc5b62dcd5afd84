//! Command line of the queues on servers.

use std::path::PathBuf;

use clap::Args;

use super::QueueWorkload;
use crate::args::parse_positive;
use crate::resp::Contender;

/// `bench queues`: data that is removed as fast as it comes.
#[derive(Clone, Debug, Args)]
pub struct QueuesArgs {
    /// Servers: NAME=resp://host:port; the first is what the others are held against. Each must be
    /// empty, and is left empty
    #[arg(long, value_name = "NAME=URL", num_args = 1.., required = true)]
    pub compare: Vec<Contender>,
    /// What is done, one after another
    #[arg(
        long,
        value_name = "NAME,...",
        value_enum,
        value_delimiter = ',',
        default_value = "drain,sorted-set,list,scan,randomkey"
    )]
    pub workloads: Vec<QueueWorkload>,
    /// Rounds of each workload on each server; the first and the last tenth of them are compared
    #[arg(long, value_name = "N", value_parser = parse_positive, default_value = "100k")]
    pub rounds: u64,
    /// Rounds whose requests are sent together before their answers are read; each is measured
    #[arg(long, value_name = "N,...", value_parser = parse_positive, value_delimiter = ',', default_value = "1,16")]
    pub depths: Vec<u64>,
    /// Elements, or keys, that are there at any time
    #[arg(long, value_name = "N", value_parser = parse_positive, default_value = "50")]
    pub length: u64,
    /// How often each workload runs on each server, in turn; medians are told
    #[arg(long, value_name = "N", value_parser = parse_positive, default_value = "1")]
    pub repetitions: u64,
    /// Write the figures as one JSON array
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}
