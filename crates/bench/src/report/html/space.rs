//! Bytes of disk over time, one panel per workload.

use std::fmt::Write;

use super::Panel;
use super::cells::Cells;
use super::scale::{Scale, tick_text};
use crate::report::DiskPoint;

const WIDTH: f64 = 560.0;
const LEFT: f64 = 52.0;
const RIGHT: f64 = 22.0;
const HEIGHT: f64 = 120.0;
const AXIS: f64 = 20.0;
const TOP: f64 = 8.0;

struct Line<'r> {
    colour: usize,
    points: &'r [DiskPoint],
}

/// A panel per workload with a line per engine and repetition; phases too short for two looks have none.
pub(super) fn panels(cells: &Cells<'_>) -> Vec<Panel> {
    let lines = |workload: &str| -> Vec<Line<'_>> {
        let engines = cells.engines();
        let lines = engines.iter().enumerate().flat_map(|(colour, engine)| {
            cells.cell(engine, workload).map(move |result| Line { colour, points: &result.disk_series })
        });
        lines.filter(|line| line.points.len() > 1).collect()
    };
    let panel = |workload: &&str| {
        let lines = lines(workload);
        (!lines.is_empty()).then(|| Panel { title: (*workload).to_owned(), svg: chart(&lines) })
    };
    cells.workloads().iter().filter_map(panel).collect()
}

fn gib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 30)
}

fn chart(lines: &[Line<'_>]) -> String {
    let all = || lines.iter().flat_map(|line| line.points);
    let end = all().map(|point| point.at_s).fold(0.0, f64::max);
    let time = Scale::linear(end, 5);
    let space = Scale::linear(all().map(|point| gib(point.bytes)).fold(0.0, f64::max), 3);
    let x = |at: f64| LEFT + at / end * (WIDTH - LEFT - RIGHT);
    let y = |gib: f64| TOP + (1.0 - space.place(gib)) * HEIGHT;
    let height = TOP + HEIGHT + AXIS;
    let mut svg = format!(r#"<svg viewBox="0 0 {WIDTH} {height}" role="img">"#);
    for tick in &space.ticks {
        let (at, right, left) = (y(*tick), WIDTH - RIGHT, LEFT - 6.0);
        let _ = write!(svg, r#"<path class="grid" d="M{LEFT} {at:.1}H{right}"/>"#);
        let text = tick_text(*tick);
        let _ = write!(svg, r#"<text class="left" x="{left}" y="{:.1}">{text}</text>"#, at + 4.0);
    }
    for tick in time.ticks.iter().filter(|tick| **tick <= end) {
        let (at, below, text) = (x(*tick), height - 4.0, tick_text(*tick));
        let _ = write!(svg, r#"<text class="tick" x="{at:.1}" y="{below}">{text} s</text>"#);
    }
    for line in lines {
        let _ = write!(svg, r#"<path class="line s{}" d=""#, line.colour);
        for (index, point) in line.points.iter().enumerate() {
            let letter = if index == 0 { 'M' } else { 'L' };
            let _ = write!(svg, "{letter}{:.1} {:.1}", x(point.at_s), y(gib(point.bytes)));
        }
        svg.push_str(r#""/>"#);
    }
    svg.push_str("</svg>");
    svg
}
