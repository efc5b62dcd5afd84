//! Bytes of disk over time.

use super::Panel;
use super::cells::Cells;
use super::over_time::{Frame, Line, TOP, panels as panels_of};
use super::scale::{Scale, tick_text};
use crate::report::DiskPoint;

const HEIGHT: f64 = 120.0;

/// See [`over_time::panels`](panels_of).
pub(super) fn panels(cells: &Cells<'_>) -> Vec<Panel> {
    panels_of(cells, |result| &result.disk_series, chart)
}

fn gib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 30)
}

fn chart(lines: &[Line<'_, DiskPoint>]) -> String {
    let all = || lines.iter().flat_map(|line| line.points);
    let space = Scale::linear(all().map(|point| gib(point.bytes)).fold(0.0, f64::max), 3);
    let y = |gib: f64| TOP + (1.0 - space.place(gib)) * HEIGHT;
    let mut frame = Frame::new(all().map(|point| point.at_s).fold(0.0, f64::max), HEIGHT);
    for tick in &space.ticks {
        frame.grid_line(y(*tick), &tick_text(*tick));
    }
    for line in lines {
        frame.path(line, "line", |point| (point.at_s, y(gib(point.bytes))));
    }
    frame.finish()
}
