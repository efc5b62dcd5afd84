//! Command line of the benchmarks, shared by every program that runs them. What loads servers, and
//! each experiment, has its own beside it.

use std::path::PathBuf;

use clap::Args;
use firn::EngineKind;
use firn_engine::settings::parse_bytes;
use firn_engine::{Compression, Durability, Error, Result};

use crate::server::ServerAddress;

/// Where and how stores are opened, and how they are driven.
#[derive(Clone, Debug, Args)]
pub struct RunArgs {
    /// Threads that perform operations [default: 2]
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
    /// Bytes of a value [default: 1024]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    pub value_bytes: Option<u64>,
    /// Begin this many operations per second, all threads together, and count latency from the
    /// intended start (open loop). Those of one thread that are due in the same 0.1 ms begin
    /// together. Without it each thread begins when its last operation is over
    #[arg(long, value_name = "N", value_parser = parse_rate)]
    pub rate: Option<f64>,
    /// End each phase after this many seconds instead of a number of operations (load and fills
    /// excepted)
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    pub seconds: Option<f64>,
    /// Perform operations for this long before each phase other than load and fills, unmeasured
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, default_value = "0")]
    pub warmup_seconds: f64,
    /// Directory of the database, kept afterwards [default: a temporary one, removed]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Memory for buffers and caches together, e.g. 512M or 2GiB [default: the store's own]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    pub memory_bytes: Option<u64>,
    /// Bytes from which on Firn separates values from the tree; 0 = none [default: the store's own]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    pub separate_bytes: Option<u64>,
    /// Bytes of files that Firn may take for each byte of separated values that lives
    /// [default: the store's own]
    #[arg(long, value_name = "N")]
    pub space_amplification_max: Option<f64>,
    /// Bytes that reads must have lost to sorted runs for each byte that Firn rewrites for them
    /// [default: the store's own]
    #[arg(long, value_name = "N")]
    pub read_compaction_price: Option<f64>,
    /// How Firn compresses its last level and its separated values: none, lz4 or zstd
    /// [default: the store's own]
    #[arg(long, value_name = "NAME", value_parser = parse_compression)]
    pub compression: Option<Compression>,
    /// Make values that compress to about this share of their bytes, above 0 up to 1; db_bench's
    /// own is 0.5
    #[arg(long, value_name = "N", value_parser = parse_ratio, default_value = "1")]
    pub compression_ratio: f64,
    /// Socket of a `firn worker` on this machine, which then does Firn's compactions and
    /// blob GCs
    #[arg(long, value_name = "FILE")]
    pub worker: Option<PathBuf>,
    /// What an acknowledged write survives: process (kill -9) or disk (power loss)
    #[arg(long, value_name = "NAME", value_parser = parse_durability, default_value = "process")]
    pub durability: Durability,
    /// Seed of every random choice
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    pub seed: u64,
}

/// Which engine a database of one's own has.
#[derive(Clone, Copy, Debug, Args)]
pub struct EngineArgs {
    /// The engine of the database that is measured: tree, or hashlog, which keeps keys in no order
    #[arg(long, value_name = "NAME", default_value_t = EngineKind::Tree)]
    pub engine: EngineKind,
}

