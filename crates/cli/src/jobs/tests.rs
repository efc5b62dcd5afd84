//! What `firn jobs` shows.

use firn_job_service::proto::job_row::State;

use super::*;

/// What people see of so many jobs that wait, that run and that ended, where there are as many as
/// the control plane says.
fn shown_of([waiting, running, done]: [u64; 3], all_waiting: u64, all_running: u64) -> String {
    let states = [(State::Waiting, waiting), (State::Running, running), (State::Done, done)];
    let row = |state: State, number| proto::JobRow {
        key: Some(proto::JobKey { client: vec![7; 16].into(), number }),
        state: state.into(),
        ..Default::default()
    };
    let jobs = states.into_iter().flat_map(|(state, count)| (0..count).map(move |at| row(state, at)));
    let (jobs, workers) = (jobs.collect(), Vec::new());
    shown(&proto::ListReply { jobs, workers, waiting: all_waiting, running: all_running }, Shows::default())
}

#[test]
fn what_the_list_leaves_out_is_counted_in_its_last_line() {
    for (listed, waiting, running, line) in [
        ([1000, 2, 7], 100_000, 2, "and 99000 more that wait, 0 more that run"),
        ([3, 1000, 7], 3, 1001, "and 0 more that wait, 1 more that run"),
        ([1000, 1000, 0], 1004, 1005, "and 4 more that wait, 5 more that run"),
    ] {
        let shown = shown_of(listed, waiting, running);
        assert_eq!(shown.lines().last(), Some(line));
        let rows = |state: &str| shown.lines().filter(|line| line.starts_with(state)).count() as u64;
        assert_eq!(["waiting ", "running ", "done "].map(rows), listed);
    }
}

#[test]
fn a_speed_is_shown_once_it_is_measured() {
    // The last two control planes are older, and say what they believe.
    for (jobs_done, near_bytes_per_second, speed) in
        [(0, 0.0, "-"), (3, 0.0, "-"), (3, 7.6e6, "8"), (0, 1e9, "-"), (3, 1e9, "1000")]
    {
        let row = proto::WorkerRow {
            name: "one".to_owned(),
            zone: "z".to_owned(),
            jobs_done,
            near_bytes_per_second,
            ..Default::default()
        };
        let shown = shown(&proto::ListReply { workers: vec![row], ..Default::default() }, Shows::default());
        let words = shown.lines().nth(1).map(|line| line.split_whitespace().nth(4).unwrap_or_default());
        assert_eq!(words, Some(speed), "{shown}");
    }
}

#[test]
fn stages_are_shown_where_they_are_asked_for() {
    let (queued_us, opened_us, ran_us, read_us, write_us) = (1500, 2000, 30_000, 4000, 8000);
    let (waiting, running, done, failed) = (State::Waiting, State::Running, State::Done, State::Failed);
    let row = |state: State| {
        let mut row = proto::JobRow { queued_us, opened_us, ran_us, read_us, write_us, ..Default::default() };
        row.set_state(state);
        row
    };
    let list = proto::ListReply {
        jobs: [waiting, running, done, failed].map(row).to_vec(),
        waiting: 1,
        running: 1,
        ..Default::default()
    };
    let shown = |stages| shown(&list, Shows { stages });
    let text = shown(true);
    let lines: Vec<&str> = text.lines().filter(|line| line.contains("queue")).map(str::trim).collect();
    let all = "queue 1.5, open 2.0, read 4.0, merge 16.0, write 8.0 ms";
    assert_eq!(lines, ["queue 1.5 ms", "queue 1.5, ran 30.0 ms", all, "queue 1.5 ms"]);
    assert!(!shown(false).contains("queue"));
}

#[test]
fn a_list_of_everything_has_no_such_line() {
    // Jobs that ended are never counted so, and of fewer than are listed none is left out.
    for (listed, waiting, running) in [([0, 0, 0], 0, 0), ([3, 2, 1000], 3, 2), ([3, 2, 1], 2, 0)] {
        let shown = shown_of(listed, waiting, running);
        assert!(!shown.contains("more that"), "{shown}");
    }
}
