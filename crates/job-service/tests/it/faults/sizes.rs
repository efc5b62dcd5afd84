//! S3: a worker asks for work with 4 294 967 295 slots while three jobs wait. Its neighbours: every
//! other count, text and number that a peer sends, one more than each bound. And weights that are
//! no number, and many workers, each within its bound.

use firn_job_service::{BOUNDS, Beyond, Bound, proto};
use proto::jobs_client::JobsClient;
use proto::workers_client::WorkersClient;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

use crate::scene::{Scene, any_port, url};

/// Both sides of a control plane, asked message by message.
struct Peer {
    runtime: tokio::runtime::Runtime,
    jobs: JobsClient<Channel>,
    workers: WorkersClient<Channel>,
}

impl Peer {
    fn of(at: std::net::SocketAddr) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let endpoint = Endpoint::from_shared(url(at)).unwrap();
        let channel = runtime.block_on(endpoint.connect()).unwrap();
        // Answers may be as long as what they answer.
        let (jobs, workers) = (JobsClient::new(channel.clone()), WorkersClient::new(channel));
        Self { runtime, jobs, workers }
    }

    fn submit(&mut self, request: proto::SubmitRequest) -> Result<(), Status> {
        self.runtime.block_on(self.jobs.submit(request)).map(drop)
    }

    fn follow(&mut self, request: proto::FollowRequest) -> Result<(), Status> {
        self.runtime.block_on(self.jobs.follow(request)).map(drop)
    }

    fn pull(&mut self, worker: proto::Worker) -> Result<(), Status> {
        self.ask(proto::PullRequest { worker: Some(worker), ..pull() })
    }

    fn ask(&mut self, request: proto::PullRequest) -> Result<(), Status> {
        self.runtime.block_on(self.workers.pull(request)).map(drop)
    }

    fn beat(&mut self, request: proto::BeatRequest) -> Result<(), Status> {
        self.runtime.block_on(self.workers.beat(request)).map(drop)
    }
}

fn versions() -> Option<proto::Versions> {
    Some(proto::Versions { min: 1, max: 1 })
}

fn id(number: u128) -> Vec<u8> {
    number.to_be_bytes().to_vec()
}

fn worker(number: u128) -> proto::Worker {
    proto::Worker { id: id(number).into(), slots: 1, spec_version_max: 1, ..Default::default() }
}

fn pull() -> proto::PullRequest {
    proto::PullRequest { versions: versions(), worker: Some(worker(1)), ..Default::default() }
}

fn submit(number: u64) -> proto::SubmitRequest {
    // No worker of these tests has it, so that the jobs wait.
    let needs = vec!["merge:no worker's".to_owned()];
    let key = Some(proto::JobKey { client: id(7).into(), number });
    proto::SubmitRequest { versions: versions(), key, spec_version: 1, needs, ..Default::default() }
}

fn follow() -> proto::FollowRequest {
    proto::FollowRequest { client: id(8).into(), ..Default::default() }
}

/// Jobs that are never asked for, as many as `count`.
fn held(count: usize) -> Vec<proto::Held> {
    let one = |number| {
        let key = Some(proto::JobKey { client: id(9).into(), number });
        proto::Held { key, token: number, ..Default::default() }
    };
    (1..=count as u64).map(one).collect()
}

