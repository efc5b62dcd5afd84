//! Throughput over time, and the longest latency below it.

use super::Panel;
use super::cells::Cells;
use super::over_time::{Frame, Line, TOP, panels as panels_of};
use super::scale::{Scale, tick_text, time_text};
use crate::report::SeriesPoint;

const UPPER: f64 = 120.0;
const GAP: f64 = 14.0;
const LOWER: f64 = 60.0;

/// See [`over_time::panels`](panels_of).
pub(super) fn panels(cells: &Cells<'_>) -> Vec<Panel> {
    panels_of(cells, |result| &result.series, chart)
}

fn chart(lines: &[Line<'_, SeriesPoint>]) -> String {
    let all = || lines.iter().flat_map(|line| line.points);
    let rate = Scale::linear(all().map(|point| point.ops_per_s / 1e3).fold(0.0, f64::max), 3);
    let slowest = all().map(|point| point.max_us).fold(0.0, f64::max);
    let fastest = all().map(|point| point.max_us).filter(|us| *us > 0.0).fold(f64::INFINITY, f64::min);
    let latency = Scale::decades(fastest.min(slowest), slowest);
    let upper_y = |thousands: f64| TOP + (1.0 - rate.place(thousands)) * UPPER;
    let lower_y = |us: f64| TOP + UPPER + GAP + (1.0 - latency.place(us)) * LOWER;

    let end_s = all().map(|point| point.at_s).fold(0.0, f64::max);
    let mut frame = Frame::new(end_s, UPPER + GAP + LOWER);
    for tick in &rate.ticks {
        frame.grid_line(upper_y(*tick), &tick_text(*tick));
    }
    for tick in latency.ticks.iter().step_by(latency.ticks.len().div_ceil(4)) {
        frame.grid_line(lower_y(*tick), &time_text(*tick));
    }
    for line in lines {
        frame.path(line, "line", |point| (point.at_s, upper_y(point.ops_per_s / 1e3)));
        frame.path(line, "line thin", |point| (point.at_s, lower_y(point.max_us)));
    }
    frame.finish()
}
