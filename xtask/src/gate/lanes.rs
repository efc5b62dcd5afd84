//! Runs steps, and says what each took.
//!
//! ```text
//!   first ──► main   (tests wait much)      ──► last ──► the table
//!        └──► beside (what computes alone) ─┘
//! ```
//! Steps of `beside` have a low priority: they take the processor time that tests leave. Their
//! output is shown when they end.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::step::{Outcome, Output, Step};
use super::tally::Tally;

/// The steps of one run of the gate.
#[derive(Default)]
pub(super) struct Lanes {
    pub(super) first: Vec<Step>,
    pub(super) main: Vec<Step>,
    pub(super) beside: Vec<Step>,
    pub(super) last: Vec<Step>,
}

/// What came of a step.
#[derive(Debug)]
struct Ended {
    name: String,
    time: Duration,
    tally: Tally,
    /// Why it was left out, if it was.
    left_out: Option<String>,
    /// What tests of it that failed said.
    failures: String,
}

impl Lanes {
    /// In the order in which they begin; each with whether it runs beside others.
    pub(super) fn steps(&self) -> impl Iterator<Item = (&Step, bool)> {
        let lanes = [(&self.first, false), (&self.main, false), (&self.beside, true), (&self.last, false)];
        lanes.into_iter().flat_map(|(lane, is_beside)| lane.iter().map(move |step| (step, is_beside)))
    }

    /// Runs every step even after a failure, so that one run shows all there is to mend; true if
    /// nothing failed.
    pub(super) fn run(&self, root: &Path, lacking: &[&str]) -> bool {
        let start = now();
        let (begun, all) = (AtomicUsize::new(0), self.steps().count());
        let lane = |steps: &[Step], output: Output| -> Vec<Ended> {
            let numbered = |step| {
                let number = begun.fetch_add(1, Ordering::Relaxed) + 1;
                run_step(step, &format!("{number} of {all}"), root, lacking, output)
            };
            steps.iter().map(numbered).collect()
        };
        let mut ended = lane(&self.first, Output::Shown);
        std::thread::scope(|scope| {
            let beside = scope.spawn(|| lane(&self.beside, Output::Kept));
            ended.extend(lane(&self.main, Output::Shown));
            match beside.join() {
                Ok(others) => ended.extend(others),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        });
        ended.extend(lane(&self.last, Output::Shown));
        let mut total = Tally::default();
        for step in &ended {
            total += step.tally;
        }
        let failures: String = ended.iter().map(|step| step.failures.as_str()).collect();
        println!("\n{}{total}\n{failures}", table(ended, start.elapsed()));
        total.failed == 0
    }
}

fn run_step(step: &Step, number: &str, root: &Path, lacking: &[&str], output: Output) -> Ended {
    let name = step.name.clone();
    if let Some(reason) = step.left_out(lacking) {
        println!("\n== {number}, {name}: left out, {reason}");
        return Ended {
            name,
            time: Duration::ZERO,
            tally: Tally::default(),
            left_out: Some(reason),
            failures: String::new(),
        };
    }
    let beside = if output == Output::Kept { " (beside others; its output follows)" } else { "" };
    println!("\n== {number}, {name}: {}{beside}", step.shown());
    let start = now();
    let Outcome { tally, kept, failures } = step.run(root, output);
    let time = start.elapsed();
    // In one piece: other steps print meanwhile.
    println!("{kept}-- {name}: {:.1} s, {tally}", time.as_secs_f64());
    Ended { name, time, tally, left_out: None, failures: failures.into_text() }
}

/// One line for each step, the longest first, and their sum beside what passed on the clock.
fn table(mut ended: Vec<Ended>, passed: Duration) -> String {
    ended.sort_by_key(|step| std::cmp::Reverse(step.time));
    let sum: Duration = ended.iter().map(|step| step.time).sum();
    let mut lines: Vec<String> = ended
        .into_iter()
        .map(|step| {
            let result = match step.left_out {
                Some(reason) => format!("left out: {reason}"),
                None => step.tally.to_string(),
            };
            format!("{:<28} {:>7.1} s   {result}", step.name, step.time.as_secs_f64())
        })
        .collect();
    lines.push(format!("{:<28} {:>7.1} s", "sum of the steps", sum.as_secs_f64()));
    lines.push(format!("{:<28} {:>7.1} s   by the clock", "total", passed.as_secs_f64()));
    lines.push(String::new());
    lines.join("\n")
}

#[expect(clippy::disallowed_methods, reason = "the one place where the gate reads the clock")]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_step_is_first_and_the_clock_is_not_the_sum() {
        let ended = |name: &str, seconds, left_out: Option<&str>| Ended {
            name: name.to_owned(),
            time: Duration::from_secs(seconds),
            tally: Tally::one(true),
            left_out: left_out.map(str::to_owned),
            failures: String::new(),
        };
        let steps = vec![ended("tidy", 1, None), ended("fuzz", 0, Some("why")), ended("tests", 60, None)];
        let table = table(steps, Duration::from_secs(50));
        let lines: Vec<&str> = table.lines().map(str::trim_end).collect();
        let starts = ["tests ", "tidy ", "fuzz ", "sum of the steps ", "total "];
        assert!(lines.iter().zip(starts).all(|(line, start)| line.starts_with(start)), "{table}");
        assert!(lines[2].ends_with("left out: why") && lines[3].ends_with("61.0 s"), "{table}");
        assert!(lines[4].ends_with("50.0 s   by the clock"), "{table}");
    }

    #[test]
    fn a_step_that_fails_in_any_lane_fails_the_gate() {
        let step = |script: &str| Step::call(script, "sh", &["-c", script]);
        let lanes = |of: usize| {
            let mut lanes = Lanes::default();
            let Lanes { first, main, beside, last } = &mut lanes;
            for (at, lane) in [first, main, beside, last].into_iter().enumerate() {
                lane.push(step(if at == of { "exit 1" } else { "exit 0" }));
            }
            lanes
        };
        for of in 0..4 {
            assert!(!lanes(of).run(Path::new("."), &[]), "lane {of}");
        }
        assert!(lanes(4).run(Path::new("."), &[]));
        let order: Vec<bool> = lanes(4).steps().map(|(_, is_beside)| is_beside).collect();
        assert_eq!(order, [false, false, true, false]);
    }
}
