//! `firn bench`: how fast this machine is with Firn.

use clap::Subcommand;
use firn_bench::args::{DbArgs, ReopenArgs, YcsbArgs};
use firn_bench::target::FirnFactory;
use firn_bench::{run_db, run_reopen, run_ycsb};
use firn_engine::ErrorKind;

use crate::ending::{Ending, Failure, Result};

/// Measure Firn on this machine, with progress, a summary and an HTML report.
///
/// Workloads are those of YCSB and of db_bench. Write phases end drained, and the time that takes is reported.
#[derive(clap::Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    suite: Suite,
}

#[derive(Subcommand)]
enum Suite {
    /// YCSB: load, then workloads A to F
    Ycsb(YcsbArgs),
    /// The db_bench family: fillseq, fillrandom, overwrite, readrandom, seekrandom, readwhilewriting…
    Db(DbArgs),
    /// Opening after kill -9 with everything in the log: seconds, GiB/s, records/s
    Reopen(ReopenArgs),
}

pub(crate) fn run(arguments: &Arguments) -> Result<Ending> {
    let factory = FirnFactory::new();
    let results = match &arguments.suite {
        Suite::Ycsb(arguments) => run_ycsb(arguments, &factory).map(drop),
        Suite::Db(arguments) => run_db(arguments, &factory).map(drop),
        Suite::Reopen(arguments) => run_reopen(arguments),
    };
    match results {
        Ok(()) => Ok(Ending::Done),
        Err(error) if error.kind() == ErrorKind::Invalid => {
            Err(Failure::new(Ending::Usage, error.to_string()))
        }
        Err(error) => Err(Failure::engine(&error)),
    }
}
