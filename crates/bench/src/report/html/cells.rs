//! Results ordered as a table of engines by workloads, each cell holding its repetitions.

use crate::report::PhaseResult;

/// Results by engine and workload, both in order of first appearance.
#[derive(Clone, Debug)]
pub struct Cells<'r> {
    results: &'r [PhaseResult],
    engines: Vec<&'r str>,
    workloads: Vec<&'r str>,
}

/// Median, smallest and greatest of repetitions.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spread {
    /// Middle value; mean of the two middle ones for an even number.
    pub median: f64,
    /// Smallest.
    pub low: f64,
    /// Greatest.
    pub high: f64,
}

impl Spread {
    /// Of `values`; `None` if there are none.
    pub fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let (low, high) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median = if values.len() % 2 == 1 {
            values[middle]
        } else {
            f64::midpoint(values[middle - 1], values[middle])
        };
        Some(Self { median, low, high })
    }
}

impl<'r> Cells<'r> {
    /// The table of `results`.
    pub fn new(results: &'r [PhaseResult]) -> Self {
        let mut cells = Self { results, engines: Vec::new(), workloads: Vec::new() };
        for result in results {
            if !cells.engines.contains(&result.context.engine.as_str()) {
                cells.engines.push(&result.context.engine);
            }
            if !cells.workloads.contains(&result.context.workload.as_str()) {
                cells.workloads.push(&result.context.workload);
            }
        }
        cells
    }

    /// Names of the engines.
    pub fn engines(&self) -> &[&'r str] {
        &self.engines
    }

    /// Names of the workloads.
    pub fn workloads(&self) -> &[&'r str] {
        &self.workloads
    }

    /// Every result.
    pub fn all(&self) -> impl Iterator<Item = &'r PhaseResult> {
        self.results.iter()
    }

    /// The repetitions of one cell.
    pub fn cell(&self, engine: &str, workload: &str) -> impl Iterator<Item = &'r PhaseResult> {
        self.results
            .iter()
            .filter(move |result| result.context.engine == engine && result.context.workload == workload)
    }

    /// Spread of a measure over the repetitions of one cell; `None` if no repetition has it.
    pub fn spread(
        &self,
        engine: &str,
        workload: &str,
        measure: impl Fn(&PhaseResult) -> Option<f64>,
    ) -> Option<Spread> {
        Spread::of(self.cell(engine, workload).filter_map(measure).collect())
    }

    /// Most repetitions of any cell.
    pub fn repetitions(&self) -> usize {
        self.results.iter().map(|result| result.context.repetition as usize).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::Spread;

    #[test]
    fn spreads_are_medians_and_extremes() {
        assert_eq!(Spread::of(vec![3.0, 1.0, 2.0]), Some(Spread { median: 2.0, low: 1.0, high: 3.0 }));
        assert_eq!(Spread::of(vec![4.0, 1.0]), Some(Spread { median: 2.5, low: 1.0, high: 4.0 }));
        assert_eq!(Spread::of(Vec::new()), None);
    }
}
