//! The report: one HTML file with its style and its plots inside, readable in light and dark.

use std::path::Path;

use askama::Template;
use firn_engine::{Error, Result};

use super::PhaseResult;
use super::finding::Finding;
use super::json::write_text;
use super::summary::figure;
use crate::measure::Machine;

mod bars;
mod cells;
mod lines;
mod over_time;
mod ranges;
mod scale;
mod space;
#[cfg(test)]
mod tests;

pub use cells::{Cells, Spread};

/// What a report says beside its results.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Heading.
    pub title: String,
    /// Where the results were made.
    pub machine: Machine,
    /// How to repeat them.
    pub command: String,
    /// What a reader must know to read them rightly, a sentence each.
    pub notes: Vec<String>,
}

/// Writes the report of `results` to `path`, replacing the file.
///
/// # Errors
/// `Invalid` if the file cannot be written.
pub fn write_html(path: &Path, report: &Report, results: &[PhaseResult]) -> Result<()> {
    write_text(path, &html(report, results)?)
}

/// The report as text.
///
/// # Errors
/// `Bug` if the page's template fails.
pub fn html(report: &Report, results: &[PhaseResult]) -> Result<String> {
    html_with_findings(report, &[], results)
}

/// The same, with claims and what was found of them above the plots.
///
/// # Errors
/// As [`html`].
pub(crate) fn html_with_findings(
    report: &Report,
    findings: &[Finding],
    results: &[PhaseResult],
) -> Result<String> {
    let cells = Cells::new(results);
    let page = Page {
        report,
        findings,
        machine: report.machine.line(),
        legend: legend(&cells),
        sections: sections(&cells),
        columns: TABLE.iter().map(|column| column.0).collect(),
        rows: rows(results),
        settings: settings(&cells),
    };
    page.render().map_err(|error| Error::bug("the report's template failed").because(error))
}

#[derive(Template)]
#[template(path = "report.html")]
struct Page<'r> {
    report: &'r Report,
    findings: &'r [Finding],
    machine: String,
    legend: Vec<Mark>,
    sections: Vec<Section>,
    columns: Vec<&'static str>,
    rows: Vec<Vec<String>>,
    settings: Vec<EngineSettings>,
}

/// An engine and its colour, an index into the page's palette.
struct Mark {
    name: String,
    colour: usize,
}

struct Section {
    title: &'static str,
    note: String,
    /// Whether its panels are wide.
    wide: bool,
    panels: Vec<Panel>,
}

struct Panel {
    title: String,
    svg: String,
}

struct EngineSettings {
    name: String,
    pairs: Vec<(String, String)>,
}

/// A column of the large table.
type Column = (&'static str, fn(&PhaseResult) -> String);

const TABLE: [Column; 19] = [
    ("engine", |result| result.context.engine.clone()),
    ("workload", |result| result.context.workload.clone()),
    ("run", |result| result.context.repetition.to_string()),
    ("ops/s", |result| format!("{:.0}", result.ops_per_s)),
    ("ops/s drained", |result| format!("{:.0}", result.ops_per_s_drained)),
    ("p50 µs", |result| figure(result.p50_us)),
    ("p99 µs", |result| figure(result.p99_us)),
    ("p99.9 µs", |result| figure(result.p999_us)),
    ("max ms", |result| figure(result.max_us / 1e3)),
    ("CPU µs/op", |result| figure(result.cpu_us_per_op)),
    ("stopped s", |result| figure(result.stall_s)),
    ("slowed s", |result| figure(result.slowdown_s)),
    ("drain s", |result| figure(result.drain_s)),
    ("written MiB", |result| figure(mib(result.bytes_written))),
    ("read MiB", |result| figure(mib(result.bytes_read))),
    ("write amp.", |result| result.write_amplification.map_or_else(|| "–".to_owned(), figure)),
    ("space amp.", |result| result.space_amplification.map_or_else(|| "–".to_owned(), figure)),
    ("peak MiB", |result| figure(mib(result.rss_peak_bytes))),
    ("others CPU %", |result| figure(result.other_cpu_share * 100.0)),
];

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

fn rows(results: &[PhaseResult]) -> Vec<Vec<String>> {
    results.iter().map(|result| TABLE.iter().map(|column| column.1(result)).collect()).collect()
}

fn legend(cells: &Cells<'_>) -> Vec<Mark> {
    let engines = cells.engines();
    if engines.len() < 2 {
        return Vec::new();
    }
    engines.iter().enumerate().map(|(colour, name)| Mark { name: (*name).to_owned(), colour }).collect()
}

fn settings(cells: &Cells<'_>) -> Vec<EngineSettings> {
    cells
        .engines()
        .iter()
        .filter_map(|name| {
            let result = cells.all().find(|result| result.context.engine == *name)?;
            let mut pairs: Vec<(String, String)> = result.context.settings.clone().into_iter().collect();
            pairs.push(("threads".to_owned(), result.context.threads.to_string()));
            pairs.push(("key bytes".to_owned(), result.context.key_bytes.to_string()));
            pairs.push(("value bytes".to_owned(), result.context.value_bytes.to_string()));
            Some(EngineSettings { name: (*name).to_owned(), pairs })
        })
        .collect()
}

fn sections(cells: &Cells<'_>) -> Vec<Section> {
    let mut sections = vec![
        Section {
            title: "Throughput",
            note: format!("Thousand operations per second while operations ran{}.", spread_note(cells)),
            wide: false,
            panels: bars::panels(cells, |result| Some(result.ops_per_s / 1e3)),
        },
        Section {
            title: "Latency",
            note: "From the median over the 99th and 99.9th percentile to the longest; logarithmic.".to_owned(),
            wide: false,
            panels: ranges::panels(cells),
        },
        Section {
            title: "Over time",
            note: "Above: thousand operations per second. Below: the longest latency of each interval, logarithmic."
                .to_owned(),
            wide: true,
            panels: lines::panels(cells),
        },
        Section {
            title: "Processor time",
            note: "Microseconds per operation, background work and the final drain included.".to_owned(),
            wide: false,
            panels: bars::panels(cells, |result| Some(result.cpu_us_per_op)),
        },
        Section {
            title: "Write amplification",
            note: "Bytes the engine wrote by bytes of keys and values it was given, drained.".to_owned(),
            wide: false,
            panels: bars::panels(cells, |result| result.write_amplification),
        },
        Section {
            title: "Space amplification",
            note: "Bytes on disk by bytes of live keys and values, after the phase.".to_owned(),
            wide: false,
            panels: bars::panels(cells, |result| result.space_amplification),
        },
        Section {
            title: "Space over time",
            note: "GiB on disk while operations ran, logs and what waits to be removed included.".to_owned(),
            wide: true,
            panels: space::panels(cells),
        },
    ];
    sections.retain(|section| !section.panels.is_empty());
    sections
}

fn spread_note(cells: &Cells<'_>) -> &'static str {
    if cells.repetitions() > 1 {
        "; bars are medians, whiskers the slowest and fastest repetition"
    } else {
        ""
    }
}

/// `text` with what HTML takes for markup replaced.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
