//! What `firn jobs` shows.

use firn_job_service::proto::job_row::State;

use super::*;

/// As a program reads it.
const PLAIN: Width = Width(None);

fn row(state: State, number: u64) -> proto::JobRow {
    let mut row = proto::JobRow {
        key: Some(proto::JobKey { client: vec![7; 16].into(), number }),
        weight: 1.0,
        ..Default::default()
    };
    row.set_state(state);
    row
}

/// What people see of so many jobs that wait, that run and that ended, where there are as many as
/// the control plane says.
fn shown_of([waiting, running, done]: [u64; 3], all_waiting: u64, all_running: u64) -> String {
    let states = [(State::Waiting, waiting), (State::Running, running), (State::Done, done)];
    let jobs = states.into_iter().flat_map(|(state, count)| (0..count).map(move |at| row(state, at)));
    let list = proto::ListReply {
        jobs: jobs.collect(),
        waiting: all_waiting,
        running: all_running,
        ..Default::default()
    };
    shown(&list, false, PLAIN)
}

fn worker(name: &str) -> proto::WorkerRow {
    proto::WorkerRow { name: name.to_owned(), slots: 2, build: "firn 0.1.0".to_owned(), ..Default::default() }
}

/// A worker that is well, one that fails with much to say, one that is lost and one that is silent.
fn troubled() -> proto::ListReply {
    let failing = "3 failed at /srv/a-long-name/of-a-directory/that-nobody-can-read: cannot open \
                   /srv/a-long-name/of-a-directory/that-nobody-can-read/000017.table: Permission denied (os error 13)";
    let failing = proto::WorkerRow { failing: failing.to_owned(), ..worker("worker-2") };
    let lost = proto::WorkerRow {
        lost_ms: Some(2500),
        lost_jobs: "its 2 jobs went to worker-1".to_owned(),
        ..worker("a-worker-with-a-long-name-of-its-own")
    };
    let silent =
        proto::WorkerRow { quiet_ms: 11_000, zone: "eu-central-1a".to_owned(), ..worker("worker-4") };
    let mut job = row(State::Running, 12_345);
    job.worker = "a-worker-with-a-long-name-of-its-own".to_owned();
    job.tenant = "/srv/a-long-name/of-a-directory/that-nobody-can-read".to_owned();
    (job.input_bytes, job.done_bytes, job.age_ms, job.attempts) = (100 << 20, 50 << 20, 61_000, 2);
    job.failure = failing.failing.clone();
    proto::ListReply {
        jobs: vec![job],
        workers: vec![worker("worker-1"), failing, lost, silent],
        running: 1,
        lease_ms: 10_000,
        ..Default::default()
    }
}

#[test]
fn what_is_wrong_is_readable_in_80_columns_and_whole() {
    let list = troubled();
    let text = shown(&list, false, Width(Some(80)));
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(text.starts_with("workers: 1 ready, 1 failing, 1 lost, 1 silent; jobs: 1 running"), "{text}");
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let lost = "lost a-worker-with-a-long-name-of-its-own, 2.5 s ago; its 2 jobs went to worker-1";
    for whole in ["WORKER STATE JOBS DONE", "worker-4 silent 0/2", "Permission denied (os error 13)", lost] {
        assert!(flat.contains(whole), "no {whole:?} in {text}");
    }
    assert!(flat.contains("running 07070707.12345 background 100 MiB 50 % 1 min 1 s 2 "), "{text}");
    // A program gets each row and each reason in a line of its own.
    let plain = shown(&list, false, PLAIN);
    assert!(plain.lines().any(|line| line.trim() == list.workers[1].failing), "{plain}");
    let narrow = shown(&list, false, Width(Some(40)));
    assert!(narrow.contains("failing") && narrow.contains("lost"), "{narrow}");
    let mut reasons = narrow.lines().filter(|line| line.starts_with("  "));
    assert!(reasons.all(|line| line.chars().count() <= 40), "a word that is longer is broken: {narrow}");
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
fn a_list_of_everything_has_no_such_line() {
    // Jobs that ended are never counted so, and of fewer than are listed none is left out.
    for (listed, waiting, running) in [([0, 0, 0], 0, 0), ([3, 2, 1000], 3, 2), ([3, 2, 1], 2, 0)] {
        let shown = shown_of(listed, waiting, running);
        assert!(!shown.contains("more that"), "{shown}");
    }
}

#[test]
fn a_speed_is_shown_once_it_is_measured() {
    // The last two control planes are older, and say what they believe.
    for (jobs_done, near_bytes_per_second, speed) in
        [(0, 0.0, "-"), (3, 0.0, "-"), (3, 7.6e6, "7.2"), (0, 1e9, "-"), (3, 1e9, "954")]
    {
        let row = proto::WorkerRow { jobs_done, near_bytes_per_second, ..worker("one") };
        let list = proto::ListReply { workers: vec![row], ..Default::default() };
        let shown = shown(&list, false, PLAIN);
        let words = shown.lines().nth(3).map(|line| line.split_whitespace().nth(4).unwrap_or_default());
        assert_eq!(words, Some(speed), "{shown}");
    }
}

#[test]
fn stages_are_shown_where_they_are_asked_for() {
    let (queued_us, opened_us, ran_us, read_us, write_us) = (1500, 2000, 30_000, 4000, 8000);
    let (waiting, running, done, failed) = (State::Waiting, State::Running, State::Done, State::Failed);
    let row =
        |state: State| proto::JobRow { queued_us, opened_us, ran_us, read_us, write_us, ..row(state, 1) };
    let list = proto::ListReply {
        jobs: [waiting, running, done, failed].map(row).to_vec(),
        waiting: 1,
        running: 1,
        ..Default::default()
    };
    let text = shown(&list, true, PLAIN);
    let lines: Vec<&str> = text.lines().filter(|line| line.contains("queue")).map(str::trim).collect();
    let all = "queue 1.5, open 2.0, read 4.0, merge 16.0, write 8.0 ms";
    // What runs, what waits, and what ended, the newest first.
    assert_eq!(lines, ["queue 1.5, ran 30.0 ms", "queue 1.5 ms", "queue 1.5 ms", all]);
    assert!(!shown(&list, false, PLAIN).contains("queue"));
}

#[test]
fn a_job_has_a_short_name_and_a_long_one() {
    let key = JobKey { client: 0x0123_4567_89ab_cdef_0123_4567_89ab_cdef, number: 42 };
    assert_eq!(words::short_name(key), "01234567.42");
    assert_eq!(words::parse_key(&words::long_name(key)), Some(key));
    for name in ["01234567.42", "0.42", "0123456789ABCDEF.42"] {
        assert!(words::is_called(key, name), "{name}");
    }
    for name in ["01234567.4", "1234567.42", "01234567", ""] {
        assert!(!words::is_called(key, name), "{name}");
    }
    let listed = listed(&troubled());
    assert_eq!(listed["jobs"][0]["job"], format!("{}.12345", "07".repeat(16)));
    assert_eq!(listed["jobs"][0]["short"], "07070707.12345");
    let states: Vec<&str> =
        listed["workers"].as_array().into_iter().flatten().filter_map(|row| row["state"].as_str()).collect();
    assert_eq!(states, ["ready", "failing", "lost", "silent"]);
}
