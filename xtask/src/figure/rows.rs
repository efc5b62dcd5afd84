//! What the plot shows: rows of ratios, pair by pair of one interleaved run.

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

/// All that is drawn.
pub(super) struct Figure {
    /// What stands above the plot.
    pub(super) title: String,
    pub(super) rows: Vec<Row>,
}

/// One thing measured, of Firn and of others.
pub(super) struct Row {
    pub(super) what: String,
    pub(super) unit: String,
    /// The folder of the measurement, from the repository's root.
    pub(super) folder: String,
    /// Firn's median.
    pub(super) firn: f64,
    pub(super) rivals: Vec<Rival>,
    pub(super) is_in_table: bool,
}

/// How another store did.
pub(super) struct Rival {
    pub(super) name: String,
    /// Its median.
    pub(super) figure: f64,
    /// How many times as good Firn is: the median of the pairs, the least, the greatest.
    pub(super) ratio: f64,
    pub(super) least: f64,
    pub(super) greatest: f64,
}

/// One figure of one repetition.
struct Sample {
    store: String,
    repetition: u64,
    figure: f64,
}

/// Reads `list`, a path below `root`, and the measurements that it names.
pub(super) fn read(root: &Path, list: &Path) -> Result<Figure> {
    let path = root.join(list);
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let list: toml::Table = text.parse().with_context(|| format!("{} is no TOML", path.display()))?;
    let rows = list.get("row").and_then(toml::Value::as_array).context("no [[row]]")?;
    let rows = rows.iter().map(|row| read_row(root, row)).collect::<Result<_>>()?;
    Ok(Figure { title: word(&list, "title")?, rows })
}

fn read_row(root: &Path, row: &toml::Value) -> Result<Row> {
    let row = row.as_table().context("[[row]] is a table")?;
    let what = word(row, "what")?;
    let file = word(row, "file")?;
    let (folder, _) = file.rsplit_once('/').context("a file within results/")?;
    let samples = samples(root, row, &file).with_context(|| what.clone())?;
    let lower_is_better = row.get("lower_is_better").and_then(toml::Value::as_bool).unwrap_or(false);
    let scale = row.get("scale").and_then(toml::Value::as_float).unwrap_or(1.0);
    let of = |store: &str| -> Vec<&Sample> { samples.iter().filter(|it| it.store == store).collect() };
    let firn = of(&word(row, "firn")?);
    ensure!(!firn.is_empty(), "{what}: {file} has nothing of Firn");
    let rivals = row.get("rivals").and_then(toml::Value::as_array).context("no list of rivals")?;
    let rivals = rivals
        .iter()
        .map(|rival| {
            let pair = rival.as_array().map(Vec::as_slice);
            let Some([toml::Value::String(store), toml::Value::String(name)]) = pair else {
                bail!("{what}: a rival is [what the file calls it, its name], not {rival}");
            };
            let rival = of(store);
            let mut ratios: Vec<f64> = firn
                .iter()
                .filter_map(|ours| Some((ours, rival.iter().find(|it| it.repetition == ours.repetition)?)))
                .map(|(ours, theirs)| ours.figure / theirs.figure)
                .map(|ratio| if lower_is_better { 1.0 / ratio } else { ratio })
                .collect();
            ratios.sort_by(f64::total_cmp);
            ensure!(!ratios.is_empty(), "{what}: {file} has nothing of {store}");
            Ok(Rival {
                name: name.clone(),
                figure: median(rival.iter().map(|it| it.figure)) * scale,
                ratio: median(ratios.iter().copied()),
                least: ratios[0],
                greatest: ratios[ratios.len() - 1],
            })
        })
        .collect::<Result<_>>()?;
    Ok(Row {
        unit: word(row, "unit")?,
        folder: folder.to_owned(),
        firn: median(firn.iter().map(|it| it.figure)) * scale,
        is_in_table: row.get("table").and_then(toml::Value::as_bool).unwrap_or(false),
        what,
        rivals,
    })
}

