//! A whole benchmark of one store, from arguments to reports.

use firn_engine::Result;

use crate::args::{DbArgs, OutputArgs, RunArgs, YcsbArgs};
use crate::measure::Machine;
use crate::progress::watcher;
use crate::report::{PhaseResult, Report, final_block, summary_table, write_html, write_json};
use crate::suite::{BenchDir, DbSuite, Store, Suite, YcsbSuite};
use crate::target::TargetFactory;

/// Runs YCSB as `args` say, with progress on standard error, a summary on standard output and the reports asked
/// for; returns the results.
///
/// # Errors
/// `Invalid` for arguments that make no benchmark; otherwise whatever the store failed with.
pub fn run_ycsb(args: &YcsbArgs, factory: &dyn TargetFactory) -> Result<Vec<PhaseResult>> {
    let dir = BenchDir::new(args.run.dir.as_deref())?;
    let mut suite = YcsbSuite::new(args, !dir.is_empty())?;
    run(&mut suite, &dir, &args.run, &args.output, args.ycsb_output, factory)
}

/// Runs the db_bench family as `args` say; otherwise as [`run_ycsb`].
///
/// # Errors
/// As [`run_ycsb`].
pub fn run_db(args: &DbArgs, factory: &dyn TargetFactory) -> Result<Vec<PhaseResult>> {
    let dir = BenchDir::new(args.run.dir.as_deref())?;
    let mut suite = DbSuite::new(args, !dir.is_empty())?;
    run(&mut suite, &dir, &args.run, &args.output, false, factory)
}

fn run(
    suite: &mut dyn Suite,
    dir: &BenchDir,
    run: &RunArgs,
    output: &OutputArgs,
    ycsb_output: bool,
    factory: &dyn TargetFactory,
) -> Result<Vec<PhaseResult>> {
    let machine = Machine::here();
    let steps = suite.steps();
    eprintln!("{}", machine.line());
    eprintln!(
        "{} in {}{}: {} (seed {})",
        factory.name(),
        dir.path().display(),
        if dir.is_temporary() { ", removed afterwards" } else { "" },
        steps.join(", "),
        run.seed,
    );
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
    let report = Report {
        title: format!("{} benchmark", factory.name()),
        machine,
        command: command_line(),
        notes: Vec::new(),
    };
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
