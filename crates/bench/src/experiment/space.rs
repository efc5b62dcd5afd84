//! How much a store with separated values writes for how little space, beside the least that
//! any log of values writes.

use std::path::Path;

use clap::ValueEnum;
use firn_engine::{Error, Result};
use serde::Serialize;

use super::value_log::write_amplification;
use crate::args::{OutputArgs, RunArgs, YcsbArgs};
use crate::distribution::{Distribution, ScrambledZipfian};
use crate::measure::Machine;
use crate::progress::watcher;
use crate::report::{PhaseResult, figure, table_text, write_text};
use crate::suite::{BenchDir, Store, Suite, YcsbSuite};
use crate::target::TargetFactory;

mod args;

pub use args::SpaceArgs;

/// How much is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Scale {
    /// 8 MiB, to see that everything works. Its figures mean nothing.
    Tiny,
    /// 128 MiB of values: less than a minute.
    Small,
    /// 1 GiB: some minutes.
    Medium,
    /// 8 GiB: about half an hour.
    Full,
}

impl Scale {
    fn data_bytes(self) -> u64 {
        match self {
            Scale::Tiny => 8 << 20,
            Scale::Small => 128 << 20,
            Scale::Medium => 1 << 30,
            Scale::Full => 8 << 30,
        }
    }
}

/// Limits of space that are tried.
const LIMITS: [f64; 7] = [1.15, 1.25, 1.35, 1.5, 1.7, 1.85, 2.0];

/// Times the data is overwritten.
const OVERWRITES: u64 = 3;

/// The least space that the model is asked for: below it takes very long, and no limit that is
/// tried is as low.
const MODEL_SPACE_MIN: f64 = 1.05;

/// Values of the model; its figures hardly depend on how many there are.
const MODEL_VALUES: usize = 200_000;

/// One point of the curve.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SpacePoint {
    /// Which values were overwritten: uniform or zipfian.
    pub distribution: String,
    /// Bytes of a value.
    pub value_bytes: u64,
    /// `space_amplification_max`.
    pub limit: f64,
    /// Bytes on disk by bytes of live keys and values, on average over the second half of the
    /// overwrites: logs and tables too. At their end where they took no second and were not
    /// sampled.
    pub space: f64,
    /// The most of that at any moment.
    pub space_peak: f64,
    /// Bytes written by bytes of keys and values, logs and tables too, drained.
    pub write_amplification: f64,
    /// What the model writes at that limit.
    pub model: f64,
    /// What the model writes with as much space as was held on average, 1.05 at least.
    pub model_held: f64,
    /// Overwrites a second, drained.
    pub ops_per_s: f64,
}

/// Runs the experiment as `args` say: progress on standard error, a table and a plot on standard
/// output, JSON where it is asked for.
///
/// # Errors
/// Whatever the store failed with; `Invalid` if the JSON cannot be written.
pub fn run_space(args: &SpaceArgs, factory: &dyn TargetFactory) -> Result<Vec<SpacePoint>> {
    eprintln!("{}", Machine::here().line());
    let mut points = Vec::new();
    for distribution in ["uniform", "zipfian"] {
        for limit in LIMITS {
            eprintln!("values of {} bytes, {distribution}, at most {limit} bytes for each", args.value_bytes);
            points.push(measure(args, factory, distribution, limit)?);
        }
    }
    print!("{}", table(&points));
    for distribution in ["uniform", "zipfian"] {
        let shown: Vec<&SpacePoint> = points.iter().filter(|it| it.distribution == distribution).collect();
        print!("\n{}", plot(distribution, &shown));
    }
    if let Some(path) = &args.json {
        write_points(path, &points)?;
        eprintln!("results: {}", path.display());
    }
    Ok(points)
}

fn measure(
    args: &SpaceArgs,
    factory: &dyn TargetFactory,
    distribution: &str,
    limit: f64,
) -> Result<SpacePoint> {
    let dir = BenchDir::new(None)?;
    let records = args.scale.data_bytes() / args.value_bytes.max(1);
    let mut suite = YcsbSuite::new(&workload(args, distribution, limit, records), false)?;
    let mut store = Store::new(factory, suite.open_options(dir.path()));
    let mut watcher = watcher(false);
    suite.run_step(0, &mut store, watcher.as_mut())?;
    let result = suite.run_step(1, &mut store, watcher.as_mut())?;
    store.close()?;
    Ok(point(&result, distribution, limit, |space| model(distribution, space, args.seed)))
}

