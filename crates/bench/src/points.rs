//! FASTER's workloads: keys and values of 8 bytes, single operations, as fast as threads can ask.
//!
//! ```text
//!   keys (drawn, or of a file) ─► load ─► for each workload and distribution:
//!     threads take keys in chunks ─► Blocking session ─► figures per second and per CPU second
//!     the same keys ─► chase: two dependent reads of equal memory, what an index must pay
//!   adds ─► the sums of all values before and after are compared
//!   if asked for: the same with a checkpoint amid
//! ```
//! Operations are counted by chunk and not timed one by one: a clock would cost as much as they do.

mod args;
mod source;
mod key_file;
mod load;
mod phase;
mod chase;
mod checkpoint;
mod result;
#[cfg(test)]
mod tests;

use firn::{EngineSettings, HashSettings, PointDb};
use firn_engine::{Error, Result};

pub use args::PointsArgs;
pub use checkpoint::CheckpointResult;
pub use key_file::process_ycsb;
pub use load::Loaded;
pub use result::PointsResult;

use crate::args::command_line;
use crate::measure::Machine;
use crate::suite::BenchDir;
use chase::Chase;
use phase::{Workload, sum_of};
use source::Source;

/// Loads, runs every workload over every distribution, and checks the sums of what was added;
/// prints a row for each and writes the JSON asked for.
///
/// # Errors
/// `Invalid` for arguments that make no benchmark; `Bug` if a sum is not exact; otherwise whatever
/// the store failed with.
pub fn run_points(args: &PointsArgs) -> Result<Vec<PointsResult>> {
    args.check_engine()?;
    let source = Source::new(args)?;
    let dir = BenchDir::new(args.dir.as_deref())?;
    if !dir.is_empty() {
        return Err(Error::invalid("the directory is not empty: name an empty one"));
    }
    let db = open(args, &source, dir.path())?;
    let machine = Machine::here();
    eprintln!("{}", machine.line());
    eprintln!(
        "{} in {}: {} keys, {} threads",
        args.engine.engine,
        dir.path().display(),
        source.key_count(),
        args.threads()
    );
    let loaded = Loaded::by_writing(&db, &source, args)?;
    println!("{}", loaded.line());
    let chase = fits(args, &source).then(|| Chase::new(db.stats().memory_bytes, args.seed));
    println!("{}", result::HEAD);
    let (mut results, mut checkpoints) = (Vec::new(), Vec::new());
    for distribution in source.distributions(args) {
        let keys = source.draw(distribution, args);
        let beside = chase.as_ref().map(|chase| chase.run(&keys, args));
        for workload in args.workloads()? {
            let before = (workload == Workload::Rmw).then(|| sum_of(&db, &source.all(), args)).transpose()?;
            let measured = phase::run(&db, workload, &keys, args)?;
            if let Some(before) = before {
                check_sum(before, sum_of(&db, &source.all(), args)?, measured.operations)?;
            }
            if args.checkpoint {
                let what = (workload, distribution);
                checkpoints.push(CheckpointResult::of(&db, what, &keys, args, &measured)?);
            }
            let result = PointsResult::new(args, workload, distribution, &source, &measured, beside);
            println!("{}", result.row());
            results.push(result);
        }
    }
    if args.checkpoint {
        println!("{}", checkpoint::HEAD);
        checkpoints.iter().for_each(|result| println!("{}", result.row()));
    }
    db.close()?;
    if let Some(path) = &args.json {
        let command = command_line();
        let (command, machine) = (&command, &machine);
        let written = result::Report { command, machine, loaded, results: &results, checkpoints };
        let text = serde_json::to_string(&written)
            .map_err(|error| Error::bug("a result has no JSON form").because(error))?;
        crate::report::write_text(path, &format!("{text}\n"))?;
    }
    Ok(results)
}

/// Refuses what was added and is not there, or is there and was not added.
fn check_sum(before: u64, after: u64, added: u64) -> Result<()> {
    match after.wrapping_sub(before) {
        found if found == added => Ok(()),
        found => Err(Error::bug(format!("{added} was added to the values, which are {found} more"))),
    }
}

/// Whether keys, values and an index of them fit in memory.
fn fits(args: &PointsArgs, source: &Source) -> bool {
    /// A record of 8 and 8 bytes, and its part of an index.
    const KEY_BYTES: u64 = 50;
    source.key_count() * KEY_BYTES <= args.memory_bytes.unwrap_or(firn::Settings::MEMORY_BYTES_DEFAULT)
}

fn open(args: &PointsArgs, source: &Source, dir: &std::path::Path) -> Result<PointDb> {
    let mut settings = args.memory_bytes.map_or_else(firn::Settings::default, firn::Settings::for_memory);
    settings.durability = args.durability;
    let mut own = HashSettings::for_memory(settings.memory_bytes);
    if args.presized {
        own.index_keys_min = source.key_count();
    }
    if args.checkpoint {
        // None but those that are asked for.
        (own.redo_bytes_max, own.checkpoint_interval_ms) = (1 << 40, 86_400_000);
    }
    PointDb::builder(dir).engine(args.engine.engine).settings(settings).hash_settings(own).open_points()
}
