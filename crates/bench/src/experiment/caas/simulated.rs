//! What the simulator says of the schedulers, by the program `firn-sim`.

use std::process::Command;

use firn_engine::{Error, Result};

use super::cluster::beside;
use super::run::Bench;
use crate::process::Process;
use crate::report::{Finding, Verdict, figure};

/// The load at which workers are about enough (1 = all are busy by what databases write on
/// average).
const LOAD: &str = "1.2";

/// Stall time of a simulated fleet by each scheduler, as a finding; what went wrong if nothing can
/// be said.
pub(super) fn finding(bench: &Bench<'_>, part: &str) -> Finding {
    let claim = "simulated, 100 databases on 20 workers, our goal: a fifth of random's stall time".to_owned();
    let (figure, verdict) = match run(bench).and_then(|text| judge(&text)) {
        Ok(found) => found,
        Err(error) => (error.to_string(), Verdict::Failed),
    };
    Finding { part: part.to_owned(), claim, figure, verdict }
}

fn run(bench: &Bench<'_>) -> Result<String> {
    let program = beside(bench.args.simulator.as_deref(), "firn-sim")?;
    let seconds = bench.plan.simulated_seconds.to_string();
    eprintln!("{seconds} s of a fleet, simulated");
    let mut command = Command::new(program);
    command.args(["fleet", "--databases", "100", "--workers", "20", "--slots", "2", "--zones", "2"]);
    command.args(["--seconds", &seconds, "--load", LOAD, "--seed", &bench.args.seed.to_string()]);
    let logs = bench.logs()?;
    Process::start("simulator", command, &logs)?.wait(bench.plan.run_max, |_| Ok(()))?;
    std::fs::read_to_string(logs.join("simulator.out"))
        .map_err(|error| Error::invalid("cannot read what the simulator said").because(error))
}

/// Rows of the simulator, and what results call them.
const ROWS: [(&str, &str); 5] = [
    ("Ideal", "ideal"),
    ("Schedule", "urgency"),
    ("LeastLoaded", "least-loaded"),
    ("Fifo", "fifo"),
    ("Random", "random"),
];

fn judge(text: &str) -> Result<(String, Verdict)> {
    let stalled = |row: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(row)?.split_whitespace().next());
        line.and_then(|number| number.parse::<f64>().ok())
            .ok_or_else(|| Error::invalid(format!("the simulator says nothing of {row}")))
    };
    let mut shown = Vec::new();
    for (row, name) in ROWS {
        shown.push(format!("{name} {}", figure(stalled(row)?)));
    }
    let (ours, random) = (stalled("Schedule")?, stalled("Random")?);
    let verdict = match () {
        () if ours * 5.0 <= random => Verdict::AsClaimed,
        () if ours < random => Verdict::SameDirection,
        () => Verdict::NotSeen,
    };
    Ok((format!("{}; s of all writers at load {LOAD}", shown.join(", ")), verdict))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_simulators_table_is_read_by_its_names() {
        let rows = |ours: u32| {
            format!(
                "100 databases\ndecider stalled s\nIdeal 1 1\nSchedule {ours} 2\nLeastLoaded 30 2\nFifo 40 2\nRandom 50 3\n"
            )
        };
        let (figure, verdict) = judge(&rows(10)).unwrap();
        assert!(
            figure.starts_with("ideal 1.00, urgency 10.0, least-loaded 30.0, fifo 40.0, random 50.0"),
            "{figure}"
        );
        assert_eq!(verdict, Verdict::AsClaimed);
        assert_eq!(
            [11, 50].map(|ours| judge(&rows(ours)).unwrap().1),
            [Verdict::SameDirection, Verdict::NotSeen]
        );
        assert!(judge("Ideal 1\n").unwrap_err().to_string().contains("Schedule"));
    }
}