/// What the model writes at `space`.
fn model(distribution: &str, space: f64, seed: u64) -> f64 {
    let last = MODEL_VALUES as u64 - 1;
    let mut draws = match distribution {
        "uniform" => Distribution::Uniform { first: 0, last },
        _ => Distribution::Zipfian(ScrambledZipfian::new(0, last)),
    };
    write_amplification(MODEL_VALUES, &mut draws, space.max(MODEL_SPACE_MIN), OVERWRITES as f64, seed)
}

fn point(result: &PhaseResult, distribution: &str, limit: f64, model: impl Fn(f64) -> f64) -> SpacePoint {
    let live = result.live_bytes.max(1) as f64;
    let later = result.disk_series.len() / 2;
    let mut looks: Vec<f64> = result.disk_series.iter().skip(later).map(|look| look.bytes as f64).collect();
    if looks.is_empty() {
        looks.push(result.disk_bytes as f64);
    }
    let space = looks.iter().sum::<f64>() / looks.len() as f64 / live;
    SpacePoint {
        distribution: distribution.to_owned(),
        value_bytes: result.context.value_bytes as u64,
        limit,
        space,
        space_peak: result.disk_peak_bytes.max(result.disk_bytes) as f64 / live,
        write_amplification: result.write_amplification.unwrap_or(0.0),
        model: model(limit),
        model_held: model(space),
        ops_per_s: result.ops_per_s_drained,
    }
}

fn workload(args: &SpaceArgs, distribution: &str, limit: f64, records: u64) -> YcsbArgs {
    let run = RunArgs {
        threads: Some(args.threads),
        value_bytes: Some(args.value_bytes),
        rate: None,
        seconds: None,
        warmup_seconds: 0.0,
        dir: None,
        memory_bytes: Some(args.memory_bytes.unwrap_or(args.scale.data_bytes() / 8).max(32 << 20)),
        separate_bytes: Some(args.value_bytes.clamp(32, 1024)),
        space_amplification_max: Some(limit),
        read_compaction_price: None,
        compression: None,
        compression_ratio: 1.0,
        worker: None,
        durability: firn_engine::Durability::Process,
        seed: args.seed,
    };
    let property = |name: &str, value: &str| format!("{name}={value}");
    YcsbArgs {
        workload: vec!["load".to_owned(), "run".to_owned()],
        records: Some(records),
        ops: Some(records * OVERWRITES),
        distribution: Some(distribution.to_owned()),
        read_batch: 1,
        run,
        output: OutputArgs { json: None, html: None },
        ycsb_output: false,
        property_files: Vec::new(),
        properties: vec![property("readproportion", "0"), property("updateproportion", "1")],
    }
}

/// Beside what was written stands what the model writes at the limit, then with the space that was
/// held.
fn table(points: &[SpacePoint]) -> String {
    let heading = [
        "values", "limit", "space", "peak", "written", "at limit", "above it", "at space", "above it",
        "kops/s",
    ];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    rows.extend(points.iter().map(|point| {
        vec![
            point.distribution.clone(),
            figure(point.limit),
            figure(point.space),
            figure(point.space_peak),
            figure(point.write_amplification),
            figure(point.model),
            figure(point.write_amplification - point.model),
            figure(point.model_held),
            figure(point.write_amplification - point.model_held),
            figure(point.ops_per_s / 1e3),
        ]
    }));
    table_text(&rows, 1)
}

/// Columns and rows of the plot.
const WIDTH: usize = 60;
const HEIGHT: usize = 16;