/// Sends as much as `size` of the field that `bound` is about.
fn send(peer: &mut Peer, bound: &Bound, size: u64) -> Result<(), Status> {
    let (count, text) = (size as usize, |size: u64| "x".repeat(size as usize));
    let numbers = || (0..size).collect::<Vec<_>>();
    let attempts = |attempts| proto::FollowRequest { attempts: Some(attempts), ..follow() };
    match bound.field {
        "Worker.slots" => peer.pull(proto::Worker { slots: size as u32, ..worker(1) }),
        "Worker.name" => peer.pull(proto::Worker { name: text(size), ..worker(1) }),
        "Worker.zone" => peer.pull(proto::Worker { zone: text(size), ..worker(1) }),
        "Worker.build" => peer.pull(proto::Worker { build: text(size), ..worker(1) }),
        "Worker.has" => peer.pull(proto::Worker { has: vec![String::new(); count], ..worker(1) }),
        "a name in Worker.has" => peer.pull(proto::Worker { has: vec![text(size)], ..worker(1) }),
        "Elsewhere.slots" => {
            let elsewhere = Some(proto::Elsewhere { slots: size as u32, ..Default::default() });
            peer.pull(proto::Worker { elsewhere: elsewhere.clone(), ..worker(1) })?;
            peer.beat(proto::BeatRequest { worker: id(1).into(), elsewhere, ..Default::default() })
        }
        "Elsewhere.gives_way_ms" => {
            let elsewhere = Some(proto::Elsewhere { slots: 1, gives_way_ms: vec![u64::MAX; count] });
            peer.pull(proto::Worker { elsewhere, ..worker(1) })
        }
        "PullRequest.held, BeatRequest.held" => {
            peer.beat(proto::BeatRequest { worker: id(1).into(), held: held(count), elsewhere: None })?;
            peer.ask(proto::PullRequest { held: held(count), ..pull() })
        }
        "SubmitRequest.tenant" => peer.submit(proto::SubmitRequest { tenant: text(size), ..submit(1) }),
        "SubmitRequest.location" => peer.submit(proto::SubmitRequest { location: text(size), ..submit(2) }),
        "SubmitRequest.zone" => peer.submit(proto::SubmitRequest { zone: text(size), ..submit(3) }),
        "SubmitRequest.needs" => {
            peer.submit(proto::SubmitRequest { needs: vec!["filter:x".to_owned(); count], ..submit(4) })
        }
        "a name in SubmitRequest.needs" => {
            peer.submit(proto::SubmitRequest { needs: vec![text(size)], ..submit(5) })
        }
        "SubmitRequest.input_bytes" => peer.submit(proto::SubmitRequest { input_bytes: size, ..submit(6) }),
        "SubmitRequest.weight, and 1 divided by it" => {
            peer.submit(proto::SubmitRequest { weight: size as f64, ..submit(7) })?;
            peer.submit(proto::SubmitRequest { weight: 1.0 / size as f64, ..submit(8) })
        }
        "FollowRequest.waiting" => peer.follow(proto::FollowRequest { waiting: numbers(), ..follow() }),
        "FollowRequest.taken" => peer.follow(proto::FollowRequest { taken: numbers(), ..follow() }),
        "FollowRequest.begun" => peer.follow(proto::FollowRequest { begun: numbers(), ..follow() }),
        "Attempts.syncing" => {
            peer.follow(attempts(proto::Attempts { syncing: numbers(), ..Default::default() }))
        }
        "Attempts.tried" => {
            let tried = numbers().into_iter().map(|number| proto::Tried { number, ..Default::default() });
            peer.follow(attempts(proto::Attempts { tried: tried.collect(), ..Default::default() }))
        }
        other => panic!("{other} has a bound that no test sends more than"),
    }
}

/// Bounds that count what many messages bring: the tests of the pool fill it.
const OF_ALL: [&str; 3] = ["Worker.slots of all workers", "workers at a time", "databases at a time"];

#[test]
fn s3_one_more_than_each_bound_is_refused_and_the_bound_is_taken() {
    let mut scene = Scene::new();
    let plane = scene.plane(any_port());
    let mut peer = Peer::of(plane.address());
    for bound in BOUNDS.iter().filter(|bound| bound.beyond == Beyond::Refused) {
        if OF_ALL.contains(&bound.field) {
            continue;
        }
        let refused = send(&mut peer, bound, bound.max + 1).unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{bound:?}: {refused:?}");
        let named = bound.field.split(['.', ' ', ',']).next().unwrap();
        assert!(refused.message().contains(named), "{bound:?}: {refused:?}");
        // Answers about very many jobs name each: those are long, and taking them is tried with
        // fewer.
        send(&mut peer, bound, bound.max.min(16_384)).unwrap();
        if bound.max < 1 << 47 && bound.max != 1 << 20 {
            send(&mut peer, bound, bound.max).unwrap();
        }
    }
}