/// The figures of a file of `peers compare --json` (a list) or `firn bench resp --json` (an object
/// with `results`).
fn samples(root: &Path, row: &toml::Table, file: &str) -> Result<Vec<Sample>> {
    let text = std::fs::read_to_string(root.join(file)).with_context(|| format!("cannot read {file}"))?;
    let measured: Value = serde_json::from_str(&text).with_context(|| format!("{file} is no JSON"))?;
    let results =
        measured.as_array().or_else(|| measured.get("results")?.as_array()).context("no results")?;
    let (phase, measure) = (word(row, "phase")?, word(row, "measure")?);
    let is_of_phase =
        |it: &&Value| ["workload", "command"].iter().any(|key| it.get(*key).is_some_and(|it| *it == phase));
    results
        .iter()
        .filter(is_of_phase)
        .map(|it| {
            let store = it.get("engine").or_else(|| it.get("target")).and_then(Value::as_str);
            Ok(Sample {
                store: store.context("a result without a store")?.to_owned(),
                repetition: it.get("repetition").and_then(Value::as_u64).context("no repetition")?,
                figure: it
                    .pointer(&measure)
                    .and_then(Value::as_f64)
                    .with_context(|| format!("no {measure}"))?,
            })
        })
        .collect()
}

fn median(figures: impl Iterator<Item = f64>) -> f64 {
    let mut figures: Vec<f64> = figures.collect();
    figures.sort_by(f64::total_cmp);
    let middle = figures.len() / 2;
    if figures.len() % 2 == 1 { figures[middle] } else { f64::midpoint(figures[middle - 1], figures[middle]) }
}

fn word(table: &toml::Table, key: &str) -> Result<String> {
    let word = table.get(key).and_then(toml::Value::as_str).with_context(|| format!("no {key}"))?;
    Ok(word.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEASURED: &str = r#"[
        {"engine": "firn", "workload": "a", "repetition": 1, "ops": 300.0},
        {"engine": "other", "workload": "a", "repetition": 1, "ops": 100.0},
        {"engine": "firn", "workload": "a", "repetition": 2, "ops": 400.0},
        {"engine": "other", "workload": "a", "repetition": 2, "ops": 800.0},
        {"engine": "other", "workload": "b", "repetition": 2, "ops": 1.0}
    ]"#;

    fn row(more: &str) -> Result<Row> {
        let root = std::env::temp_dir().join(format!("firn-figure-{}-{}", std::process::id(), more.len()));
        std::fs::create_dir_all(root.join("results/one")).expect("a folder");
        std::fs::write(root.join("results/one/a.json"), MEASURED).expect("a file");
        let list = format!(
            "what = 'w'\nunit = 'u'\nfile = 'results/one/a.json'\nphase = 'a'\nmeasure = '/ops'\nfirn = 'firn'\n{more}\n"
        );
        let row = read_row(&root, &toml::Value::Table(list.parse().expect("TOML")));
        std::fs::remove_dir_all(&root).expect("removed");
        row
    }

    #[test]
    fn ratios_are_of_pairs_and_not_of_medians() {
        let row = row("rivals = [['other', 'Other']]").expect("a row");
        let rival = &row.rivals[0];
        assert_eq!((rival.least, rival.ratio, rival.greatest), (0.5, 1.75, 3.0));
        assert_eq!((row.firn, rival.figure, row.folder.as_str()), (350.0, 450.0, "results/one"));
    }

    #[test]
    fn where_less_is_better_the_ratio_is_turned() {
        let row = row("rivals = [['other', 'Other']]\nlower_is_better = true\nscale = 0.01").expect("a row");
        assert!((row.rivals[0].greatest - 2.0).abs() < 1e-9 && (row.firn - 3.5).abs() < 1e-9);
    }

    #[test]
    fn what_was_not_measured_is_no_ratio() {
        let error = row("rivals = [['another', 'Another']]").err().expect("refused").to_string();
        assert!(error.contains("nothing of another"), "{error}");
    }
}
