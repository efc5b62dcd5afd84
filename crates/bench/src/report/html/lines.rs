//! Throughput and longest latency over time, one panel per workload.

use std::fmt::Write;

use super::Panel;
use super::cells::Cells;
use super::scale::{Scale, tick_text, time_text};
use crate::report::SeriesPoint;

const WIDTH: f64 = 560.0;
const LEFT: f64 = 52.0;
const RIGHT: f64 = 22.0;
const UPPER: f64 = 120.0;
const GAP: f64 = 14.0;
const LOWER: f64 = 60.0;
const AXIS: f64 = 20.0;
const TOP: f64 = 8.0;

struct Line<'r> {
    colour: usize,
    points: &'r [SeriesPoint],
}

/// A panel per workload with a line per engine and repetition; phases too short for two points have none.
pub(super) fn panels(cells: &Cells<'_>) -> Vec<Panel> {
    cells
        .workloads()
        .iter()
        .filter_map(|workload| {
            let lines: Vec<Line<'_>> = cells
                .engines()
                .iter()
                .enumerate()
                .flat_map(|(colour, engine)| {
                    cells.cell(engine, workload).map(move |result| Line { colour, points: &result.series })
                })
                .filter(|line| line.points.len() > 1)
                .collect();
            (!lines.is_empty()).then(|| Panel { title: (*workload).to_owned(), svg: chart(&lines) })
        })
        .collect()
}

fn chart(lines: &[Line<'_>]) -> String {
    let all = || lines.iter().flat_map(|line| line.points);
    let time = Scale::linear(all().map(|point| point.at_s).fold(0.0, f64::max), 5);
    let end = all().map(|point| point.at_s).fold(0.0, f64::max);
    let rate = Scale::linear(all().map(|point| point.ops_per_s / 1e3).fold(0.0, f64::max), 3);
    let slowest = all().map(|point| point.max_us).fold(0.0, f64::max);
    let fastest = all().map(|point| point.max_us).filter(|us| *us > 0.0).fold(f64::INFINITY, f64::min);
    let latency = Scale::decades(fastest.min(slowest), slowest);

    let height = TOP + UPPER + GAP + LOWER + AXIS;
    let lower_top = TOP + UPPER + GAP;
    let x = |at: f64| LEFT + at / end * (WIDTH - LEFT - RIGHT);
    let upper_y = |point: &SeriesPoint| TOP + (1.0 - rate.place(point.ops_per_s / 1e3)) * UPPER;
    let lower_y = |point: &SeriesPoint| lower_top + (1.0 - latency.place(point.max_us)) * LOWER;

    let mut svg = format!(r#"<svg viewBox="0 0 {WIDTH} {height}" role="img">"#);
    for tick in &rate.ticks {
        let y = TOP + (1.0 - rate.place(*tick)) * UPPER;
        grid_line(&mut svg, y, &tick_text(*tick));
    }
    let every = latency.ticks.len().div_ceil(4);
    for tick in latency.ticks.iter().step_by(every) {
        let y = lower_top + (1.0 - latency.place(*tick)) * LOWER;
        grid_line(&mut svg, y, &time_text(*tick));
    }
    for tick in time.ticks.iter().filter(|tick| **tick <= end) {
        let _ = write!(
            svg,
            r#"<text class="tick" x="{at:.1}" y="{ty}">{text} s</text>"#,
            at = x(*tick),
            ty = height - 4.0,
            text = tick_text(*tick),
        );
    }
    for line in lines {
        path(&mut svg, line, "line", x, upper_y);
        path(&mut svg, line, "line thin", x, lower_y);
    }
    svg.push_str("</svg>");
    svg
}

fn grid_line(svg: &mut String, y: f64, text: &str) {
    let _ = write!(
        svg,
        r#"<path class="grid" d="M{LEFT} {y:.1}H{end}"/><text class="left" x="{tx}" y="{ty:.1}">{text}</text>"#,
        end = WIDTH - RIGHT,
        tx = LEFT - 6.0,
        ty = y + 4.0,
    );
}

fn path(
    svg: &mut String,
    line: &Line<'_>,
    class: &str,
    x: impl Fn(f64) -> f64,
    y: impl Fn(&SeriesPoint) -> f64,
) {
    let _ = write!(svg, r#"<path class="{class} s{}" d=""#, line.colour);
    for (index, point) in line.points.iter().enumerate() {
        let letter = if index == 0 { 'M' } else { 'L' };
        let _ = write!(svg, "{letter}{:.1} {:.1}", x(point.at_s), y(point));
    }
    svg.push_str(r#""/>"#);
}