/// Where results go.
#[derive(Clone, Debug, Args)]
pub struct OutputArgs {
    /// Write results as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the report, one self-contained HTML file [default: ./firn-bench.html]
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

impl OutputArgs {
    /// Where the HTML report goes.
    pub fn html_path(&self) -> PathBuf {
        self.html.clone().unwrap_or_else(|| PathBuf::from("firn-bench.html"))
    }
}

/// `bench ycsb`: YCSB's load and mixed workloads.
#[derive(Clone, Debug, Args)]
pub struct YcsbArgs {
    /// Phases, run one after another on one database: load, a, b, c, d, e, f, and run (only what -P
    /// and -p say) [default: load,a,b,c,d,e,f; with -P load,run]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub workload: Vec<String>,
    /// Records loaded [default: 300k]
    #[arg(long, value_name = "N", value_parser = parse_positive)]
    pub records: Option<u64>,
    /// Operations of each phase after load [default: 300k]
    #[arg(long, value_name = "N", value_parser = parse_positive)]
    pub ops: Option<u64>,
    /// Request distribution of all workloads but d, whose own is latest: zipfian, uniform or latest
    #[arg(long, value_name = "NAME", value_parser = ["zipfian", "uniform", "latest"])]
    pub distribution: Option<String>,
    /// Keys that a read of the mixes reads by one call (multi_get), each counted as an operation
    /// and given its share of the call's time
    #[arg(long, value_name = "N", value_parser = parse_positive, default_value_t = 1)]
    pub read_batch: u64,
    #[command(flatten)]
    #[expect(missing_docs, reason = "clap would show the text as help")]
    pub run: RunArgs,
    #[command(flatten)]
    #[expect(missing_docs, reason = "clap would show the text as help")]
    pub output: OutputArgs,
    /// Print status lines and final blocks as YCSB-cpp does
    #[arg(long)]
    pub ycsb_output: bool,
    /// Read a YCSB properties file; may be repeated, later ones win over earlier ones and over the
    /// letters' own
    #[arg(short = 'P', value_name = "FILE")]
    pub property_files: Vec<PathBuf>,
    /// Set one YCSB property; wins over files
    #[arg(short = 'p', value_name = "NAME=VALUE")]
    pub properties: Vec<String>,
}

/// A server instead of a database of one's own.
#[derive(Clone, Debug, Args)]
pub struct ServerArgs {
    /// Measure a server that speaks RESP (firn serve, Redis, Valkey, Kvrocks): resp://host:port or
    /// resp://host:port/db. A record is a string under its key, written with SET and read with GET.
    /// A server has no scans over strings: workloads that scan (e) are left out. Without `load`
    /// among the workloads its records are taken to be there
    #[arg(long, value_name = "URL", conflicts_with_all = ["dir", "memory_bytes", "compression", "durability", "engine"])]
    pub target: Option<ServerAddress>,
    /// Connections of all threads together, a multiple of the threads. A thread uses its own in
    /// turn, and waits for each answer [default: one a thread]
    #[arg(long, value_name = "N", requires = "target")]
    pub connections: Option<usize>,
    /// Records that a load sends before it reads an answer. The workloads themselves wait for each
    /// answer, as YCSB does: pipelines of everything are `bench resp`
    #[arg(long, value_name = "N", requires = "target", default_value_t = 1)]
    pub pipeline: usize,
}

/// `bench db`: the db_bench family.
#[derive(Clone, Debug, Args)]
pub struct DbArgs {
    /// Benchmarks, run one after another: fillseq, fillbatch (in batches of 1000), fillingest (by
    /// bulk ingestion), fillrandom, overwrite, readrandom, readseq, seekrandom, readwhilewriting,
    /// deleterandom; fills begin with an empty store [default: all but fillbatch and fillingest]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub benchmarks: Vec<String>,
    /// Keys are drawn from this many numbers; also the operations of each write benchmark
    #[arg(long, value_name = "N", value_parser = parse_positive, default_value = "300k")]
    pub num: u64,
    /// Operations of each read benchmark [default: as --num]
    #[arg(long, value_name = "N", value_parser = parse_positive)]
    pub reads: Option<u64>,
    /// Bytes of a key, at least 8
    #[arg(long, value_name = "BYTES", default_value_t = 16)]
    pub key_bytes: usize,
    /// Records read after the one each seek lands on
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seek_nexts: usize,
    #[command(flatten)]
    #[expect(missing_docs, reason = "clap would show the text as help")]
    pub run: RunArgs,
    #[command(flatten)]
    #[expect(missing_docs, reason = "clap would show the text as help")]
    pub output: OutputArgs,
}

/// `bench reopen`: opening after a crash.
#[derive(Clone, Debug, Args)]
pub struct ReopenArgs {
    #[command(flatten)]
    #[expect(missing_docs, reason = "clap would show the text as help")]
    pub engine: EngineArgs,
    /// Records that the killed process had loaded
    #[arg(long, value_name = "N", value_parser = parse_positive, default_value = "1M")]
    pub num: u64,
    /// Bytes of a value
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, default_value = "1024")]
    pub value_bytes: u64,
    /// Bytes of a key, at least 8
    #[arg(long, value_name = "BYTES", default_value_t = 16)]
    pub key_bytes: usize,
    /// Threads that load
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub threads: usize,
    /// Directory of the database, empty or missing, kept afterwards [default: a temporary one,
    /// removed]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Seed of values and of the records that are read back
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    pub seed: u64,
    /// Write the figures as one JSON object
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// This is the process that loads and is killed
    #[arg(long, hide = true)]
    pub child: bool,
}

