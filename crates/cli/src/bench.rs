//! `firn bench`: how fast this machine is with Firn.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use clap::Subcommand;
use firn_bench::args::{DbArgs, EngineArgs, KeyspacesArgs, ReopenArgs, ServerArgs, YcsbArgs};
use firn_bench::experiment::{CaasArgs, SpaceArgs};
use firn_bench::points::PointsArgs;
use firn_bench::queues::QueuesArgs;
use firn_bench::resp::RespArgs;
use firn_bench::suite::remove_temporary_directories;
use firn_bench::target::{FirnFactory, RespFactory};
use firn_bench::{
    process_ycsb, run_caas, run_db, run_keyspaces, run_points, run_queues, run_reopen, run_resp, run_space,
    run_ycsb,
};
use firn_engine::{Error, ErrorKind};
use firn_storage::ThreadSpawn;

use crate::access::Access;
use crate::ending::{Ending, Failure, Result};
use crate::output::announce;
use crate::service::{Reach, WEIGHT, parse_tenant, parse_weight, remote};
use crate::shared_storage::{SharedName, SharedStorage};
use crate::signals;
use crate::store_rates::StoreRates;
use crate::tls::ClientFiles;

/// Measure Firn on this machine, with progress, a summary and an HTML report.
///
/// Workloads are those of YCSB and of db_bench. Write phases end drained, and the time that takes
/// is reported.
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

/// What `bench queues --help` ends with.
const QUEUES_EXAMPLES: &str = "\
Examples:
  firn bench queues --compare redis=resp://127.0.0.1:6379 firn=resp://127.0.0.1:6380
  firn bench queues --compare firn=resp://127.0.0.1:6380 --workloads sorted-set --rounds 10M     a steady queue for long";

/// What `bench points --help` ends with.
const POINTS_EXAMPLES: &str = "\
Examples:
  firn bench points --engine hashlog --records 20M --memory-bytes 2G
  firn bench ycsb process-ycsb load.txt load.keys             of what `ycsb load basic -P workloads/workloada` printed
  firn bench points --engine hashlog --load-file load.keys --txns-file run.keys";

#[derive(Subcommand)]
enum Suite {
    /// YCSB: load, then workloads A to F; on a database of its own, or on a server (--target)
    Ycsb(Ycsb),
    /// The db_bench family: fillseq, fillrandom, overwrite, readrandom, seekrandom,
    /// readwhilewriting, ...
    Db(Db),
    /// A server that speaks RESP under load, of either engine: throughput, latency, processor time
    /// of both sides; comparisons
    #[command(after_help = RESP_EXAMPLES)]
    Resp(RespArgs),
    /// Queues on servers, whose elements are removed as fast as they come: whether the last rounds
    /// cost what the first did. Sorted sets and lists need keys in order: Redis, or the engine tree
    #[command(after_help = QUEUES_EXAMPLES)]
    Queues(QueuesArgs),
    /// FASTER's workloads: keys and values of 8 bytes, read, half written, added to; per second of
    /// processor time, beside what memory itself gives
    #[command(after_help = POINTS_EXAMPLES)]
    Points(PointsArgs),
    /// Opening after kill -9 with everything in the log: seconds, GiB/s, records/s
    Reopen(ReopenArgs),
    /// Records spread over many keyspaces beside as many in one: rate, memory, descriptors, opening
    /// again
    Keyspaces(KeyspacesArgs),
    /// One question each, answered by several runs and beside what theory says
    #[command(subcommand)]
    Experiment(Experiment),
}

#[derive(Subcommand)]
enum Experiment {
    /// How much is written for how little space, separated values: the curve from 1.15 to
    /// 2.0, and a model's. Of the engine tree, which alone separates values
    Space(SpaceArgs),
    /// Compactions by the database, by one worker, by a service: throughput, latency, processor
    /// time; schedulers, zones, equal processors. Of the engine tree, whose compactions are jobs
    Caas(CaasArgs),
}

#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
struct Ycsb {
    #[command(subcommand)]
    command: Option<YcsbCommand>,
    #[command(flatten)]
    ycsb: YcsbArgs,
    #[command(flatten)]
    engine: EngineArgs,
    #[command(flatten)]
    server: ServerArgs,
    #[command(flatten)]
    service: ServiceArgs,
}

#[derive(Subcommand)]
enum YcsbCommand {
    /// Make a file of keys for `bench points` of the operations that YCSB printed
    ///
    /// YCSB's own database `basic` prints each operation: `ycsb load basic -P workloads/workloada`,
    /// `ycsb run basic ...`. The file has 8 bytes for each key, the lowest first.
    ProcessYcsb {
        /// What YCSB printed.
        #[arg(value_name = "FROM")]
        from: PathBuf,
        /// The file of keys.
        #[arg(value_name = "TO")]
        to: PathBuf,
    },
}

