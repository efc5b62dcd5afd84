//! Compaction as a service beside compaction at home: what CaaS-LSM claims of it, and what is found
//! here.
//!
//! ```text
//!   parts ─► run: databases, each a process (`firn bench`) that measures itself ─► results ─┐
//!     │        └── cluster: control plane, workers, store ─► processor time ─► costs        ├─► verdict ─► report
//!     └─ proxy: a link that is long          simulated: `firn-sim` ────────────────────────┘
//! ```
//! A part that fails is in the report with why; the others run all the same.

mod args; // what was asked for
mod plan; // how much
mod proxy; // a link to another zone
mod cluster; // control plane, workers, store
mod run; // databases under load
mod content; // what they hold in the end
mod verdict; // claims and figures
mod simulated; // what the simulator says
mod stages; // how long jobs take to begin, and what idleness costs
mod parts; // the questions

use std::time::Duration;

use firn_engine::{Error, Result};
use serde::Serialize;

use crate::args::command_line;
use crate::measure::Machine;
use crate::report::{
    Finding, PhaseResult, Report, Verdict, html_with_findings, summary_table, table_text, write_text,
};
use crate::suite::BenchDir;
use parts::Found;
use run::Bench;

pub use args::CaasArgs;
pub use parts::CaasPart;
pub use plan::CaasScale;
pub use run::RunCost;

/// Everything that was found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CaasReport {
    /// Where.
    pub machine: Machine,
    /// How to repeat it.
    pub command: String,
    /// Claims, figures and verdicts; of a part that failed at least one, which says why.
    pub findings: Vec<Finding>,
    /// Processor time of each run, of both sides.
    pub costs: Vec<RunCost>,
    /// What databases measured: `engine` is what compacted, `workload` has the part's name before
    /// it.
    pub results: Vec<PhaseResult>,
}

/// What a reader must know.
const NOTES: [&str; 4] = [
    "Engines are what compacts: local (the database), fixed worker (one, behind a control plane), service (two, or in the part on cores one, by the \
     scheduler of control planes), or in the part on schedulers two workers by another one.",
    "A database's processor time is its process's, which makes the load, too; workers' and control planes' are in the JSON's costs.",
    "Unless a part says otherwise all processes share all processors of the machine: what workers use is then taken from the database.",
    "Verdicts go by how many times it is what it is compared with, each repetition for itself, and the median of that: as claimed, same direction \
     (better than what it is compared with, by less than is claimed), not seen; \
     of our goals that have one, that their floor is reached or missed.",
];

/// Runs the experiment as `args` say: progress on standard error, tables on standard output,
/// reports where they are asked for, anew after each part.
///
/// # Errors
/// `Invalid` if the reports cannot be written, or if a part failed, once they are written.
pub fn run_caas(args: &CaasArgs) -> Result<CaasReport> {
    let machine = Machine::here();
    let dir = BenchDir::new(args.dir.as_deref())?;
    if !dir.is_empty() {
        let what = format!("{} is not empty: name a directory that is, or none", dir.path().display());
        return Err(Error::invalid(what));
    }
    let path = std::path::absolute(dir.path())
        .map_err(|error| Error::invalid("the system does not say where it is").because(error))?;
    eprintln!("{}", machine.line());
    let mut plan = args.scale.plan();
    plan.idle = args.idle.map_or(plan.idle, Duration::from_secs);
    let bench = Bench { args, plan, dir: &path };
    let parts = if args.part.is_empty() { &CaasPart::ALL[..] } else { &args.part };
    let command = command_line();
    let mut report =
        CaasReport { machine, command, findings: Vec::new(), costs: Vec::new(), results: Vec::new() };
    let mut failed = Vec::new();
    for (at, part) in parts.iter().enumerate() {
        eprintln!("part {} of {}, {}: {}", at + 1, parts.len(), part.name(), part.question());
        let mut found = Found::default();
        if let Err(error) = part.run(&bench, &mut found) {
            eprintln!("part {} failed: {error}", part.name());
            found.findings.push(broken(*part, &error));
            failed.push(part.name());
        }
        report.results.append(&mut found.results);
        report.costs.append(&mut found.costs);
        report.findings.append(&mut found.findings);
        // If the next part is ended, after hours perhaps, the parts before it are kept.
        write(args, &report)?;
    }
    print!(
        "{}\n{}\n{}",
        summary_table(&report.results),
        costs_table(&report.costs),
        findings_text(&report.findings)
    );
    if let Some(path) = &args.output.json {
        eprintln!("results: {}", path.display());
    }
    eprintln!("report: {}", args.output.html_path().display());
    match failed.as_slice() {
        [] => Ok(report),
        parts => Err(Error::invalid(format!("failed: {}; the report says why", parts.join(", ")))),
    }
}

/// A part that did not come to its end, as a finding.
fn broken(part: CaasPart, error: &Error) -> Finding {
    let mut figure = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        figure.push_str(&format!(": {error}"));
        cause = error.source();
    }
    let (part, claim) = (part.name().to_owned(), part.question().to_owned());
    Finding { part, claim, figure, verdict: Verdict::Failed }
}

fn findings_text(findings: &[Finding]) -> String {
    let shown = findings.iter().map(|finding| {
        let Finding { part, claim, figure, verdict } = finding;
        format!("{part}: {claim}\n  found: {figure}\n  {}\n", verdict.text())
    });
    shown.collect()
}

fn costs_table(costs: &[RunCost]) -> String {
    if costs.is_empty() {
        return String::new();
    }
    let heading =
        ["part", "compacted by", "run", "databases", "their CPU s", "workers' CPU s", "workers' jobs"];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    rows.extend(costs.iter().map(|cost| {
        vec![
            cost.part.clone(),
            cost.variant.clone(),
            cost.repetition.to_string(),
            cost.databases.to_string(),
            format!("{:.2}", cost.database_cpu_s),
            format!("{:.2}", cost.workers_cpu_s),
            cost.worker_jobs.map_or_else(|| "-".to_owned(), |jobs| jobs.to_string()),
        ]
    }));
    table_text(&rows, 2)
}

fn write(args: &CaasArgs, report: &CaasReport) -> Result<()> {
    if let Some(path) = &args.output.json {
        let text = serde_json::to_string(report)
            .map_err(|error| Error::bug("the report has no JSON form").because(error))?;
        write_text(path, &(text + "\n"))?;
    }
    let head = Report {
        title: "Compaction as a service".to_owned(),
        machine: report.machine.clone(),
        command: report.command.clone(),
        notes: NOTES.map(str::to_owned).into(),
    };
    write_text(&args.output.html_path(), &html_with_findings(&head, &report.findings, &report.results)?)
}

#[cfg(test)]
mod tests;
