//! The program as the experiment of crate `firn-bench` has it: `experiment/caas/simulated.rs`,
//! whose words and rows these are.

use std::process::Command;

/// As there, at its smallest scale.
const WORDS: [&str; 15] = [
    "fleet",
    "--databases",
    "100",
    "--workers",
    "20",
    "--slots",
    "2",
    "--zones",
    "2",
    "--seconds",
    "60",
    "--load",
    "1.2",
    "--seed",
    "1",
];

const ROWS: [&str; 5] = ["Ideal", "Schedule", "LeastLoaded", "Fifo", "Random"];

#[test]
fn the_experiment_finds_how_long_writers_stand_still_by_each_scheduler() {
    let output = Command::new(env!("CARGO_BIN_EXE_firn-sim")).args(WORDS).output().expect("the program runs");
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("text");
    let header = text.lines().nth(1).expect("a header");
    assert!(header.split_whitespace().take(3).eq(["decider", "stalled", "s"]), "{header}");
    let stalled = ROWS.map(|row| {
        let lines: Vec<_> = text.lines().filter_map(|line| line.strip_prefix(row)).collect();
        assert_eq!(lines.len(), 1, "rows that begin with {row}:\n{text}");
        let number = lines[0].split_whitespace().next().and_then(|number| number.parse::<f64>().ok());
        number.unwrap_or_else(|| panic!("no number after {row}:\n{text}"))
    });
    let [ideal, ours, others @ ..] = stalled;
    assert!(ideal <= ours && others.iter().all(|other| ours * 5.0 < *other), "{text}");
}
