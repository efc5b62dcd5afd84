//! Command line of the experiment on space.

use std::path::PathBuf;

use clap::Args;
use firn_engine::settings::parse_bytes;

use super::Scale;
use crate::args::parse_positive;

/// `bench experiment space`: writing against space.
#[derive(Clone, Debug, Args)]
pub struct SpaceArgs {
    /// How much is written
    #[arg(long, value_name = "NAME", default_value = "small")]
    pub scale: Scale,
    /// Bytes of a value
    #[arg(long, value_name = "BYTES", value_parser = parse_positive, default_value = "4096")]
    pub value_bytes: u64,
    /// Threads that overwrite
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub threads: usize,
    /// Memory for buffers and caches together [default: an eighth of the data]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    pub memory_bytes: Option<u64>,
    /// Seed of every random choice
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    pub seed: u64,
    /// Write the points as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}
