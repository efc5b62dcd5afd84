//! A control plane that stands still while its database has much to say.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use firn_jobs::{CompactSpec, ErrorKind, Executor, JobSpec};

use crate::scene::{Scene, any_port};
use crate::skew::Other;

/// A way to a server on which nothing moves once it is stopped, and no side hangs up.
struct Way {
    address: SocketAddr,
    is_stopped: Arc<AtomicBool>,
}

impl Way {
    fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, is_stopped) = (listener.local_addr().unwrap(), Arc::new(AtomicBool::new(false)));
        let stops = Arc::clone(&is_stopped);
        std::thread::spawn(move || {
            for near in listener.incoming().flatten() {
                let far = TcpStream::connect(server).unwrap();
                for (mut from, mut to) in [(near.try_clone().unwrap(), far.try_clone().unwrap()), (far, near)]
                {
                    let stops = Arc::clone(&stops);
                    std::thread::spawn(move || {
                        let mut bytes = [0; 4096];
                        while let Ok(count @ 1..) = from.read(&mut bytes) {
                            // What is sent is taken, and goes nowhere.
                            if !stops.load(Ordering::SeqCst) && to.write_all(&bytes[..count]).is_err() {
                                return;
                            }
                        }
                    });
                }
            }
        });
        Self { address, is_stopped }
    }
}

#[test]
fn a_control_plane_that_stands_still_is_noticed_however_often_there_is_news() {
    let mut scene = Scene::new();
    let plane = scene.plane(any_port());
    let way = Way::to(plane.address());
    // A worker with four slots, which begins nothing that it is given after them.
    let mut other = Other::at(plane.address());
    assert_eq!(other.pull(JobSpec::VERSION, 0), []);
    let remote = scene.remote(&[way.address]);
    let job = |at: u32| CompactSpec { output_stem: format!("job{at}"), ..CompactSpec::default() }.into();
    let handles: Vec<_> = (0..6).map(|at| remote.submit(job(at)).unwrap()).collect();
    let (lives, is_over) = std::sync::mpsc::channel::<()>();
    let pulls = std::thread::spawn(move || {
        while is_over.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
            other.pull(JobSpec::VERSION, 100);
        }
    });
    scene.wait_until(|| handles.iter().any(firn_jobs::JobHandle::is_waiting));
    way.is_stopped.store(true, Ordering::SeqCst);
    let begun = scene.clock.now();
    let mut soon = false;
    while handles.iter().any(|handle| handle.poll().is_none()) {
        soon = !soon;
        remote.urge(Some(Duration::from_secs(if soon { 10 } else { 40 })));
        scene.clock.sleep(Duration::from_millis(300));
        // Half a second that a question is held, and five for its answer; the same again for a
        // second try.
        assert!(scene.clock.now() - begun < Duration::from_secs(14), "nobody notices");
    }
    for handle in handles {
        assert_eq!(handle.wait().unwrap_err().kind, ErrorKind::Unavailable);
    }
    drop(lives);
    pulls.join().unwrap();
}
