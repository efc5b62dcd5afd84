//! Horizontal bars: one row per engine, or per workload where there is only one engine.

use std::fmt::Write;

use super::cells::{Cells, Spread};
use super::{Panel, escaped};
use crate::report::PhaseResult;
use crate::report::summary::figure;

const WIDTH: f64 = 440.0;
const LABEL: f64 = 106.0;
const VALUE: f64 = 52.0;
const ROW: f64 = 24.0;

struct Bar {
    label: String,
    colour: usize,
    spread: Spread,
}

/// A panel per workload with a bar per engine; for one engine a single panel with a bar per
/// workload.
pub(super) fn panels(cells: &Cells<'_>, measure: impl Fn(&PhaseResult) -> Option<f64> + Copy) -> Vec<Panel> {
    if let [engine] = cells.engines() {
        let bars: Vec<Bar> = cells
            .workloads()
            .iter()
            .filter_map(|workload| bar(workload, 0, cells.spread(engine, workload, measure)))
            .collect();
        return panel(String::new(), &bars).into_iter().collect();
    }
    cells
        .workloads()
        .iter()
        .filter_map(|workload| {
            let bars: Vec<Bar> = cells
                .engines()
                .iter()
                .enumerate()
                .filter_map(|(colour, engine)| bar(engine, colour, cells.spread(engine, workload, measure)))
                .collect();
            panel((*workload).to_owned(), &bars)
        })
        .collect()
}

fn bar(label: &str, colour: usize, spread: Option<Spread>) -> Option<Bar> {
    Some(Bar { label: label.to_owned(), colour, spread: spread? })
}

fn panel(title: String, bars: &[Bar]) -> Option<Panel> {
    (!bars.is_empty()).then(|| Panel { title, svg: chart(bars) })
}

fn chart(bars: &[Bar]) -> String {
    let most = bars.iter().map(|bar| bar.spread.high).fold(0.0, f64::max);
    let room = WIDTH - LABEL - VALUE;
    let x = |value: f64| LABEL + if most > 0.0 { value / most * room } else { 0.0 };
    let height = bars.len() as f64 * ROW + 4.0;
    let mut svg = format!(r#"<svg viewBox="0 0 {WIDTH} {height}" role="img">"#);
    for (index, bar) in bars.iter().enumerate() {
        let top = index as f64 * ROW + 4.0;
        let middle = top + (ROW - 8.0) / 2.0;
        let Spread { median, low, high } = bar.spread;
        let (label, colour, end) = (escaped(&bar.label), bar.colour, x(median));
        let _ = write!(
            svg,
            r#"<g><title>{label}: {m} ({l} to {h})</title><text class="label" x="{lx}" y="{ty}">{label}</text><rect class="c{colour}" x="{LABEL}" y="{top}" width="{width:.1}" height="{bar_height}" rx="2"/>"#,
            m = figure(median),
            l = figure(low),
            h = figure(high),
            lx = LABEL - 8.0,
            ty = middle + 4.0,
            width = (end - LABEL).max(1.0),
            bar_height = ROW - 8.0,
        );
        if high > low {
            let (from, to) = (x(low), x(high));
            let _ = write!(svg, r#"<path class="whisker" d="M{from:.1} {middle}H{to:.1}"/>"#);
        }
        let _ = write!(
            svg,
            r#"<text class="value" x="{vx:.1}" y="{ty}">{value}</text></g>"#,
            vx = x(median.max(high)) + 6.0,
            ty = middle + 4.0,
            value = figure(median),
        );
    }
    svg.push_str("</svg>");
    svg
}
