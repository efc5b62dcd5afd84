//! What charts over time share: a panel per workload with a line per engine and repetition, seconds
//! to the right.

use std::fmt::Write;

use super::Panel;
use super::cells::Cells;
use super::scale::{Scale, tick_text};
use crate::report::PhaseResult;

const WIDTH: f64 = 560.0;
const LEFT: f64 = 52.0;
const RIGHT: f64 = 22.0;
const AXIS: f64 = 20.0;
/// Room above the first plot.
pub(super) const TOP: f64 = 8.0;

/// What one engine did in one repetition.
pub(super) struct Line<'r, P> {
    colour: usize,
    pub(super) points: &'r [P],
}

/// A panel per workload, drawn by `chart` from the `series` of its results; phases too short for
/// two points have none.
pub(super) fn panels<'r, P: 'r>(
    cells: &Cells<'r>,
    series: impl Fn(&'r PhaseResult) -> &'r [P],
    chart: impl Fn(&[Line<'r, P>]) -> String,
) -> Vec<Panel> {
    let lines = |workload: &str| -> Vec<Line<'r, P>> {
        let engines = cells.engines().iter().enumerate();
        let results = engines
            .flat_map(|(colour, engine)| cells.cell(engine, workload).map(move |result| (colour, result)));
        let lines = results.map(|(colour, result)| Line { colour, points: series(result) });
        lines.filter(|line| line.points.len() > 1).collect()
    };
    let panel = |workload: &&str| {
        let lines = lines(workload);
        (!lines.is_empty()).then(|| Panel { title: (*workload).to_owned(), svg: chart(&lines) })
    };
    cells.workloads().iter().filter_map(panel).collect()
}

/// A chart that is being drawn.
pub(super) struct Frame {
    svg: String,
    height: f64,
    end_s: f64,
}

impl Frame {
    /// A chart of the time up to `end_s`, with plots of `plots` altogether from [`TOP`] on.
    pub(super) fn new(end_s: f64, plots: f64) -> Self {
        let height = TOP + plots + AXIS;
        Self { svg: format!(r#"<svg viewBox="0 0 {WIDTH} {height}" role="img">"#), height, end_s }
    }

    fn x(&self, at_s: f64) -> f64 {
        LEFT + at_s / self.end_s * (WIDTH - LEFT - RIGHT)
    }

    /// A line across all plots, with what it stands for at its left.
    pub(super) fn grid_line(&mut self, y: f64, text: &str) {
        let (right, left, below) = (WIDTH - RIGHT, LEFT - 6.0, y + 4.0);
        let _ = write!(self.svg, r#"<path class="grid" d="M{LEFT} {y:.1}H{right}"/>"#);
        let _ = write!(self.svg, r#"<text class="left" x="{left}" y="{below:.1}">{text}</text>"#);
    }

    /// The points of `line`, each as high as `y` says.
    pub(super) fn path<P>(&mut self, line: &Line<'_, P>, class: &str, place: impl Fn(&P) -> (f64, f64)) {
        let _ = write!(self.svg, r#"<path class="{class} s{}" d=""#, line.colour);
        for (index, point) in line.points.iter().enumerate() {
            let letter = if index == 0 { 'M' } else { 'L' };
            let (at_s, y) = place(point);
            let x = self.x(at_s);
            let _ = write!(self.svg, "{letter}{x:.1} {y:.1}");
        }
        self.svg.push_str(r#""/>"#);
    }

    /// The chart, with its seconds below.
    pub(super) fn finish(mut self) -> String {
        let below = self.height - 4.0;
        for tick in Scale::linear(self.end_s, 5).ticks.into_iter().filter(|tick| *tick <= self.end_s) {
            let (at, text) = (self.x(tick), tick_text(tick));
            let _ = write!(self.svg, r#"<text class="tick" x="{at:.1}" y="{below}">{text} s</text>"#);
        }
        self.svg.push_str("</svg>");
        self.svg
    }
}