/// Writing against space: `o` is measured, `.` the model, at each limit and with each space that
/// was held.
fn plot(title: &str, points: &[&SpacePoint]) -> String {
    let of_model = || points.iter().flat_map(|it| [(it.limit, it.model), (it.space, it.model_held)]);
    let measured = || points.iter().map(|it| (it.space, it.write_amplification));
    let (mut right, mut top) = (1.0_f64, 1.0_f64);
    for (x, y) in of_model().chain(measured()) {
        (right, top) = (right.max(x), top.max(y));
    }
    let place = |value: f64, most: f64, cells: usize| {
        let share = (value - 1.0) / (most - 1.0).max(f64::EPSILON);
        ((share * (cells - 1) as f64).round().max(0.0) as usize).min(cells - 1)
    };
    let mut canvas = vec![vec![' '; WIDTH]; HEIGHT];
    let mut mark = |x: f64, y: f64, letter: char| {
        canvas[HEIGHT - 1 - place(y, top, HEIGHT)][place(x, right, WIDTH)] = letter;
    };
    of_model().for_each(|(x, y)| mark(x, y, '.'));
    measured().for_each(|(x, y)| mark(x, y, 'o'));
    let mut text = format!("{title}: bytes written for each, by bytes held for each (o measured, . model)\n");
    for (row, line) in canvas.iter().enumerate() {
        let label = match row {
            0 => figure(top),
            _ if row == HEIGHT - 1 => figure(1.0),
            _ => String::new(),
        };
        text.push_str(&format!("{label:>6} |{}\n", line.iter().collect::<String>().trim_end()));
    }
    text.push_str(&format!(
        "       +{}\n        1{:>width$}\n",
        "-".repeat(WIDTH),
        figure(right),
        width = WIDTH - 1
    ));
    text
}

fn write_points(path: &Path, points: &[SpacePoint]) -> Result<()> {
    let lines: Vec<String> = points
        .iter()
        .map(serde_json::to_string)
        .collect::<std::result::Result<_, _>>()
        .map_err(|error| Error::bug("a point has no JSON form").because(error))?;
    write_text(path, &format!("[\n{}\n]\n", lines.join(",\n")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(limit: f64, space: f64, write_amplification: f64) -> SpacePoint {
        SpacePoint {
            distribution: "uniform".to_owned(),
            value_bytes: 4096,
            limit,
            space,
            space_peak: space + 0.1,
            write_amplification,
            model: 1.0 + 0.5 / (limit - 1.0),
            model_held: 1.0 + 0.5 / (space - 1.0),
            ops_per_s: 12_300.0,
        }
    }

    #[test]
    fn a_plot_has_every_point_and_its_corners() {
        let points = [point(1.25, 1.3, 3.4), point(2.0, 1.9, 2.2)];
        let text = plot("uniform", &points.iter().collect::<Vec<_>>());
        let rows = || text.lines().filter_map(|line| line.split_once('|'));
        let marks = |mark: char| rows().map(|(_, cells)| cells.matches(mark).count()).sum::<usize>();
        assert_eq!((marks('o'), marks('.')), (2, 4), "{text}");
        assert!(text.contains("  3.4 |") || text.contains("3.40 |"), "{text}");
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
    }

    #[test]
    fn a_table_says_how_far_above_the_model_each_point_is() {
        let text = table(&[point(1.5, 1.55, 2.6)]);
        let row: Vec<&str> = text.lines().nth(1).unwrap_or_default().split_whitespace().collect();
        // 2 at the limit, 1.91 with what was held.
        assert_eq!(row[4..9], ["2.60", "2.00", "0.60", "1.91", "0.69"], "{text}");
    }

    #[test]
    fn the_model_is_asked_for_the_limit_and_for_what_was_held() {
        let result = PhaseResult {
            live_bytes: 1000,
            disk_bytes: 1540,
            write_amplification: Some(2.5),
            ..PhaseResult::default()
        };
        let point = super::point(&result, "uniform", 1.5, |space| 10.0 * space);
        assert_eq!((point.space, point.model, point.model_held), (1.54, 15.0, 15.4));
        // The less there is the more it writes, and it ends where there is none.
        let written = [1.0, 1.5].map(|space| model("zipfian", space, 1));
        assert!(written[0] > written[1] && written[1] > 1.0, "{written:?}");
    }
}
