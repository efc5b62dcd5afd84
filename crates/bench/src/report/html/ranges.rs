//! Latency percentiles as points on a logarithmic line, one row per engine or per workload.

use std::fmt::Write;

use super::cells::Cells;
use super::scale::{Scale, time_text};
use super::{Panel, escaped};
use crate::report::PhaseResult;

const WIDTH: f64 = 440.0;
const LABEL: f64 = 106.0;
const RIGHT: f64 = 28.0;
const ROW: f64 = 24.0;
const AXIS: f64 = 20.0;

/// The percentiles shown: name and measure.
type Percentile = (&'static str, fn(&PhaseResult) -> f64);

const SHOWN: [Percentile; 4] = [
    ("p50", |result| result.p50_us),
    ("p99", |result| result.p99_us),
    ("p99.9", |result| result.p999_us),
    ("max", |result| result.max_us),
];

struct Range {
    label: String,
    colour: usize,
    us: [f64; SHOWN.len()],
}

/// A panel per workload with a row per engine; for one engine a single panel with a row per
/// workload.
pub(super) fn panels(cells: &Cells<'_>) -> Vec<Panel> {
    let range = |label: &str, colour: usize, engine: &str, workload: &str| {
        let mut us = [0.0; SHOWN.len()];
        for (out, (_, measure)) in us.iter_mut().zip(SHOWN) {
            *out = cells.spread(engine, workload, |result| Some(measure(result)))?.median;
        }
        Some(Range { label: label.to_owned(), colour, us })
    };
    if let [engine] = cells.engines() {
        let rows: Vec<Range> =
            cells.workloads().iter().filter_map(|workload| range(workload, 0, engine, workload)).collect();
        return panel(String::new(), &rows).into_iter().collect();
    }
    cells
        .workloads()
        .iter()
        .filter_map(|workload| {
            let rows: Vec<Range> = cells
                .engines()
                .iter()
                .enumerate()
                .filter_map(|(colour, engine)| range(engine, colour, engine, workload))
                .collect();
            panel((*workload).to_owned(), &rows)
        })
        .collect()
}

fn panel(title: String, rows: &[Range]) -> Option<Panel> {
    (!rows.is_empty()).then(|| Panel { title, svg: chart(rows) })
}

fn chart(rows: &[Range]) -> String {
    let all = || rows.iter().flat_map(|row| row.us);
    let scale = Scale::decades(all().fold(f64::INFINITY, f64::min), all().fold(0.0, f64::max));
    let x = |us: f64| LABEL + scale.place(us) * (WIDTH - LABEL - RIGHT);
    let (plot, height) = (rows.len() as f64 * ROW, rows.len() as f64 * ROW + AXIS);
    let mut svg = format!(r#"<svg viewBox="0 0 {WIDTH} {height}" role="img">"#);
    for tick in &scale.ticks {
        let at = x(*tick);
        let _ = write!(
            svg,
            r#"<path class="grid" d="M{at:.1} 0V{plot}"/><text class="tick" x="{at:.1}" y="{ty}">{text}</text>"#,
            ty = height - 5.0,
            text = time_text(*tick),
        );
    }
    for (index, row) in rows.iter().enumerate() {
        let middle = (index as f64 + 0.5) * ROW;
        let (from, to) = (x(row.us[0]), x(row.us[SHOWN.len() - 1]));
        let _ = write!(
            svg,
            r#"<text class="label" x="{lx}" y="{ty}">{label}</text><path class="range s{colour}" d="M{from:.1} {middle}H{to:.1}"/>"#,
            lx = LABEL - 8.0,
            ty = middle + 4.0,
            label = escaped(&row.label),
            colour = row.colour,
        );
        for (point, ((name, _), us)) in SHOWN.iter().zip(row.us).enumerate() {
            let radius = 5.0 - point as f64 * 0.9;
            let _ = write!(
                svg,
                r#"<circle class="c{colour}" cx="{cx:.1}" cy="{middle}" r="{radius}"><title>{name}: {text}</title></circle>"#,
                colour = row.colour,
                cx = x(us),
                text = time_text(us),
            );
        }
    }
    svg.push_str("</svg>");
    svg
}
