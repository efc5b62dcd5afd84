//! Results as a table for a terminal.

use super::PhaseResult;

/// A column: its two-line heading and what it shows.
type Column = (&'static str, &'static str, fn(&PhaseResult) -> String);

const COLUMNS: [Column; 14] = [
    ("", "engine", |result| result.context.engine.clone()),
    ("", "workload", |result| result.context.workload.clone()),
    ("", "kops/s", |result| figure(result.ops_per_s / 1e3)),
    ("drained", "kops/s", |result| figure(result.ops_per_s_drained / 1e3)),
    ("p50", "us", |result| figure(result.p50_us)),
    ("p99", "us", |result| figure(result.p99_us)),
    ("p99.9", "us", |result| figure(result.p999_us)),
    ("max", "ms", |result| figure(result.max_us / 1e3)),
    ("CPU", "us/op", |result| figure(result.cpu_us_per_op)),
    ("stopped", "s", |result| figure(result.stall_s)),
    ("drain", "s", |result| figure(result.drain_s)),
    ("write", "amp.", |result| result.write_amplification.map_or_else(|| "-".to_owned(), figure)),
    ("space", "amp.", |result| result.space_amplification.map_or_else(|| "-".to_owned(), figure)),
    ("peak", "MiB", |result| figure(result.rss_peak_bytes as f64 / f64::from(1 << 20))),
];

/// One line per result under two lines of headings. Empty for no results.
pub fn summary_table(results: &[PhaseResult]) -> String {
    if results.is_empty() {
        return String::new();
    }
    let mut rows: Vec<Vec<String>> = vec![
        COLUMNS.iter().map(|column| column.0.to_owned()).collect(),
        COLUMNS.iter().map(|column| column.1.to_owned()).collect(),
    ];
    rows.extend(results.iter().map(|result| COLUMNS.iter().map(|column| column.2(result)).collect()));
    table_text(&rows, 2)
}

/// Aligned text: the first `left` columns to the left, the others to the right.
pub fn table_text(rows: &[Vec<String>], left: usize) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns)
        .map(|column| {
            rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
        })
        .collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().enumerate().map(|(column, cell)| {
            let width = widths[column];
            if column < left { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// A number with three significant digits or so.
pub fn figure(number: f64) -> String {
    let size = number.abs();
    if number == 0.0 {
        "0".to_owned()
    } else if size < 0.01 {
        format!("{number:.3}")
    } else if size < 10.0 {
        format!("{number:.2}")
    } else if size < 100.0 {
        format!("{number:.1}")
    } else {
        format!("{number:.0}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_about_three_digits() {
        let shown: Vec<String> =
            [0.0, 0.0042, 1.234, 56.78, 910.1, 12_345.6].into_iter().map(figure).collect();
        assert_eq!(shown, ["0", "0.004", "1.23", "56.8", "910", "12346"]);
    }

    #[test]
    fn tables_line_up() {
        let rows = [["a", "1"], ["bcd", "234"]].map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(table_text(&rows, 1), "a      1\nbcd  234\n");
    }
}