#[test]
fn s3_slots_beyond_all_memory_are_refused_while_jobs_wait() {
    let mut scene = Scene::new();
    let plane = scene.plane(any_port());
    let mut peer = Peer::of(plane.address());
    for number in 1..=3 {
        peer.submit(submit(number)).unwrap();
    }
    let refused = peer.pull(proto::Worker { slots: u32::MAX, ..worker(1) }).unwrap_err();
    assert!(refused.message().contains("at most 4096 slots of Worker.slots"), "{refused:?}");
    // Many, each of which may have as many as it says.
    let together = (1..=17).map(|number| peer.pull(proto::Worker { slots: 4096, ..worker(number) }));
    let together: Vec<_> = together.collect();
    assert!(together[..16].iter().all(Result::is_ok), "{together:?}");
    let refused = together[16].as_ref().unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert!(refused.message().contains("room for 65536 slots"), "{refused:?}");
    // A known worker may ask again.
    peer.pull(proto::Worker { slots: 4096, ..worker(16) }).unwrap();
}

#[test]
fn s3_weights_that_are_no_number_are_refused() {
    let mut scene = Scene::new();
    let plane = scene.plane(any_port());
    let mut peer = Peer::of(plane.address());
    for weight in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, f64::MIN_POSITIVE, f64::MAX] {
        let refused = peer.submit(proto::SubmitRequest { weight, ..submit(1) }).unwrap_err();
        assert!(refused.message().contains("SubmitRequest.weight from"), "{weight}: {refused:?}");
    }
    // Both zeros mean one.
    for (number, weight) in [(1, 0.0), (2, -0.0), (3, 2.5)] {
        peer.submit(proto::SubmitRequest { weight, ..submit(number) }).unwrap();
    }
}

#[test]
fn s3_the_longest_times_and_texts_of_failures_are_cut() {
    let mut scene = Scene::new();
    let plane = scene.plane(any_port());
    let mut peer = Peer::of(plane.address());
    peer.submit(proto::SubmitRequest { stalls_in_ms: Some(u64::MAX), ..submit(1) }).unwrap();
    // A worker tells of it, and of its end.
    let key = submit(1).key;
    let one = proto::Held { key: key.clone(), token: 5, done_bytes: u64::MAX, ..Default::default() };
    peer.ask(proto::PullRequest { held: vec![one], ..pull() }).unwrap();
    // Two bytes each, so that the cut must find the beginning of one.
    let failure = proto::Failure {
        kind: proto::failure::Kind::Invalid.into(),
        message: format!("x{}", "ä".repeat(100_000)),
    };
    let end = proto::FinishRequest {
        worker: id(1).into(),
        key,
        token: 5,
        outcome: Some(proto::Outcome { is: Some(proto::outcome::Is::Failure(failure)) }),
        opened_us: u64::MAX,
        ran_us: u64::MAX,
        read_us: u64::MAX,
        write_us: u64::MAX,
    };
    assert!(peer.runtime.block_on(peer.workers.finish(end)).unwrap().into_inner().taken);
    let rows = peer.runtime.block_on(peer.jobs.list(proto::ListRequest {})).unwrap().into_inner();
    let row = rows.jobs.iter().find(|row| row.failure.starts_with('x')).unwrap();
    assert_eq!(row.failure.len(), 4095);
    assert_eq!([row.opened_us, row.ran_us, row.read_us, row.write_us], [31_536_000_000_000; 4]);
}

/// The table of SECURITY.md, as the bounds say it.
fn table() -> String {
    let row = |bound: &Bound| {
        let Bound { field, max, unit, beyond } = bound;
        let what = match beyond {
            Beyond::Refused => "refused, and nothing is done",
            Beyond::Cut => "the rest is left out",
        };
        format!("| {field} | {} | {what} |\n", format!("{max} {unit}").trim_end())
    };
    let rows: String = BOUNDS.iter().map(row).collect();
    format!("| what | at most | beyond it |\n|---|---|---|\n{rows}")
}

#[test]
fn s3_security_prints_the_bounds_that_hold() {
    const BEGIN: &str = "<!-- generated: bounds of the job service -->\n";
    const END: &str = "<!-- end: bounds of the job service -->";
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../SECURITY.md");
    let text = std::fs::read_to_string(path).unwrap();
    let (head, rest) = text.split_once(BEGIN).unwrap();
    let (found, tail) = rest.split_once(END).unwrap();
    if std::env::var("UPDATE_EXPECT").is_ok_and(|value| value == "1") {
        std::fs::write(path, format!("{head}{BEGIN}{}{END}{tail}", table())).unwrap();
    } else {
        assert_eq!(found, table(), "UPDATE_EXPECT=1 writes it");
    }
}
