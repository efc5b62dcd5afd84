//! The plot: for each row and rival a point on a scale of ratios, and the line of its spread.

use std::fmt::Write as _;

use super::rows::{Figure, Rival, Row};

/// Ratios that the scale names; the first and the last are its ends.
const TICKS: [f64; 8] = [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0];
const LABELS_WIDTH: f64 = 300.0;
const SCALE_WIDTH: f64 = 480.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 84.0;
const ROW_HEIGHT: f64 = 18.0;
const GAP: f64 = 10.0;
const KEY_WIDTH: f64 = 165.0;

const STYLE: &str = "
  text { font: 13px system-ui, sans-serif; fill: #24292f }
  .title { font-weight: 600; font-size: 15px }
  .quiet { fill: #57606a; font-size: 12px }
  .grid { stroke: #d0d7de }
  .even { stroke: #57606a; stroke-width: 1.5 }
  .c0 { fill: #0969da; stroke: #0969da } .c1 { fill: #bc4c00; stroke: #bc4c00 } .c2 { fill: #1a7f37; stroke: #1a7f37 }
  .c3 { fill: #8250df; stroke: #8250df } .c4 { fill: #bf3989; stroke: #bf3989 }
  text.key { stroke: none; font-size: 12px }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } .quiet { fill: #9198a1 } .grid { stroke: #30363d } .even { stroke: #9198a1 }
    .c0 { fill: #4493f8; stroke: #4493f8 } .c1 { fill: #db6d28; stroke: #db6d28 } .c2 { fill: #3fb950; stroke: #3fb950 }
    .c3 { fill: #ab7df8; stroke: #ab7df8 } .c4 { fill: #db61a2; stroke: #db61a2 }
  }
";

/// Where on the scale `ratio` lies; what is beyond an end lies on it.
fn x(ratio: f64) -> f64 {
    let [first, .., last] = TICKS;
    let share = (ratio.clamp(first, last).ln() - first.ln()) / (last.ln() - first.ln());
    LABELS_WIDTH + share * SCALE_WIDTH
}

pub(super) fn draw(figure: &Figure) -> String {
    let names = names(figure);
    let rivals: usize = figure.rows.iter().map(|row| row.rivals.len()).sum();
    let bottom = TOP + rivals as f64 * ROW_HEIGHT + figure.rows.len() as f64 * GAP;
    let (width, height) = (LABELS_WIDTH + SCALE_WIDTH + RIGHT, bottom + 44.0);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         role=\"img\" aria-labelledby=\"title\">\n<style>{STYLE}</style>\n<text id=\"title\" class=\"title\" x=\"8\" \
         y=\"22\">{}</text>\n",
        escape(&figure.title)
    );
    draw_key(&mut svg, &names);
    draw_scale(&mut svg, bottom);
    let mut top = TOP;
    for row in &figure.rows {
        draw_row(&mut svg, row, &names, top);
        top += row.rivals.len() as f64 * ROW_HEIGHT + GAP;
    }
    svg + "</svg>\n"
}

/// The rivals, each once, in the order in which rows name them: the place is the colour.
fn names(figure: &Figure) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for rival in figure.rows.iter().flat_map(|row| &row.rivals) {
        if !names.contains(&rival.name.as_str()) {
            names.push(&rival.name);
        }
    }
    names
}

fn draw_key(svg: &mut String, names: &[&str]) {
    for (at, name) in names.iter().enumerate() {
        let (left, name) = (13.0 + at as f64 * KEY_WIDTH, escape(name));
        line(svg, format_args!("<circle class=\"c{at}\" cx=\"{left}\" cy=\"42\" r=\"5\"/>"));
        let left = left + 10.0;
        line(svg, format_args!("<text class=\"key c{at}\" x=\"{left}\" y=\"46\">beside {name}</text>"));
    }
}

/// Lines from the scale down to `bottom`, and below them what the sides mean.
fn draw_scale(svg: &mut String, bottom: f64) {
    for tick in TICKS {
        let is_even = tick == 1.0;
        let (class, at, top) = (if is_even { "even" } else { "grid" }, x(tick), TOP - 8.0);
        line(
            svg,
            format_args!(
                "<line class=\"{class}\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{top}\" y2=\"{bottom}\"/>"
            ),
        );
        let label = if is_even { "equal".to_owned() } else { format!("{tick}x") };
        quiet(svg, at, TOP - 14.0, &label);
    }
    quiet(svg, x(0.5), bottom + 22.0, "Firn loses");
    quiet(svg, x(4.0), bottom + 22.0, "Firn is better by so many times");
}

fn draw_row(svg: &mut String, row: &Row, names: &[&str], top: f64) {
    let what = escape(&row.what);
    let middle = top + row.rivals.len() as f64 * ROW_HEIGHT / 2.0 + 4.0;
    line(svg, format_args!("<text x=\"8\" y=\"{middle:.1}\">{what}</text>"));
    for (index, rival) in row.rivals.iter().enumerate() {
        let class = names.iter().position(|name| *name == rival.name).unwrap_or_default();
        let y = top + (index as f64 + 0.5) * ROW_HEIGHT;
        let (least, at, greatest) = (x(rival.least), x(rival.ratio), x(rival.greatest));
        let Rival { name, ratio, least: from, greatest: to, .. } = rival;
        let name = escape(name);
        line(
            svg,
            format_args!(
                "<g class=\"c{class}\"><title>{what}, beside {name}: {ratio:.2} ({from:.2} to {to:.2})</title><line \
                 stroke-width=\"3\" opacity=\"0.5\" x1=\"{least:.1}\" x2=\"{greatest:.1}\" y1=\"{y:.1}\" \
                 y2=\"{y:.1}\"/><circle cx=\"{at:.1}\" cy=\"{y:.1}\" r=\"5\"/></g>"
            ),
        );
    }
}

fn quiet(svg: &mut String, x: f64, y: f64, text: &str) {
    line(
        svg,
        format_args!("<text class=\"quiet\" text-anchor=\"middle\" x=\"{x:.1}\" y=\"{y}\">{text}</text>"),
    );
}

fn line(svg: &mut String, text: std::fmt::Arguments<'_>) {
    // A string takes all that is written to it.
    let _ = writeln!(svg, "{text}");
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scale_is_of_ratios() {
        assert!((x(2.0) - x(1.0) - (x(8.0) - x(4.0))).abs() < 1e-9, "doublings are equally wide");
        assert!(
            (x(0.01) - x(0.25)).abs() < 1e-9 && (x(1000.0) - x(32.0)).abs() < 1e-9,
            "ends hold what is beyond"
        );
    }

    #[test]
    fn words_cannot_break_the_drawing() {
        assert_eq!(escape("a < b & c > d"), "a &lt; b &amp; c &gt; d");
    }
}