/// `bench keyspaces`: what many of them cost.
#[derive(Clone, Debug, Args)]
pub struct KeyspacesArgs {
    #[command(flatten)]
    #[expect(missing_docs, reason = "clap would show the text as help")]
    pub engine: EngineArgs,
    /// Keyspaces that records are spread over; each run has one with a single keyspace beside it
    #[arg(long, value_name = "N", value_parser = parse_positive, default_value = "1000")]
    pub count: u64,
    /// Records written in each run
    #[arg(long, value_name = "N", value_parser = parse_positive, default_value = "2M")]
    pub num: u64,
    /// Bytes of a value; keys have 8
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, default_value = "100")]
    pub value_bytes: u64,
    /// The memory budget of the database
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, default_value = "64M")]
    pub memory: u64,
    /// Threads that write
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub threads: usize,
    /// How often both are run, in turn
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub repetitions: usize,
    /// Directory for the databases, empty or missing [default: a temporary one, removed]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Seed of values and of the order of keyspaces
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    pub seed: u64,
    /// Write the figures as one JSON array
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// The command that made the results, as a shell would take it.
pub fn command_line() -> String {
    let quoted = |word: String| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=,:+@%".contains(c);
        if !word.is_empty() && word.chars().all(plain) {
            word
        } else {
            format!("'{}'", word.replace('\'', "'\\''"))
        }
    };
    std::env::args().map(quoted).collect::<Vec<_>>().join(" ")
}

/// A number of things: `300000`, `300_000`, `300k`, `2M`.
///
/// # Errors
/// `Invalid` if it is none.
pub fn parse_count(text: &str) -> Result<u64> {
    let refused = || Error::invalid(format!("`{text}` is not a count such as 300000, 300k or 2M"));
    let scales = [("k", 1_000), ("K", 1_000), ("M", 1_000_000), ("G", 1_000_000_000)];
    let scaled = scales.iter().find_map(|(suffix, scale)| Some((text.strip_suffix(suffix)?, *scale)));
    let (number, scale) = scaled.unwrap_or((text, 1));
    let digits = number.trim_end().replace('_', "");
    if let Ok(whole) = digits.parse::<u64>() {
        return whole.checked_mul(scale).ok_or_else(refused);
    }
    match digits.parse::<f64>() {
        Ok(part) if (0.0..1e9).contains(&part) && scale > 1 => Ok((part * scale as f64) as u64),
        _ => Err(refused()),
    }
}

pub(crate) fn parse_positive(text: &str) -> Result<u64> {
    match parse_count(text)? {
        0 => Err(Error::invalid("expected at least 1")),
        count => Ok(count),
    }
}

pub(crate) fn parse_seconds(text: &str) -> Result<f64> {
    match text.strip_suffix('s').unwrap_or(text).parse::<f64>() {
        Ok(seconds) if (0.0..=1e7).contains(&seconds) => Ok(seconds),
        _ => Err(Error::invalid(format!("`{text}` is not a time in seconds"))),
    }
}

pub(crate) fn parse_rate(text: &str) -> Result<f64> {
    let rate = parse_count(text)? as f64;
    if rate > 0.0 { Ok(rate) } else { Err(Error::invalid("a rate is at least 1 operation per second")) }
}

fn parse_ratio(text: &str) -> Result<f64> {
    match text.parse::<f64>() {
        Ok(ratio) if ratio > 0.0 && ratio <= 1.0 => Ok(ratio),
        _ => Err(Error::invalid(format!("`{text}` is not a share above 0 and up to 1"))),
    }
}

/// A compression: `none`, `lz4` or `zstd`.
///
/// # Errors
/// `Invalid` if it is none.
pub fn parse_compression(text: &str) -> Result<Compression> {
    Compression::from_name(text).ok_or_else(|| Error::invalid(format!("`{text}` is not none, lz4 or zstd")))
}

/// A durability: `process` or `disk`.
///
/// # Errors
/// `Invalid` if it is none.
pub fn parse_durability(text: &str) -> Result<Durability> {
    Durability::from_name(text)
        .ok_or_else(|| Error::invalid(format!("`{text}` is not checkpoint, process, disk or shared")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_take_suffixes() {
        assert_eq!(parse_count("300_000").unwrap(), 300_000);
        assert_eq!(parse_count("1.5M").unwrap(), 1_500_000);
    }

    #[test]
    fn what_is_no_number_is_refused_by_its_text() {
        for text in ["", "many", "-1", "1.5", "1e99G", "nanM", "99999999999G"] {
            assert!(parse_count(text).unwrap_err().message().contains(text), "{text}");
        }
        assert!(parse_rate("0").is_err());
        assert!(parse_seconds("-1").is_err());
        assert!(parse_durability("none").is_err());
        assert!(parse_compression("snappy").unwrap_err().message().contains("zstd"));
        assert!(["0", "1.1", "nan", "half"].iter().all(|text| parse_ratio(text).is_err()));
    }
}
