//! `firn bench`: how fast this machine is with Firn.

use clap::Subcommand;
use firn_bench::args::{DbArgs, ReopenArgs, RespArgs, ServerArgs, SpaceArgs, YcsbArgs};
use firn_bench::target::{FirnFactory, RespFactory};
use firn_bench::{run_db, run_reopen, run_resp, run_space, run_ycsb};
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

/// What `bench resp --help` ends with.
const RESP_EXAMPLES: &str = "\
Examples:
  firn bench resp --load --pid $(pidof firn)                  GET and SET on port 6379, server time by request
  firn bench resp --commands get --load --pipeline 64         what one server thread can do
  firn bench resp --rate 20k --seconds 30                     latency at a rate the server can keep
  firn bench resp --load --repetitions 5 --compare firn=resp://127.0.0.1:6379,1234 redis=resp://127.0.0.1:6380,5678";

#[derive(Subcommand)]
enum Suite {
    /// YCSB: load, then workloads A to F; on a database of its own, or on a server (--target)
    Ycsb(Ycsb),
    /// The db_bench family: fillseq, fillrandom, overwrite, readrandom, seekrandom, readwhilewriting…
    Db(DbArgs),
    /// A server that speaks RESP under load: throughput, latency, processor time of both sides; comparisons
    #[command(after_help = RESP_EXAMPLES)]
    Resp(RespArgs),
    /// Opening after kill -9 with everything in the log: seconds, GiB/s, records/s
    Reopen(ReopenArgs),
    /// One question each, answered by several runs and beside what theory says
    #[command(subcommand)]
    Experiment(Experiment),
}

#[derive(Subcommand)]
enum Experiment {
    /// How much is written for how little space, values beside the tree: the curve from 1.15 to 2.0, and a model's
    Space(SpaceArgs),
}

#[derive(clap::Args)]
struct Ycsb {
    #[command(flatten)]
    ycsb: YcsbArgs,
    #[command(flatten)]
    server: ServerArgs,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Ending> {
    let factory = FirnFactory::new();
    let results = match &arguments.suite {
        Suite::Ycsb(Ycsb { ycsb, server }) => match &server.target {
            None => run_ycsb(ycsb, &factory).map(drop),
            Some(address) => {
                let server = RespFactory::new(address.clone(), server.connections, server.pipeline);
                run_ycsb(ycsb, &server).map(drop)
            }
        },
        Suite::Db(arguments) => run_db(arguments, &factory).map(drop),
        Suite::Resp(arguments) => run_resp(arguments).map(drop),
        Suite::Reopen(arguments) => run_reopen(arguments),
        Suite::Experiment(Experiment::Space(arguments)) => run_space(arguments, &factory).map(drop),
    };
    match results {
        Ok(()) => Ok(Ending::Done),
        Err(error) if error.kind() == ErrorKind::Invalid => {
            Err(Failure::new(Ending::Usage, error.to_string()))
        }
        Err(error) => Err(Failure::engine(&error)),
    }
}
