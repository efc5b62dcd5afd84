//! A whole benchmark of one store, from arguments to reports.

use firn_engine::Result;

use crate::args::{DbArgs, OutputArgs, RunArgs, YcsbArgs, command_line};
use crate::measure::Machine;
use crate::progress::watcher;
use crate::report::{PhaseResult, Report, final_block, summary_table, write_html, write_json};
use crate::suite::{BenchDir, DbSuite, Store, Suite, YcsbSuite};
use crate::target::TargetFactory;

/// Runs YCSB as `args` say, with progress on standard error, a summary on standard output and the
/// reports asked for; returns the results.
///
/// # Errors
/// `Invalid` for arguments that make no benchmark; otherwise whatever the store failed with.
pub fn run_ycsb(args: &YcsbArgs, factory: &dyn TargetFactory) -> Result<Vec<PhaseResult>> {
    if factory.is_server() {
        return run_ycsb_on_server(args, factory);
    }
    let dir = BenchDir::new(args.run.dir.as_deref())?;
    let mut suite = YcsbSuite::new(args, !dir.is_empty())?;
    let left_out = match factory.keeps_order() {
        true => Vec::new(),
        false => suite.leave_out_order(args, factory.name())?,
    };
    run(&mut suite, &dir, &args.run, &args.output, args.ycsb_output, factory, without_order(&left_out))
}

/// What a reader must know of results that a server gave.
const SERVER_NOTES: [&str; 2] = [
    "Processor time and memory are those of the client, not of the server; nothing is known of the server's disk.",
    "The server was not told to drain: work that it left for later is not in these figures.",
];

/// A server's records are its own business: they are loaded if `load` is asked for, and otherwise
/// taken to be there.
fn run_ycsb_on_server(args: &YcsbArgs, factory: &dyn TargetFactory) -> Result<Vec<PhaseResult>> {
    let loads =
        args.workload.is_empty() || args.workload.iter().any(|name| name.eq_ignore_ascii_case("load"));
    let mut suite = YcsbSuite::new(args, !loads)?;
    let left_out = suite.leave_out_scans()?;
    let mut notes: Vec<String> = SERVER_NOTES.map(str::to_owned).into();
    if !left_out.is_empty() {
        notes.push(format!(
            "Left out: {}, which scans. The target has no scans over strings.",
            left_out.join(", ")
        ));
    }
    // The suite wants a place; a server leaves it empty.
    let dir = BenchDir::new(None)?;
    run(&mut suite, &dir, &args.run, &args.output, args.ycsb_output, factory, notes)
}

/// Runs the db_bench family as `args` say; otherwise as [`run_ycsb`].
///
/// # Errors
/// As [`run_ycsb`].
pub fn run_db(args: &DbArgs, factory: &dyn TargetFactory) -> Result<Vec<PhaseResult>> {
    let dir = BenchDir::new(args.run.dir.as_deref())?;
    let mut suite = DbSuite::new(args, !dir.is_empty())?;
    let left_out = match factory.keeps_order() {
        true => Vec::new(),
        false => suite.leave_out_order(args, factory.name())?,
    };
    run(&mut suite, &dir, &args.run, &args.output, false, factory, without_order(&left_out))
}

/// What a reader must know of what was left out.
fn without_order(left_out: &[String]) -> Vec<String> {
    match left_out.is_empty() {
        true => Vec::new(),
        false => vec![format!("Left out: {}. This engine keeps keys in no order.", left_out.join(", "))],
    }
}

fn run(
    suite: &mut dyn Suite,
    dir: &BenchDir,
    run: &RunArgs,
    output: &OutputArgs,
    ycsb_output: bool,
    factory: &dyn TargetFactory,
    notes: Vec<String>,
) -> Result<Vec<PhaseResult>> {
    let machine = Machine::here();
    let steps = suite.steps();
    eprintln!("{}", machine.line());
    let place = match (factory.is_server(), dir.is_temporary()) {
        (true, _) => String::new(),
        (false, true) => format!(" in {}, removed afterwards", dir.path().display()),
        (false, false) => format!(" in {}", dir.path().display()),
    };
    eprintln!("{}{place}: {} (seed {})", factory.name(), steps.join(", "), run.seed);
    notes.iter().for_each(|note| eprintln!("{note}"));
    let mut store = Store::new(factory, suite.open_options(dir.path()));
    let mut watcher = watcher(ycsb_output);
    let mut results = Vec::new();
    for step in 0..steps.len() {
        let result = suite.run_step(step, &mut store, watcher.as_mut())?;
        if ycsb_output {
            print!("{}", final_block(&result));
        } else {
            eprintln!("{}", step_line(&result));
        }
        results.push(result);
    }
    store.close()?;
    if !ycsb_output {
        print!("\n{}", summary_table(&results));
    }
    if let Some(path) = &output.json {
        write_json(path, &results)?;
        eprintln!("results: {}", path.display());
    }
    let report =
        Report { title: format!("{} benchmark", factory.name()), machine, command: command_line(), notes };
    let path = output.html_path();
    write_html(&path, &report, &results)?;
    eprintln!("report: {}", path.display());
    Ok(results)
}

/// One phase in one line.
fn step_line(result: &PhaseResult) -> String {
    let drain =
        if result.drain_s > 0.0 { format!(" + {:.1} s drain", result.drain_s) } else { String::new() };
    format!(
        "{:>16}  {:>9.0} ops/s  p50 {:.1} us  p99 {:.1} us  max {:.1} ms  ({} operations in {:.1} s{drain})",
        result.context.workload,
        result.ops_per_s,
        result.p50_us,
        result.p99_us,
        result.max_us / 1e3,
        result.operations,
        result.run_s,
    )
}
