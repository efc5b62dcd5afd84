//! What a control plane knows, as text for people.

use std::io::IsTerminal;
use std::time::Duration;

use firn_job_service::proto;

use super::table::{Column, lines, wrapped};
use super::words;

/// Characters in a line; `None` = nothing is cut or broken: a program may read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Width(pub(super) Option<usize>);

/// Where a terminal does not say how wide it is.
const USUAL_WIDTH: usize = 80;

impl Width {
    /// That of standard output.
    pub(super) fn of_output() -> Self {
        let out = std::io::stdout();
        Self(out.is_terminal().then(|| {
            let size = rustix::termios::tcgetwinsize(&out).ok().map(|size| usize::from(size.ws_col));
            size.filter(|columns| *columns > 0).unwrap_or(USUAL_WIDTH)
        }))
    }
}

const WORKERS: [Column; 8] = [
    Column::cut("WORKER", 10),
    Column::text("STATE"),
    Column::number("JOBS"),
    Column::number("DONE"),
    Column::number("READS/S"),
    Column::number("HEARD"),
    Column::cut("ZONE", 4),
    Column::cut("BUILD", 10),
];

const JOBS: [Column; 10] = [
    Column::text("STATE"),
    Column::text("JOB"),
    Column::text("KIND"),
    Column::number("SIZE"),
    Column::number("READ"),
    Column::number("AGE"),
    Column::number("TRIES"),
    Column::cut("WORKER", 8),
    Column::number("WEIGHT"),
    Column::cut("TENANT", 8),
];

/// What is below a row that has more to say.
const INDENT: &str = "  ";

/// Workers and jobs, each with what is wrong with it below; and what the stages of jobs took if
/// `stages`.
pub(super) fn shown(list: &proto::ListReply, stages: bool, Width(width): Width) -> String {
    let mut out: Vec<String> = wrapped(&summary(list), "", width);
    out.push(String::new());
    let rows: Vec<Vec<String>> = list.workers.iter().map(|row| worker(row, list)).collect();
    let mut table = lines(&WORKERS, &rows, width).into_iter();
    out.extend(table.next().filter(|_| !rows.is_empty()));
    for (row, line) in list.workers.iter().zip(table) {
        out.push(line);
        out.extend(
            wrapped(&words::trouble_of_worker(row), INDENT, width).into_iter().filter(|it| it != INDENT),
        );
    }
    if list.workers.is_empty() {
        out.push("no worker has been heard of: start one with `firn worker --control-plane URL`".to_owned());
    }
    out.push(String::new());
    let jobs = words::in_order(list);
    let rows: Vec<Vec<String>> = jobs.iter().map(|row| job(row)).collect();
    let mut table = lines(&JOBS, &rows, width).into_iter();
    out.extend(table.next().filter(|_| !rows.is_empty()));
    for (row, line) in jobs.into_iter().zip(table) {
        out.push(line);
        if stages {
            out.extend(wrapped(&stages_of(row), INDENT, width));
        }
        // Why an attempt failed of a job that is done says `firn jobs show`.
        let failure = if row.state() == proto::job_row::State::Done { "" } else { &row.failure };
        out.extend(wrapped(failure, INDENT, width).into_iter().filter(|it| it != INDENT));
    }
    if list.jobs.is_empty() {
        out.push("no job has been handed in yet".to_owned());
    }
    out.extend(left_out(list));
    out.join("\n") + "\n"
}

/// How it is, in a line.
fn summary(list: &proto::ListReply) -> String {
    let states: Vec<&str> = list.workers.iter().map(|row| words::state_of_worker(row, list)).collect();
    let of = |state: &str| states.iter().filter(|it| **it == state).count();
    let counted = ["ready", "failing", "lost", "silent", "ending"].into_iter().filter_map(|state| {
        let count = of(state);
        (count > 0).then(|| format!("{count} {state}"))
    });
    let counted: Vec<String> = counted.collect();
    let workers = if counted.is_empty() { "none".to_owned() } else { counted.join(", ") };
    format!(
        "workers: {workers}; jobs: {} running, {} waiting ({})",
        list.running,
        list.waiting,
        words::bytes(list.waiting_bytes as f64)
    )
}

