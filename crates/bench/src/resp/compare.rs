//! Several servers, one after another and again: medians, spreads, ratios.

use serde::{Deserialize, Serialize};

use super::result::RespResult;
use crate::report::{figure, table_text};

/// One command on one server over all repetitions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Name of the server.
    pub target: String,
    /// What was asked.
    pub command: String,
    /// How often.
    pub repetitions: usize,
    /// Requests answered each second.
    pub requests_per_s: Versus,
    /// Median latency.
    pub p50_us: Versus,
    /// 99th percentile of latency.
    pub p99_us: Versus,
    /// 99.9th percentile of latency.
    pub p999_us: Versus,
    /// Processor time of the server by request; absent if not known of every repetition.
    pub server_cpu_us_per_request: Option<Versus>,
    /// The highest share of its time for which the client was busy.
    pub client_cpu_share_max: f64,
}

/// A figure over all repetitions, and against the first server's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Versus {
    /// Median over the repetitions.
    pub median: f64,
    /// Greatest less smallest, by the median.
    pub spread: f64,
    /// Median by the first server's median; absent if that is not known or 0.
    pub ratio: Option<f64>,
}

/// In what order `targets` servers have their turns in repetition `repetition`, counted from 0.
/// Each time another begins, so that none always runs after the same one or on a machine that is
/// always as warm. Two take turns as A B B A.
pub(crate) fn order(targets: usize, repetition: usize) -> Vec<usize> {
    (0..targets).map(|turn| (turn + repetition) % targets).collect()
}

/// The middle of `figures`, of an even number the mean of the two in the middle; 0 of none.
pub(crate) fn median(figures: &[f64]) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (low, high) = (sorted.get(sorted.len().saturating_sub(1) / 2), sorted.get(sorted.len() / 2));
    low.zip(high).map_or(0.0, |(low, high)| (low + high) / 2.0)
}

fn versus(figures: &[f64], first: Option<&[f64]>) -> Versus {
    let median_found = median(figures);
    let by = |of: f64, by: f64| (by > 0.0).then(|| of / by);
    let least = figures.iter().copied().fold(f64::INFINITY, f64::min);
    let most = figures.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    Versus {
        median: median_found,
        spread: by(most - least, median_found).unwrap_or(0.0),
        ratio: first.and_then(|first| by(median_found, median(first))),
    }
}

/// Every command of `results` on every one of `targets`; the first of these is what others are held
/// against.
pub(super) fn comparisons(results: &[RespResult], targets: &[String]) -> Vec<Comparison> {
    let mut commands: Vec<&str> = Vec::new();
    for result in results {
        if !commands.contains(&result.command.as_str()) {
            commands.push(&result.command);
        }
    }
    let compared = |command: &str, target: &String| {
        let of = |target: &String| -> Vec<&RespResult> {
            results.iter().filter(|result| result.command == command && result.target == *target).collect()
        };
        let (own, first) = (of(target), targets.first().map(of).unwrap_or_default());
        let versus_by = |get: fn(&RespResult) -> f64| {
            let figures =
                |results: &[&RespResult]| results.iter().map(|result| get(result)).collect::<Vec<_>>();
            versus(&figures(&own), Some(&figures(&first)))
        };
        let server = |results: &[&RespResult]| {
            let figures = results.iter().map(|result| Some(result.server?.cpu_us_per_request));
            figures.collect::<Option<Vec<f64>>>().filter(|figures| !figures.is_empty())
        };
        Comparison {
            target: target.clone(),
            command: command.to_owned(),
            repetitions: own.len(),
            requests_per_s: versus_by(|result| result.requests_per_s),
            p50_us: versus_by(|result| result.latency.p50_us),
            p99_us: versus_by(|result| result.latency.p99_us),
            p999_us: versus_by(|result| result.latency.p999_us),
            server_cpu_us_per_request: server(&own).map(|own| versus(&own, server(&first).as_deref())),
            client_cpu_share_max: own.iter().map(|result| result.client_cpu_share).fold(0.0, f64::max),
        }
    };
    commands
        .iter()
        .flat_map(|command| targets.iter().map(|target| compared(command, target)).collect::<Vec<_>>())
        .collect()
}

/// One line a comparison: each figure as median, spread in percent, ratio to the first.
pub(super) fn table(comparisons: &[Comparison]) -> String {
    let shown = |versus: Option<&Versus>| match versus {
        None => ["-".to_owned(), String::new(), String::new()],
        Some(versus) => [
            figure(versus.median),
            format!("±{:.0}%", versus.spread * 50.0),
            versus.ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}x")),
        ],
    };
    let mut headings = vec!["command".to_owned(), "target".to_owned()];
    for name in ["requests/s", "p50 us", "p99 us", "p99.9 us", "server us/req"] {
        headings.extend([name.to_owned(), String::new(), String::new()]);
    }
    headings.push("client CPU %".to_owned());
    let mut rows = vec![headings];
    for comparison in comparisons {
        let mut row = vec![comparison.command.clone(), comparison.target.clone()];
        for versus in [
            Some(&comparison.requests_per_s),
            Some(&comparison.p50_us),
            Some(&comparison.p99_us),
            Some(&comparison.p999_us),
            comparison.server_cpu_us_per_request.as_ref(),
        ] {
            row.extend(shown(versus));
        }
        row.push(figure(comparison.client_cpu_share_max * 100.0));
        rows.push(row);
    }
    let repetitions = comparisons.first().map_or(0, |comparison| comparison.repetitions);
    format!(
        "Medians of {repetitions} repetitions, ± half the way from the smallest to the greatest, and the ratio to the first target.\n{}",
        table_text(&rows, 2)
    )
}

#[cfg(test)]
mod tests;
