use std::net::TcpListener;

use super::*;
use crate::resp::{Keys, RespCommand};
use crate::workload::ValuePool;

fn task(schedule: Option<Schedule>) -> Task {
    let keys = Keys::Uniform.over(10);
    Task {
        requests: Requests::new(RespCommand::Set, keys, ValuePool::new(8, 1), 8, 1),
        kind: Kind::Update,
        pipeline: 4,
        quota: 10,
        end: Some(Duration::from_secs(1)),
        schedule,
        stops_at_errors: true,
    }
}

fn ago(seconds: u64) -> Instant {
    now().checked_sub(Duration::from_secs(seconds)).expect("the machine has run for so long")
}

#[test]
fn patience_ends_with_silence_and_with_lateness() {
    let (gauge, stop) = (Gauge::new(true), AtomicBool::new(false));
    let check = |begun: Instant, outstanding: u64, waiting_since_s: u64, schedule: Option<Schedule>| {
        let mut worker = Worker::new(task(schedule), Vec::new(), &gauge, &stop).expect("a worker");
        worker.begun = begun;
        worker.outstanding = outstanding;
        worker.waiting_since = Duration::from_secs(waiting_since_s);
        worker.check_patience().map_err(|error| error.to_string())
    };
    assert!(check(ago(40), 3, 0, None).unwrap_err().contains("silent for 30 s with 3 requests"));
    assert_eq!(check(ago(40), 3, 20, None), Ok(()), "an answer came 20 s ago");
    assert_eq!(check(ago(40), 0, 0, None), Ok(()), "nothing was asked");
    let schedule = || Some(Schedule::new(10.0, 1, 0));
    let error = check(ago(40), 3, 39, schedule()).unwrap_err();
    assert!(error.contains("does not keep the rate") && error.contains("13 are not answered"), "{error}");
    assert_eq!(check(ago(20), 3, 19, schedule()), Ok(()), "there is time left");
}

/// No server reads what is asked: no more than the pipeline is outstanding, and the rest stays due.
#[test]
fn an_open_loop_asks_no_more_than_the_pipelines_hold() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let sockets: Vec<_> =
        (0..2).map(|_| TcpStream::connect(listener.local_addr().unwrap()).unwrap()).collect();
    let (gauge, stop) = (Gauge::new(true), AtomicBool::new(false));
    let mut worker = Worker::new(task(Some(Schedule::new(100.0, 1, 0))), sockets, &gauge, &stop).unwrap();
    worker.begun = ago(5);
    worker.dispatch().unwrap();
    assert_eq!((worker.outstanding, worker.task.quota), (8, 2));
    assert!(worker.has_more(u64::MAX), "what was due is asked, however late");
    let count = |worker: &mut Worker<'_>, count| {
        worker.count(1, Answers { count, ..Answers::default() }).map_err(|error| error.to_string())
    };
    count(&mut worker, 3).unwrap();
    worker.dispatch().unwrap();
    assert_eq!((worker.outstanding, worker.task.quota), (7, 0));
    assert!(worker.recorder.latencies.percentiles().min_us > 4_000_000.0, "since they were due");
    assert!(count(&mut worker, 4).unwrap_err().contains("more than it was asked"));
}