fn worker(row: &proto::WorkerRow, list: &proto::ListReply) -> Vec<String> {
    // A control plane of before says what it believes of a worker without any job.
    let is_measured = row.jobs_done > 0 && row.near_bytes_per_second > 0.0;
    vec![
        row.name.clone(),
        words::state_of_worker(row, list).to_owned(),
        format!("{}/{}", row.running, row.slots),
        row.jobs_done.to_string(),
        if is_measured { words::bytes(row.near_bytes_per_second) } else { "-".to_owned() },
        words::time(Duration::from_millis(row.quiet_ms)),
        row.zone.clone(),
        row.build.clone(),
    ]
}

fn job(row: &proto::JobRow) -> Vec<String> {
    let share = 100.0 * row.done_bytes as f64 / (row.input_bytes.max(1)) as f64;
    let key = row.key.as_ref().and_then(words::key_of);
    vec![
        words::state_of_job(row).to_owned(),
        key.map(words::short_name).unwrap_or_default(),
        words::kind_of_job(row).to_owned(),
        words::bytes(row.input_bytes as f64),
        format!("{:.0} %", share.min(100.0)),
        words::time(Duration::from_millis(row.age_ms)),
        row.attempts.to_string(),
        row.worker.clone(),
        // What all jobs have says nothing.
        if row.weight == 1.0 || row.weight == 0.0 { String::new() } else { row.weight.to_string() },
        row.tenant.clone(),
    ]
}

/// Jobs that the control plane does not list.
fn left_out(list: &proto::ListReply) -> Option<String> {
    let left = |all: u64, state| {
        all.saturating_sub(list.jobs.iter().filter(|row| row.state() == state).count() as u64)
    };
    let waiting = left(list.waiting, proto::job_row::State::Waiting);
    let running = left(list.running, proto::job_row::State::Running);
    (waiting + running > 0).then(|| format!("and {waiting} more that wait, {running} more that run"))
}

/// What the stages of a job took, where that is known.
fn stages_of(row: &proto::JobRow) -> String {
    let ms = |us: u64| format!("{:.1}", us as f64 / 1e3);
    let queue = format!("queue {}", ms(row.queued_us));
    match row.state() {
        proto::job_row::State::Done => {
            // Workers say what they like.
            let waits = [row.opened_us, row.read_us, row.write_us];
            let merge = waits.iter().fold(row.ran_us, |left, wait| left.saturating_sub(*wait));
            let [open, read, merge, write] = [row.opened_us, row.read_us, merge, row.write_us].map(ms);
            format!("{queue}, open {open}, read {read}, merge {merge}, write {write} ms")
        }
        proto::job_row::State::Running => format!("{queue}, ran {} ms", ms(row.ran_us)),
        _ => format!("{queue} ms"),
    }
}

/// All about one job, a line for each thing.
pub(super) fn in_detail(row: &proto::JobRow) -> String {
    let key = row.key.as_ref().and_then(words::key_of);
    let stalls = row.stalls_in_ms.map(|ms| format!("in {}", words::time(Duration::from_millis(ms))));
    let pairs = [
        ("job", key.map(words::long_name).unwrap_or_default()),
        ("state", words::state_of_job(row).to_owned()),
        ("kind", words::kind_of_job(row).to_owned()),
        ("worker", row.worker.clone()),
        ("tries", row.attempts.to_string()),
        ("size", words::bytes(row.input_bytes as f64)),
        ("read", words::bytes(row.done_bytes as f64)),
        ("age", words::time(Duration::from_millis(row.age_ms))),
        ("stages", stages_of(row)),
        ("tenant", row.tenant.clone()),
        ("weight", row.weight.to_string()),
        ("location", row.location.clone()),
        ("writers stop", stalls.unwrap_or_default()),
        ("failure", row.failure.clone()),
    ];
    let pairs = pairs.into_iter().filter(|(_, value)| !value.is_empty());
    pairs.map(|(name, value)| format!("{name:<12}  {value}\n")).collect()
}