#[derive(clap::Args)]
struct Db {
    #[command(flatten)]
    db: DbArgs,
    #[command(flatten)]
    engine: EngineArgs,
    #[command(flatten)]
    service: ServiceArgs,
}

/// Where the tables of a database that is measured lie, and which workers compact them.
#[derive(clap::Args, Clone)]
struct ServiceArgs {
    /// http://HOST:PORT of a `firn control-plane`, whose workers then do Firn's compactions and
    /// blob GCs
    #[arg(long, value_name = "URL,...", conflicts_with = "worker")]
    control_plane: Option<String>,
    /// Where Firn's tables, sealed blob segments and manifest lie, if that is not the directory:
    /// another one, s3://BUCKET/PREFIX, ...
    #[arg(long, value_name = "LOCATION")]
    shared: Option<String>,
    /// How much an object store is asked in a second, at most, as `firn serve --store-rates` has
    /// it: reads=500,write-bytes=20M
    #[arg(long, value_name = "RATES", requires = "shared")]
    store_rates: Option<StoreRates>,
    /// Whose share of the workers the jobs count to [default: the location's own]
    #[arg(long, value_name = "NAME", requires = "control_plane", value_parser = parse_tenant)]
    tenant: Option<String>,
    /// How much that share weighs, 0.001 to 1000: of two that wait, twice the weight is twice the
    /// share
    #[arg(long, value_name = "N", requires = "control_plane", value_parser = parse_weight)]
    weight: Option<f64>,
}

impl ServiceArgs {
    /// Databases that are told of both.
    fn factory(&self, engine: EngineArgs) -> FirnFactory {
        let service = self.clone();
        FirnFactory::of(engine.engine).prepared_by(move |builder, options| {
            let failed = |failure: Failure| Error::invalid(failure.to_string());
            let name = SharedName { shared: service.shared.clone(), store_rates: service.store_rates };
            let shared = SharedStorage { name, ..SharedStorage::default() };
            let builder = shared.set(builder, Access::Create).map_err(failed)?;
            let Some(control_planes) = &service.control_plane else { return Ok(builder) };
            let location = service.shared.clone().unwrap_or_else(|| options.dir.display().to_string());
            let tls = ClientFiles::default();
            let (tenant, weight) = (service.tenant.as_deref(), service.weight.unwrap_or(WEIGHT));
            let reach = Reach { control_planes, token_file: None, tls, zone: None, tenant, weight };
            let remote = remote(&location, &reach).map_err(failed)?;
            Ok(builder.executor(Arc::new(remote)))
        })
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<Ending> {
    let is_ended = signals::end_after(&ThreadSpawn::new(), remove_temporary_directories)?;
    let results = match &arguments.suite {
        Suite::Ycsb(Ycsb { command: Some(YcsbCommand::ProcessYcsb { from, to }), .. }) => {
            process_ycsb(from, to).map(|count| {
                let keys = if count == 1 { "key" } else { "keys" };
                announce(format_args!("{} holds {count} {keys}", to.display()));
            })
        }
        Suite::Ycsb(Ycsb { command: None, ycsb, engine, server, service }) => match &server.target {
            None => run_ycsb(ycsb, &service.factory(*engine)).map(drop),
            Some(address) => {
                let server = RespFactory::new(address.clone(), server.connections, server.pipeline);
                run_ycsb(ycsb, &server).map(drop)
            }
        },
        Suite::Db(Db { db, engine, service }) => run_db(db, &service.factory(*engine)).map(drop),
        Suite::Points(arguments) => run_points(arguments).map(drop),
        Suite::Resp(arguments) => run_resp(arguments).map(drop),
        Suite::Queues(arguments) => run_queues(arguments).map(drop),
        Suite::Reopen(arguments) => run_reopen(arguments),
        Suite::Keyspaces(arguments) => run_keyspaces(arguments),
        Suite::Experiment(Experiment::Space(arguments)) => {
            run_space(arguments, &FirnFactory::new()).map(drop)
        }
        Suite::Experiment(Experiment::Caas(arguments)) => run_caas(arguments).map(drop),
    };
    while is_ended.load(Ordering::Acquire) {
        // The signal ends the process any moment; what failed did for that.
        std::thread::park();
    }
    match results {
        Ok(()) => Ok(Ending::Done),
        Err(error) if error.kind() == ErrorKind::Invalid => {
            Err(Failure::new(Ending::Usage, error.to_string()))
        }
        Err(error) => Err(Failure::engine(&error)),
    }
}
