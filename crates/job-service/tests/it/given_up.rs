//! Jobs that a database takes for lost while its control plane cannot be heard.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use firn_job_service::control::pool::Limits;
use firn_job_service::{ControlPlane, ControlPlaneOptions, SharedToken};
use firn_jobs::{CompactSpec, ErrorKind, Executor};
use firn_storage::{Priority, Spawn, ThreadSpawn};

use crate::scene::{Scene, any_port};

/// Passes on what comes for another address, or keeps all of it until it is to go on. Nothing is
/// lost: what a side sent before it closed is still passed on.
struct Relay {
    address: SocketAddr,
    is_held: Arc<AtomicBool>,
}

impl Relay {
    fn to(target: SocketAddr) -> Self {
        let listener = TcpListener::bind(any_port()).unwrap();
        let (address, is_held) = (listener.local_addr().unwrap(), Arc::new(AtomicBool::new(false)));
        let holds = Arc::clone(&is_held);
        spawn(move || {
            for here in listener.incoming() {
                let (here, there) = (here.unwrap(), TcpStream::connect(target).unwrap());
                let ways = [(&here, &there), (&there, &here)];
                for (from, to) in ways.map(|(from, to)| (from.try_clone().unwrap(), to.try_clone().unwrap()))
                {
                    let holds = Arc::clone(&holds);
                    spawn(move || pass(from, to, &holds));
                }
            }
        });
        Self { address, is_held }
    }

    fn hold(&self, is_held: bool) {
        self.is_held.store(is_held, Ordering::SeqCst);
    }
}

fn spawn(work: impl FnOnce() + Send + 'static) {
    ThreadSpawn::new().spawn("relay".to_owned(), Priority::Background, Box::new(work)).unwrap();
}

/// Ends with either side.
fn pass(mut from: TcpStream, mut to: TcpStream, is_held: &AtomicBool) {
    let mut bytes = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        while is_held.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(5));
        }
        if to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    let _gone = to.shutdown(std::net::Shutdown::Write);
}

#[test]
fn a_control_plane_that_is_heard_again_forgets_what_was_given_up_meanwhile() {
    let mut scene = Scene::new();
    // No worker is there that could do anything, and a silent client is waited for.
    let limits =
        Limits { no_worker: Duration::from_secs(600), client: Duration::from_secs(600), ..Limits::default() };
    let options = ControlPlaneOptions {
        address: any_port(),
        token: SharedToken::none(),
        tls: None,
        connections_max: 100,
        limits,
        seed: 6,
    };
    let plane = ControlPlane::start(&options, Arc::clone(&scene.clock), &scene.spawn).unwrap();
    let relay = Relay::to(plane.address());
    let remote = scene.remote(&[relay.address]);
    let submit = |stem: &str| {
        let spec = CompactSpec { output_stem: stem.to_owned(), ..CompactSpec::default() };
        remote.submit(spec.into()).unwrap()
    };
    let numbers = || {
        let mut numbers: Vec<u64> = plane.watch().rows(100).jobs.iter().map(|row| row.key.number).collect();
        numbers.sort_unstable();
        numbers
    };
    let given_up = submit("first");
    scene.wait_until(|| numbers() == [0]);
    relay.hold(true);
    // What is on its way now arrives late.
    let late = submit("second");
    for job in [&given_up, &late] {
        assert_eq!(job.wait().unwrap_err().kind, ErrorKind::Unavailable);
    }
    assert_eq!(numbers(), [0], "it knows of nothing");
    let cancelled = submit("third");
    cancelled.cancel();
    assert_eq!(cancelled.wait().unwrap_err().kind, ErrorKind::Cancelled);
    relay.hold(false);
    let wanted = submit("fourth");
    scene.wait_until(|| numbers() == [3]);
    scene.clock.sleep(Duration::from_millis(500));
    assert_eq!(numbers(), [3], "and nothing comes back");
    assert!(wanted.poll().is_none());
}
